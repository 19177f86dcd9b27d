"""Whose work it is where installations share a cluster."""

from dataclasses import replace
from typing import Any

import pytest

from receiver.core.model.installations import ALONE, InstallationLease, OtherInstallations
from receiver.core.model.model import Facts
from receiver.core.model.pods import Pod, PodPhase, Requirement
from receiver.core.model.policy import Policy, Pool, Taint
from receiver.core.model.room_requests import RoomRequest
from receiver.core.scaling.ownership import own_work
from tests.core.builders import GPU, HOUR, MINUTE, NOW, a_pod, a_policy, a_pool, a_state, facts
from tests.given.requests import booking_of, buffer_of, candidate_of

SIZE = "node.kubernetes.io/instance-type"
OURS = a_pool("l40s", labels={"gpu": "l40s"})
THEIRS = a_pool("a100", size="an.g1.a100.kube.x1", labels={"gpu": "a100"})
WIDE = a_pool("wide", size="an.g1.l40s.kube.x8", resources={GPU: 8})


def beside(*pools: Pool, key: str = "z/other", minutes: int = 0, **changes: Any) -> OtherInstallations:
    """Another installation with *pools*, whose last sign is so many minutes old. Ours is ``m/own``."""
    at = NOW - minutes * MINUTE
    return OtherInstallations(
        own="m/own", installations=(InstallationLease(key=key, pools=pools, renewed_at=at, **changes),)
    )


def left(others: OtherInstallations, *pods: Pod, policy: Policy | None = None, **found: Any) -> Facts:
    """What is left of the facts of our one pool with *pods* that wait."""
    known = facts(a_state(), waiting=pods, **found)
    return own_work(known, policy or a_policy(OURS), others)


def candidate(*pods: Pod, **changes: Any) -> RoomRequest:
    return candidate_of("ml/w", pods, **changes)


def announced(count: int = 1, gpus: int = 1, **changes: Any) -> tuple[Pod, ...]:
    return tuple(a_pod(f"p{n}", gpus, uid="", gang="ml/r", **changes) for n in range(count))


def booking(*pods: Pod, **changes: Any) -> RoomRequest:
    return booking_of("ml/r", pods, NOW, announced=pods, **changes)


def test_alone_the_facts_are_as_they_were() -> None:
    known = facts(a_state(), waiting=[a_pod(gpus=16)], requests=(candidate(),))
    assert own_work(known, a_policy(OURS), ALONE) is known
    assert own_work(known, a_policy(OURS), beside(THEIRS, minutes=61)) is known


def test_a_pod_that_fits_here_stays_demand_beside_any_other() -> None:
    assert len(left(beside(OURS, key="a/first"), a_pod()).waiting) == 1


@pytest.mark.parametrize(
    ("selector", "gpus", "ours"),
    [
        ({"gpu": "l40s"}, 8, True),  # our label: too large for our nodes
        ({SIZE: OURS.size}, 8, True),
        ({"kubernetes.civo.com/civo-node-pool": OURS.id}, 8, True),
        ({"gpu": "a100"}, 1, False),
        ({SIZE: THEIRS.size}, 8, False),
        ({"kubernetes.civo.com/civo-node-pool": THEIRS.id}, 8, False),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, 1, False),
        ({"gpu": "h100"}, 1, False),  # of neither
        ({"rack": "r7"}, 1, False),  # a label that neither describes
        ({"kubernetes.io/os": "linux"}, 8, False),  # of both
    ],
)
def test_a_misfit_is_ours_to_refuse_if_it_selects_our_nodes_alone(
    selector: dict[str, str], gpus: int, ours: bool
) -> None:
    assert bool(left(beside(THEIRS), a_pod(gpus=gpus, node_selector=selector)).waiting) is ours


def test_an_affinity_selects_as_a_node_selector_does() -> None:
    def with_affinity(value: str) -> Pod:
        return a_pod(gpus=8, affinity=((Requirement(key="gpu", operator="In", values=(value,)),),))

    assert left(beside(THEIRS), with_affinity("l40s")).waiting
    assert not left(beside(THEIRS), with_affinity("a100")).waiting


def test_a_misfit_without_labels_that_the_others_pools_hold_is_left_to_it() -> None:
    assert not left(beside(WIDE, key="z/other"), a_pod(gpus=8)).waiting
    tainted = replace(WIDE, taints=(Taint(key="team", value="x"),))
    assert left(beside(tainted), a_pod(gpus=8)).waiting  # it does not tolerate that, so nobody can hold it


@pytest.mark.parametrize(("key", "told"), [("z/other", True), ("a/other", False)])
def test_what_is_too_large_for_all_is_told_by_the_first(key: str, told: bool) -> None:
    assert bool(left(beside(THEIRS, key=key), a_pod(gpus=16)).waiting) is told


def test_an_installation_whose_description_cannot_be_read_may_hold_anything() -> None:
    unread = beside(key="z/other", readable=False)
    assert not left(unread, a_pod(gpus=16)).waiting
    assert not left(unread, a_pod(gpus=8, node_selector={"gpu": "l40s"})).waiting


def test_an_installation_that_is_down_keeps_its_work_for_an_hour() -> None:
    pod = a_pod(node_selector={"gpu": "a100"})
    assert not left(beside(THEIRS, minutes=59), pod).waiting
    assert left(beside(THEIRS, minutes=61), pod).waiting


