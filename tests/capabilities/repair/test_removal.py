"""Which nodes go beside those under repair, and what a decision says of them."""

from datetime import datetime
from typing import Any

import pytest

from receiver.core.model.actions import Decision
from receiver.core.model.model import Backoff, Node
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Repair
from receiver.core.model.windows import Window
from receiver.core.scaling.bounds import topic_of
from tests.core.builders import GPU, HOUR, MINUTE, NOW, a_node, a_pod, a_policy, a_pool, a_state, facts, run

SICK = {"sick": "XID 79 on GPU 0", "sick_since": NOW - 20 * MINUTE}


def test_a_node_under_repair_is_no_spare_one() -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1, repair=Repair.REPLACE))
    due: dict[str, Any] = {"created_at": NOW - 57 * MINUTE, "allocatable": {GPU: 2}}
    sick = a_node("sick", sick="1 of 2 unhealthy", partly_sick=True, sick_since=NOW - 11 * MINUTE, **due)
    decision = run(facts(a_state(a_node("spare", **due), sick)), policy)[1]["l40s"]
    assert decision.candidates == ("i-sick",)


def test_a_sick_node_is_no_spare_node_and_its_repair_says_why_it_waits() -> None:
    careful = Backoff(failures=2, until=NOW + 5 * MINUTE, reason="n1, n2 fell sick")
    state = a_state(*(a_node(name, **SICK) for name in ("n1", "n2")), sickened=careful)
    decision = run(facts(state), a_policy(a_pool(repair=Repair.REPLACE)))[1]["l40s"]
    [reason] = [r for r in decision.reasons if r.rule == "nothing_wanted"]
    assert reason.detail == (
        "2 idle nodes, paid for; the first can be removed at 12:35:00 UTC"
        "; repair of n1 waits until 12:05:00 UTC: n1, n2 fell sick"
    )


# --- beside a window that evicts


def a_guest(name: str, gpus: int = 1, **changes: Any) -> Pod:
    """A pod whose owner said nothing, which has been running for an hour."""
    running: dict[str, Any] = {"phase": PodPhase.RUNNING, "owner": "ReplicaSet/web", "running_since": NOW - HOUR}
    return a_pod(name, gpus, **running, **changes)


def holding(name: str, *pods: Pod, **changes: Any) -> Node:
    """A node of eight GPUs in the middle of its paid hour."""
    given: dict[str, Any] = {"idle_since": None, "allocatable": {GPU: 8}, "pods": pods, "was_usable": True}
    return a_node(name, **{**given, **changes})


def busy(name: str) -> Node:
    return holding(name, a_guest(f"on-{name}"))


def beyond(most: int, *nodes: Node, **given: Any) -> Decision:
    """The decision on *nodes* under repair while a window allows *most*, whose grace is over."""
    night = Window(name="night", times=((11 * 60, 13 * 60),), max_nodes=most, evict_after=30 * MINUTE)
    pool = a_pool(resources={GPU: 8}, windows=(night,), repair=Repair.REPLACE)
    known = facts(a_state(*nodes), told_to_go={topic_of(night, pool): NOW - HOUR}, **given)
    return run(known, a_policy(pool))[1]["l40s"]


def test_a_sick_node_that_is_evicted_is_not_removed_twice() -> None:
    going = holding("a", a_guest("on-a", evictable=True), **SICK)
    assert beyond(1, going, busy("b"), busy("c")).candidates == ("i-a", "i-b")


@pytest.mark.parametrize(
    ("pods", "given_up"),
    [
        pytest.param((a_guest("on-c", gpus=8, evictable=True),), {}, id="evictable: the window takes it"),
        pytest.param((a_guest("on-c", evictable=True),), {"i-c": NOW - MINUTE}, id="tried by the window before"),
        pytest.param((), {}, id="idle"),
    ],
)
def test_a_node_that_its_repair_removes_is_none_that_a_window_evicts_beside_it(
    pods: tuple[Pod, ...], given_up: dict[str, datetime]
) -> None:
    sick = holding("c", *pods, **SICK, idle_since=None if pods else NOW)
    assert beyond(2, busy("a"), busy("b"), sick, given_up=given_up).candidates == ("i-c",)
