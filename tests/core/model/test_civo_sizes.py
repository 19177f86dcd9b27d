"""What the labels of Civo's GPU sizes will be, before one of their nodes was seen."""

import re

import pytest

from receiver.config.prices import shipped
from receiver.core.model.civo_sizes import labels_of_size

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@pytest.mark.parametrize("size", sorted(shipped().sizes))
def test_every_size_that_has_a_price_has_labels_that_nodes_can_carry(size: str) -> None:
    labels, gpus = labels_of_size(size, None), shipped().sizes[size].gpus
    assert labels["nvidia.com/gpu.count"] == (str(gpus),)
    for values in labels.values():
        assert values
        assert all(LABEL_VALUE.fullmatch(value) for value in values)


@pytest.mark.parametrize(
    ("size", "products", "memory"),
    [
        ("an.g1.l40s.kube.x8", ("NVIDIA-L40S",), "46068"),
        ("g4g.40.kube.small", ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB"), "40960"),
        ("g4g.kube.xlarge", ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"), "81920"),
        ("an.g1.h100.kube.x8", ("NVIDIA-H100-80GB-HBM3",), "81559"),
        ("an.g1.h200sxm.kube.x8", ("NVIDIA-H200",), "143771"),
        ("an.g1.b200sxm.kube.x8", ("NVIDIA-B200",), "183359"),
    ],
)
def test_a_size_says_product_and_memory(size: str, products: tuple[str, ...], memory: str) -> None:
    labels = labels_of_size(size, None)
    assert labels["nvidia.com/gpu.product"] == products
    assert labels["nvidia.com/gpu.memory"][0] == memory


@pytest.mark.parametrize("size", ["g4s.kube.medium", "an.g1.l40s.kube.x", "g4g.kube.huge", "other", ""])
def test_a_size_that_is_not_known_says_nothing(size: str) -> None:
    assert labels_of_size(size, 1) == {}


def test_where_gpus_are_shared_by_time_the_product_may_be_called_shared_and_the_memory_is_not_known() -> None:
    labels = labels_of_size("an.g1.l40s.kube.x1", 4)
    assert labels["nvidia.com/gpu.product"] == ("NVIDIA-L40S", "NVIDIA-L40S-SHARED")
    assert labels["nvidia.com/gpu.count"] == ("1", "4")
    assert "nvidia.com/gpu.memory" not in labels