def test_a_gang_is_left_whole() -> None:
    gang = [a_pod("a", gang="ml/g"), a_pod("b", gpus=8, gang="ml/g")]
    assert left(beside(WIDE), *gang).waiting == ()


def test_a_workload_is_answered_by_the_pools_that_hold_all_of_it() -> None:
    here, there = a_pod(node_selector={"gpu": "l40s"}), a_pod(node_selector={"gpu": "a100"})
    for pods, ours in (((here,), True), ((there,), False), ((here, there), False)):
        assert bool(left(beside(THEIRS), requests=(candidate(*pods),)).other_work.requests) is ours


@pytest.mark.parametrize(("key", "ours"), [("z/other", True), ("a/other", False)])
def test_of_two_that_hold_it_the_first_answers(key: str, ours: bool) -> None:
    twin = a_pool("other", labels={"gpu": "l40s"})
    assert bool(left(beside(twin, key=key), requests=(candidate(a_pod()),)).other_work.requests) is ours
    assert bool(left(beside(twin, key=key), requests=(candidate(),)).other_work.requests) is ours  # it requests no GPU


def test_one_that_is_down_does_not_come_first() -> None:
    twin = beside(a_pool("other"), key="a/other", minutes=10)
    assert left(twin, requests=(candidate(a_pod()),)).other_work.requests


def test_what_names_our_pools_is_ours_although_it_does_not_fit() -> None:
    found = left(
        beside(WIDE, key="a/other"),
        *announced(2, gpus=8),
        requests=(
            candidate(a_pod(gpus=8), named=True),
            booking(*announced(2, gpus=8), named=True),
            buffer_of("ml/b", a_pod(gpus=8, uid=""), 1, named=True),
        ),
    )
    assert (len(found.waiting), len(found.other_work.requests)) == (2, 3)


def test_a_request_of_another_is_left_with_its_pods() -> None:
    pods = announced(2, node_selector={"gpu": "a100"})
    found = left(beside(THEIRS), a_pod(), *pods, requests=(booking(*pods),))
    assert ([pod.name for pod in found.waiting], found.other_work.requests) == (["train"], ())


def test_a_request_is_left_to_the_pools_that_may_have_as_many_nodes() -> None:
    pods = announced(9)
    large = beside(replace(THEIRS, labels={}, max_nodes=20), key="z/other")
    assert not left(large, *pods, requests=(booking(*pods),)).other_work.requests
    small = beside(replace(THEIRS, labels={}, max_nodes=2), key="z/other")
    assert left(
        small, *pods, requests=(booking(*pods),)
    ).other_work.requests  # too large for both: the first refuses it


def test_a_request_whose_pods_run_stays_with_the_one_that_booked_it() -> None:
    used = booking_of("ml/r", (), NOW, announced=announced(1, node_selector={"gpu": "a100"}), consumed=True)
    assert not left(beside(THEIRS), requests=(used,)).other_work.requests
    ours = replace(used, announced=announced(1, node_selector={"gpu": "l40s"}))
    assert left(beside(THEIRS, key="a/other"), requests=(ours,)).other_work.requests


def test_a_buffer_is_kept_by_the_pools_that_hold_its_chunks() -> None:
    def chunk(gpu: str) -> RoomRequest:
        return buffer_of(f"ml/{gpu}", a_pod(gpu, uid="", node_selector={"gpu": gpu}), 2)

    assert [b.key for b in left(beside(THEIRS), requests=(chunk("l40s"), chunk("a100"))).other_work.requests] == [
        "ml/l40s"
    ]


def gated(name: str, minutes: int, **changes: Any) -> Pod:
    """A pod behind our gate that was created so long ago and may wait for an hour."""
    at = NOW - minutes * MINUTE
    return a_pod(name, phase=PodPhase.DEFERRED, created_at=at, may_wait=HOUR, **changes)


def test_a_gate_is_opened_by_the_pools_that_hold_the_pod() -> None:
    pods = (gated("here", 5, node_selector={"gpu": "l40s"}), gated("there", 5, node_selector={"gpu": "a100"}))
    assert [p.name for p in left(beside(THEIRS), deferred=pods).other_work.deferred] == ["here"]


def test_a_gate_that_no_installation_opened_in_time_is_opened_by_the_first() -> None:
    pods = (gated("due", 62, node_selector={"gpu": "h100"}), gated("early", 59, node_selector={"gpu": "h100"}))
    assert [p.name for p in left(beside(THEIRS), deferred=pods).other_work.deferred] == ["due"]
    assert not left(beside(THEIRS, key="a/other"), deferred=pods).other_work.deferred


def test_claims_of_devices_are_judged_by_the_installation_that_has_them() -> None:
    claims = a_pod(requests={GPU: 1}, claims=("gpu",))
    assert left(beside(OURS, key="a/other"), requests=(candidate(claims),)).other_work.requests
    assert not left(beside(WIDE, key="z/other"), a_pod(gpus=2, claims=("gpu",))).waiting


def test_a_pod_whose_claims_no_pool_here_has_is_told_by_the_installation_that_it_selects() -> None:
    def claiming(**changes: Any) -> Pod:
        return a_pod(requests={}, claims=("1 device",), not_bought="no device is a GPU of a pool", **changes)

    assert not left(beside(THEIRS), claiming()).waiting
    assert left(beside(THEIRS), claiming(node_selector={"gpu": "l40s"})).waiting
    assert left(ALONE, claiming()).waiting
