"""Which sick nodes are repaired, and what that changes for the pool."""

from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.actions import Decision, Verdict, VictimStage
from receiver.core.model.model import Backoff, CordonedBy, Node, Spend, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Budget, KeepOut, Limits, Pool, Repair
from tests.core.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_removal,
    a_silence,
    a_state,
    facts,
    run,
    with_fields,
)

REPLACED = a_pool(repair=Repair.REPLACE, max_nodes=10)
XID = "XID 79 on GPU 0"


def sick(name: str, minutes: float = 11, **changes: Any) -> Node:
    """A busy node that has been sick for so many *minutes*."""
    return a_busy_node(name, **{"sick": XID, "sick_since": NOW - minutes * MINUTE, **changes})


def repaired(*nodes: Node, pool: Pool = REPLACED, **state: Any) -> list[str]:
    """The names of *nodes* that are under repair."""
    known = a_state(*nodes, **{"required": len(nodes), **state})
    assignment, _ = run(facts(known), a_policy(pool), explained_by=None)
    return sorted(n.name for n in nodes if n.instance in assignment.pools[pool.id].nodes.repairs)


def test_a_node_is_repaired_after_ten_minutes_of_sickness() -> None:
    assert repaired(sick("a", 9.9)) == []
    assert repaired(sick("a", 10)) == ["a"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"cordoned_by": CordonedBy.SOMEONE}, id="cordoned by others"),
        pytest.param({"protected": True}, id="protected"),
        pytest.param({"maintained": "is restarted"}, id="maintained"),
        pytest.param({"hosts": ("us",)}, id="hosts us"),
        pytest.param({"kept_by": ("a pod",)}, id="keeps a pod"),
        pytest.param({"kept_until": NOW + HOUR}, id="kept by a workload"),
        pytest.param({"cordoned_for": "repair"}, id="uncordoned by a person"),
        pytest.param({"stage": Stage.UNKNOWN}, id="Kubernetes is silent"),
        pytest.param({"registered": False}, id="not in Kubernetes"),
        pytest.param({"sick": ""}, id="well for the moment"),
    ],
)
def test_a_node_that_others_speak_for_is_not_repaired(changes: dict[str, Any]) -> None:
    assert repaired(sick("a", **changes)) == []


def test_a_node_that_a_person_uncordons_is_room_again_once_it_works() -> None:
    node = a_node("a", cordoned_for="repair")
    assignment, _ = run(facts(a_state(node), waiting=(a_pod("waits"),)), a_policy(REPLACED), explained_by=None)
    assert assignment.pools[REPLACED.id].for_demand == 0


def test_without_the_option_nothing_is_repaired() -> None:
    assert repaired(sick("a"), pool=a_pool()) == []


def test_what_is_begun_goes_on_while_the_pool_may_not_grow() -> None:
    held = Backoff(failures=1, until=NOW + HOUR, reason="internal")
    begun = sick("a", cordoned_by=CordonedBy.US, cordoned_for="repair")
    assert repaired(begun, sick("b"), backoff=held, pool=a_pool(repair=Repair.REPLACE, repair_share=1)) == ["a"]


def test_an_idle_node_that_is_removed_is_repaired_only_while_it_is_sick_and_within_the_share() -> None:
    cordoned: dict[str, Any] = {"cordoned_by": CordonedBy.US, "cordoned_for": "retire-1", "idle_since": NOW, "pods": ()}
    action: dict[str, Any] = {"open_action": a_removal("a", from_count=2)}
    begun = sick("b", cordoned_by=CordonedBy.US, cordoned_for="repair")
    assert repaired(sick("a", **cordoned), sick("b"), **action) == ["a"]
    assert repaired(sick("a", **cordoned), begun, **action) == ["b"]
    assert repaired(sick("a", **{**cordoned, "sick": ""}), **action) == []


def test_a_repair_whose_removal_is_under_way_needs_no_room_and_no_money_for_the_replacement() -> None:
    going: dict[str, Any] = {"cordoned_by": CordonedBy.US, "cordoned_for": "retire-1", "idle_since": NOW, "pods": ()}
    state: dict[str, Any] = {"open_action": a_removal("a")}
    held = Backoff(failures=1, until=NOW + HOUR, reason="internal")
    assert repaired(sick("a", **going), **state, backoff=held) == ["a"]
    policy = a_policy(REPLACED, budget=Budget(monthly_usd=Decimal(10)))
    for node, repairs in ((sick("a", **going), {"i-a"}), (sick("a"), set())):
        found = facts(
            a_state(node, required=1, **(state if repairs else {})), spend=Spend(month="2026-11", usd=Decimal("9.5"))
        )
        assignment, _ = run(found, policy, explained_by=None)
        assert assignment.pools[REPLACED.id].nodes.repairs == repairs


def test_a_node_that_its_removal_spared_needs_room_for_a_replacement_again() -> None:
    held = Backoff(failures=1, until=NOW + HOUR, reason="internal")
    assert repaired(sick("a"), open_action=a_removal("a", stage=VictimStage.SPARED), backoff=held) == []


