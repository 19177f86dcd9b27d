"""What a device is of a GPU."""

import pytest

from receiver.core.model.pods import gpus_of

SEVENTH = pytest.approx(1 / 7)


@pytest.mark.parametrize(
    ("resource", "labels", "gpus"),
    [
        ("nvidia.com/gpu", {}, 1.0),
        ("nvidia.com/gpu", {"nvidia.com/gpu.replicas": "1"}, 1.0),
        ("nvidia.com/gpu", {"nvidia.com/gpu.replicas": "4"}, 0.25),
        ("nvidia.com/gpu.shared", {"nvidia.com/gpu.replicas": "10"}, 0.1),
        ("nvidia.com/gpu.shared", {}, 1.0),
        ("nvidia.com/gpu.shared", {"nvidia.com/gpu.replicas": "0"}, 1.0),
        ("nvidia.com/gpu.shared", {"nvidia.com/gpu.replicas": "many"}, 1.0),
        ("nvidia.com/mig-1g.5gb", {}, SEVENTH),
        ("nvidia.com/mig-1g.5gb.me", {}, SEVENTH),
        ("nvidia.com/mig-3g.20gb", {}, pytest.approx(3 / 7)),
        ("nvidia.com/mig-7g.80gb", {}, 1.0),
        ("nvidia.com/mig-1c.3g.20gb", {}, SEVENTH),
        ("nvidia.com/mig-2g.12gb", {}, 0.5),
        ("nvidia.com/mig-1g.10gb.shared", {"nvidia.com/mig-1g.10gb.replicas": "2"}, pytest.approx(1 / 14)),
        ("nvidia.com/gpu", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, SEVENTH),
        ("resource.k8s.io/claims", {"nvidia.com/gpu.replicas": "4"}, 1.0),
    ],
)
def test_a_device_is_the_part_of_a_gpu_that_its_name_or_its_node_says(
    resource: str, labels: dict[str, str], gpus: float
) -> None:
    assert gpus_of({resource: 1}, labels) == gpus


def test_all_slices_of_a_gpu_are_that_gpu() -> None:
    assert gpus_of({"nvidia.com/mig-1g.5gb": 7}, {}) == 1.0
    assert gpus_of(
        {"nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-2g.10gb": 1, "nvidia.com/mig-1g.5gb": 2}, {}
    ) == pytest.approx(1)
