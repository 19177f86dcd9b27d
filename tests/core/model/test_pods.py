"""What a device is of a GPU; the wish that a node stays: whose is honoured, for how long, what is said of others."""

from datetime import datetime, timedelta

import pytest

from receiver.core.model.pods import gpus_of, honoured, kept
from receiver.core.model.policy import KeepUntil
from receiver.core.notices.workload_notices import ignored_wishes
from tests.core.builders import HOUR, NOW, a_busy_node, a_pod, a_state

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


ALLOWED = KeepUntil(namespaces=frozenset({"ml"}), longest=timedelta(hours=24))
NOBODY = (None, "")


@pytest.mark.parametrize(
    ("namespace", "wish", "until"),
    [
        ("ml", NOW + HOUR, NOW + HOUR),
        ("ml", NOW + 24 * HOUR, NOW + 24 * HOUR),
        ("ml", NOW + 24 * HOUR + timedelta(seconds=1), None),
        ("ml", NOW, None),
        ("ml", None, None),
        ("web", NOW + HOUR, None),
    ],
)
def test_a_wish_counts_in_a_listed_namespace_for_a_time_to_come_that_is_not_too_far(
    namespace: str, wish: datetime | None, until: datetime | None
) -> None:
    assert honoured(a_pod(namespace=namespace, keep_until=wish), ALLOWED, NOW) == until


def test_of_several_wishes_the_latest_counts() -> None:
    pods = [a_pod("a", keep_until=NOW + HOUR), a_pod("b", keep_until=NOW + 3 * HOUR), a_pod("c")]
    assert kept(NOBODY, pods, ALLOWED, NOW) == (NOW + 3 * HOUR, "ml/b")


def test_a_wish_outlives_its_pod_until_its_time() -> None:
    before = (NOW + HOUR, "ml/train")
    assert kept(before, [], ALLOWED, NOW) == before
    assert kept(before, [], ALLOWED, NOW + HOUR) == before  # over, and Node.kept says so; the clock may be ahead


def test_a_wish_that_its_pod_takes_back_or_shortens_counts_no_longer() -> None:
    before = (NOW + 3 * HOUR, "ml/train")
    assert kept(before, [a_pod()], ALLOWED, NOW) == NOBODY
    assert kept(before, [a_pod(keep_until=NOW + HOUR)], ALLOWED, NOW) == (NOW + HOUR, "ml/train")


def test_a_wish_of_a_pod_that_is_gone_is_not_lost_to_a_shorter_one_of_another() -> None:
    before = (NOW + 3 * HOUR, "ml/gone")
    assert kept(before, [a_pod(keep_until=NOW + HOUR)], ALLOWED, NOW) == before


def test_a_wish_that_is_honoured_or_over_is_not_told() -> None:
    pods = (a_pod("a", keep_until=NOW + HOUR), a_pod("b", namespace="web", keep_until=NOW - HOUR), a_pod("c"))
    assert ignored_wishes([a_state(a_busy_node(pods=pods))], ALLOWED, NOW) == {}


@pytest.mark.parametrize(
    ("namespace", "wish", "why"),
    [
        ("web", NOW + HOUR, "the namespace web is not listed under keep_until.namespaces"),
        ("ml", NOW + 25 * HOUR, "that is more than 24h ahead (keep_until.longest)"),
    ],
)
def test_a_wish_that_is_not_honoured_is_told_once_per_owner_with_the_reason(
    namespace: str, wish: datetime, why: str
) -> None:
    pods = tuple(a_pod(n, namespace=namespace, keep_until=wish, owner="Job/train", node=n) for n in ("a", "b"))
    state = a_state(*(a_busy_node(pod.name, pods=(pod,)) for pod in pods))
    [(notice, told)] = ignored_wishes([state], ALLOWED, NOW).items()
    assert notice.title == f"GPU workload {namespace}/Job/train: gpu-autoscaler.io/keep-until is ignored"
    assert why in notice.body
    assert notice.key == wish.isoformat()
    assert told == pods


def test_two_times_that_one_owner_names_are_two_pieces_of_news() -> None:
    pods = tuple(a_pod(str(n), namespace="web", keep_until=NOW + n * HOUR, owner="Job/train") for n in (1, 2))
    found = ignored_wishes([a_state(a_busy_node(pods=pods))], ALLOWED, NOW)
    assert len({notice.topic for notice in found}) == 2