def test_a_repair_that_is_begun_counts_once_within_the_share() -> None:
    begun = sick("a", 60, cordoned_by=CordonedBy.US, cordoned_for="repair")
    assert repaired(begun, sick("b"), pool=a_pool(repair=Repair.REPLACE, repair_share=1, max_nodes=10)) == ["a", "b"]


def test_a_sick_node_that_is_being_deleted_uses_up_the_share_and_a_well_one_does_not() -> None:
    assert repaired(sick("a", stage=Stage.DELETING), sick("b")) == []
    assert repaired(a_node("a", stage=Stage.DELETING), sick("b")) == ["b"]


def test_idle_nodes_are_repaired_before_busy_ones_and_the_longest_sick_first() -> None:
    nodes = [sick("a", 60), sick("b", 120), a_node("c", sick=XID, sick_since=NOW - 20 * MINUTE)]
    for share, names in ((0.2, ["c"]), (0.67, ["b", "c"])):
        assert repaired(*nodes, pool=a_pool(repair=Repair.REPLACE, repair_share=share, max_nodes=9)) == names


# --- beside work that waits


def due(name: str, **changes: Any) -> Node:
    """An idle node in the last minutes of its paid hour."""
    return a_node(name, **{"created_at": NOW - 57 * MINUTE, "idle_since": NOW - 20 * MINUTE, **changes})


SICK_AND_DUE = due("a", sick=XID, sick_since=NOW - 11 * MINUTE)


def answer(
    *nodes: Node,
    pool: Pool,
    waiting: int = 1,
    policy: dict[str, Any] | None = None,
    state: dict[str, Any] | None = None,
    **given: Any,
) -> Decision:
    """The decision for *nodes* while so many pods wait that no node of the pool has room for."""
    known = a_state(*nodes, **{"required": len(nodes), **(state or {})})
    pods = tuple(a_pod(f"waits-{n}") for n in range(waiting))
    return run(facts(known, waiting=pods, **given), a_policy(pool, **(policy or {})))[1]["l40s"]


@pytest.mark.parametrize("repair", [Repair.NONE, Repair.REPLACE])
def test_growth_goes_first_and_a_sick_node_where_the_pool_cannot_grow(repair: Repair) -> None:
    assert answer(SICK_AND_DUE, pool=a_pool(repair=repair, max_nodes=2)).target == 2
    full = answer(SICK_AND_DUE, pool=a_pool(repair=repair, max_nodes=1))
    assert (full.target, full.candidates) == (0, ("i-a",))
    assert [r.rule for r in full.reasons if r.verdict is Verdict.WANTS] == [
        "dead_nodes" if repair is Repair.REPLACE else "idle_nodes"
    ]
    limited = {"limits": Limits(max_gpus=1)}
    assert answer(SICK_AND_DUE, pool=a_pool(repair=repair, max_nodes=2), policy=limited).target == 0


def test_of_idle_nodes_only_the_sick_go_while_the_pool_cannot_grow() -> None:
    full = answer(SICK_AND_DUE, due("b"), waiting=2, pool=a_pool(max_nodes=2))
    assert (full.present, full.target, full.candidates[:1]) == (2, 1, ("i-a",))


def test_busy_and_young_sick_nodes_make_no_room() -> None:
    for node in (sick("a"), due("a", sick=XID, sick_since=NOW - 11 * MINUTE, created_at=NOW - 30 * MINUTE)):
        full = answer(node, pool=a_pool(max_nodes=1))
        assert (full.target, full.deciding.rule) == (1, "within_maximum")


def test_while_neither_change_is_possible_the_decision_is_about_the_growth() -> None:
    held = answer(SICK_AND_DUE, pool=a_pool(max_nodes=1), state={"silence": a_silence()})
    assert held.target == 1
    assert [r.rule for r in held.reasons if r.verdict is Verdict.WANTS] == ["demand"]


def test_a_repair_that_is_under_way_is_called_off_for_growth_that_only_it_holds_back() -> None:
    cordoned = with_fields(SICK_AND_DUE, cordoned_by=CordonedBy.US, cordoned_for="retire-1")
    state = {"open_action": a_removal("a")}
    called_off = answer(cordoned, pool=REPLACED, state=state)
    assert (called_off.target, called_off.deciding.rule) == (1, "one_change_at_a_time")
    assert answer(cordoned, pool=REPLACED, state=state, waiting=0).target == 0


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"policy": {"budget": Budget(monthly_usd=Decimal(10))}, "spend": Spend(month="2026-11", usd=Decimal(20))},
            id="a budget is at its stop",
        ),
        pytest.param(
            {
                "policy": {"budget": Budget(monthly_usd=Decimal(10**6), keep_out=KeepOut(namespaces=("ml",)))},
                "kept_out": {"ml": NOW},
            },
            id="a budget keeps its work out",
        ),
    ],
)
def test_work_that_could_not_start_again_stays_on_a_sick_node(changes: dict[str, Any]) -> None:
    pod = a_pod("moves", phase=PodPhase.RUNNING, evictable=True, owner="ReplicaSet/web")
    node = sick("a", pods=(pod,), cordoned_by=CordonedBy.US, cordoned_for="repair")
    assert answer(node, pool=REPLACED, waiting=0).candidates == ("i-a",)
    assert answer(node, pool=REPLACED, waiting=0, **changes).candidates == ()
