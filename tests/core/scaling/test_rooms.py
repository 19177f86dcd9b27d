"""A node is room only for pods that its own taints and labels let in, for as long as these stay."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.model import Node, Stage
from receiver.core.model.pods import Pod, Requirement, Toleration
from receiver.core.model.policy import Objective, Taint
from receiver.core.scaling.assign import assign
from receiver.core.scaling.wanted import Assignment
from tests.core.builders import (
    GPU,
    HOUR,
    MINUTE,
    NOW,
    a_busy_node,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    run,
    with_fields,
)

MAINTENANCE = Taint(key="maintenance", value="true")
EVICTING = replace(MAINTENANCE, effect="NoExecute")
SOFT = replace(MAINTENANCE, effect="PreferNoSchedule")
POOLS_OWN = Taint(key=GPU, value="present")
CORDON = Taint(key="node.kubernetes.io/unschedulable", value="")
OF_OTHERS = tuple(
    Taint(key=key, value="1540453142")
    for key in (
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/out-of-service",
        "node.cloudprovider.kubernetes.io/uninitialized",
    )
)
TOLERATES = Toleration(key="maintenance", operator="Exists")
ANYTHING = Toleration(operator="Exists")
USED: dict[str, Any] = {"usable_since": NOW - 2 * HOUR}  # and idle for a part of that: a pod ran there
LABELLED = a_pool(labels={"gpu": "on-demand"})


def seen(pod: Pod, *nodes: Node, pool: Any = None, **known: Any) -> Assignment:
    """The assignment of one waiting pod to one pool of *nodes*."""
    return assign(facts(a_state(*nodes), waiting=[pod], **known), a_policy(pool or a_pool(taints=(POOLS_OWN,))))


def bought(found: Assignment) -> int:
    return found.pools["l40s-id"].for_demand


TOLERANT = a_pod(tolerations=(Toleration(key=GPU, operator="Exists"),))
EXTRA = with_fields(TOLERANT, tolerations=(*TOLERANT.scheduling.tolerations, TOLERATES))
ALL = with_fields(TOLERANT, tolerations=(ANYTHING,))


@pytest.mark.parametrize(
    ("taint", "pod", "nodes"),
    [
        pytest.param(MAINTENANCE, TOLERANT, 1, id="a person's taint"),
        pytest.param(EVICTING, TOLERANT, 1, id="one that evicts"),
        *(pytest.param(taint, TOLERANT, 1, id=taint.key) for taint in OF_OTHERS),
        pytest.param(replace(POOLS_OWN, value="other"), with_fields(TOLERANT, tolerations=(
            Toleration(key=GPU, value="present"),)), 1, id="the pool's key with another value"),
        pytest.param(MAINTENANCE, EXTRA, 0, id="a taint that the pod tolerates"),
        pytest.param(EVICTING, ALL, 0, id="a pod that tolerates everything"),
        pytest.param(SOFT, TOLERANT, 0, id="a soft taint"),
        pytest.param(POOLS_OWN, TOLERANT, 0, id="the pool's own taint"),
        pytest.param(CORDON, TOLERANT, 0, id="the taint of a cordon, which has rules of its own"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("age", [20 * MINUTE, 30 * 24 * HOUR], ids=["young", "old"])
def test_an_idle_node_is_room_for_pods_that_tolerate_its_taints(
    taint: Taint, pod: Pod, nodes: int, age: timedelta
) -> None:
    node = a_node(taints=(POOLS_OWN, taint), created_at=NOW - age, usable_since=NOW - age)
    found = seen(pod, node)
    assert bought(found) == nodes
    assert found.pools["l40s-id"].nodes.needed == (frozenset() if nodes else {"i-n1"})


def test_beside_a_tainted_node_a_plain_one_is_used() -> None:
    found = seen(TOLERANT, a_node("n1", taints=(MAINTENANCE,)), a_node("n2"))
    assert (bought(found), found.pools["l40s-id"].work.placed) == (0, (("ml/train", "i-n2"),))


def test_beside_a_busy_plain_node_a_tainted_one_is_not_enough() -> None:
    assert bought(seen(TOLERANT, a_busy_node("n1"), a_node("n2", taints=(MAINTENANCE,)))) == 1


def test_the_free_gpus_of_a_busy_tainted_node_are_no_room() -> None:
    node = a_busy_node(allocatable={GPU: 8}, taints=(MAINTENANCE,))
    assert bought(seen(a_pod(), node, pool=a_pool(resources={GPU: 8}))) == 1


def test_each_pod_takes_the_room_that_it_may_use_whatever_the_order() -> None:
    nodes = a_node("n1", taints=(MAINTENANCE,)), a_node("n2")
    waiting = [with_fields(a_pod("a"), tolerations=(TOLERATES,)), a_pod("b")]
    for pods in (waiting, waiting[::-1]):
        pods = [replace(pod, created_at=NOW - age * MINUTE) for pod, age in zip(pods, (2, 1), strict=True)]
        found = assign(facts(a_state(*nodes), waiting=pods), a_policy())
        assert found.pools["l40s-id"].for_demand == 0, [pod.name for pod in pods]


def test_a_gang_is_bought_nodes_beside_a_tainted_one() -> None:
    pods = [a_pod(f"w-{n}", gang="ml/g") for n in range(2)]
    found = assign(facts(a_state(a_node("n1", taints=(MAINTENANCE,)), a_node("n2")), waiting=pods), a_policy())
    assert found.pools["l40s-id"].for_demand == 1


def test_a_node_on_its_way_is_room_whatever_taints_it_carries_meanwhile() -> None:
    node = a_node(stage=Stage.INSTALLING, taints=OF_OTHERS, idle_since=None)
    assert bought(seen(TOLERANT, node)) == 0


def test_a_startup_taint_that_has_come_back_for_a_moment_is_no_reason_to_buy() -> None:
    taint = Taint(key="readiness.k8s.io/gpu", value="")
    assert bought(seen(TOLERANT, a_node(taints=(taint,), startup_taint=taint.key))) == 0


def test_no_third_node_is_bought_where_two_were_tainted_before_any_pod_ran() -> None:
    born: dict[str, Any] = {"usable_since": NOW - 15 * MINUTE, "taints": (MAINTENANCE,)}
    found = seen(TOLERANT, a_node("n1", **born), a_node("n2", **born))
    assert bought(found) == 0
    [misfit] = found.misfits
    assert misfit.detail == (
        "no node is bought for pod ml/train (l40s: its newest nodes (n1, n2) got the taint maintenance=true:NoSchedule"
        " before a pod ran there, and the next one probably would, too)"
    )


def test_another_pool_is_bought_where_two_nodes_of_the_cheapest_were_tainted_before_any_pod_ran() -> None:
    born: dict[str, Any] = {"usable_since": NOW - 15 * MINUTE, "taints": (MAINTENANCE,)}
    states = a_state(a_node("n1", **born), a_node("n2", **born)), a_state(pool="dear-id")
    dear = a_pool("dear", price_usd_per_hour=Decimal(9))
    found = assign(facts(*states, waiting=[a_pod()]), a_policy(a_pool(), dear))
    assert (bought(found), found.pools["dear-id"].for_demand, found.misfits) == (0, 1, ())


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([a_node("n2", taints=(MAINTENANCE,), **USED)], id="the other one had run pods"),
        pytest.param([a_node("n2", usable_since=NOW - 15 * MINUTE), a_busy_node("n3")], id="the other one is plain"),
    ],
)
def test_one_new_node_that_was_tainted_stops_nothing(others: list[Node]) -> None:
    pods = [replace(TOLERANT, name=name, uid=name) for name in ("a", "b")]
    first = a_node("n1", usable_since=NOW - 15 * MINUTE, taints=(MAINTENANCE,))
    found = assign(facts(a_state(first, *others), waiting=pods), a_policy())
    assert found.pools["l40s-id"].for_demand == len(pods) - (len(others) - 1)


@pytest.mark.parametrize(
    ("labels", "pod", "nodes"),
    [
        pytest.param({"gpu": "reserved"}, {"node_selector": {"gpu": "on-demand"}}, 1, id="relabelled"),
        pytest.param({"other": "label"}, {"node_selector": {"gpu": "on-demand"}}, 1, id="its label was removed"),
        pytest.param({"gpu": "on-demand"}, {"node_selector": {"gpu": "on-demand"}}, 0, id="as configured"),
        pytest.param({"gpu": "reserved"}, {}, 0, id="relabelled, and the pod selects nothing"),
        pytest.param(
            {"kubernetes.io/hostname": "n1"},
            {"affinity": ((Requirement(key="kubernetes.io/hostname", operator="NotIn", values=("n1",)),),)},
            1,
            id="the pod avoids this host",
        ),
        pytest.param(
            {"gpu": "on-demand"},
            {"affinity": ((Requirement(key="field metadata.name", operator="NotIn", values=("n1",)),),)},
            1,
            id="the pod avoids this node by its name",
        ),
        pytest.param(
            {"kubernetes.io/hostname": "n1"},
            {"affinity": ((Requirement(key="kubernetes.io/hostname", operator="NotIn", values=("n2",)),),)},
            0,
            id="the pod avoids another host",
        ),
    ],
)
def test_a_node_is_room_for_pods_that_still_select_it(labels: dict[str, str], pod: dict[str, Any], nodes: int) -> None:
    found = seen(a_pod(**pod), a_node(labels={**labels}, **USED), pool=LABELLED)
    assert bought(found) == nodes


def test_a_new_node_has_a_moment_to_get_its_labels() -> None:
    pod = a_pod(node_selector={"gpu": "on-demand"})
    node = a_node(labels={"kubernetes.io/os": "linux"}, usable_since=NOW - MINUTE)
    assert bought(seen(pod, node, pool=LABELLED)) == 0


def test_labels_that_we_set_ourselves_are_on_their_way() -> None:
    pod = a_pod(node_selector={"gpu": "on-demand"})
    node = a_node(labels={"kubernetes.io/os": "linux"}, **USED)
    assert bought(seen(pod, node, pool=replace(LABELLED, apply_to_nodes=True))) == 0


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "field metadata.name"])
def test_a_pod_that_is_pinned_to_one_node_buys_none_and_takes_no_other_room(key: str) -> None:
    pinned = a_pod("pinned", affinity=((Requirement(key=key, operator="In", values=("n9",)),),))
    found = assign(facts(a_state(a_node()), waiting=[pinned, a_pod("b")]), a_policy())
    assert (found.pools["l40s-id"].for_demand, found.pools["l40s-id"].work.placed) == (0, (("ml/b", "i-n1"),))


def test_a_tainted_idle_node_is_not_kept_for_work_that_it_keeps_away() -> None:
    assert "i-n1" not in seen(a_pod(), a_due_node(taints=(MAINTENANCE,))).pools["l40s-id"].nodes.needed


def test_a_tainted_node_is_no_spare_node() -> None:
    pool = a_pool(standby_nodes=1)
    found = facts(a_state(a_due_node(taints=(MAINTENANCE,))))
    assert assign(found, a_policy(pool)).pools["l40s-id"].by_source["standby"] == 1
    plain = facts(a_state(a_due_node("n1", taints=(MAINTENANCE,)), a_node("n2")))
    _, decisions = run(plain, a_policy(pool))
    assert decisions["l40s"].candidates == ("i-n1",)


def test_a_tainted_node_is_no_headroom() -> None:
    policy = a_policy(objective=Objective.WAIT)
    recent = a_busy_node("n1", pods=(a_pod("on-n1", node="n1", created_at=NOW - MINUTE),))
    plain, tainted = a_node("n2"), a_node("n2", taints=(MAINTENANCE,))
    wants = [
        assign(facts(a_state(recent, node)), policy).pools["l40s-id"].by_source["headroom"] for node in (plain, tainted)
    ]
    assert wants == [0, 1]


def test_work_is_not_moved_to_a_tainted_node() -> None:
    pool = a_pool(resources={GPU: 2})
    moving = a_pod("moving", node="n1", owner="ReplicaSet/a", evictable=True)
    n1 = a_node("n1", allocatable={GPU: 2}, pods=(moving,), idle_since=None)
    n2 = a_busy_node("n2", allocatable={GPU: 2})
    per_node = [
        assign(facts(a_state(n1, replace(n2, taints=taints))), a_policy(pool)).pools["l40s-id"].nodes.movable
        for taints in ((), (MAINTENANCE,))
    ]
    assert per_node == [{"i-n1"}, frozenset()]
