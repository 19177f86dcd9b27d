"""removal_is_not_snoozed: a person's snooze keeps every node that is not dead."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.model import Node, Spend, Stage
from receiver.core.model.policy import Budget
from tests.core.builders import (
    HOUR,
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_policy,
    a_state,
    an_override,
    decision_on,
    growing,
    remedies,
    shrinking,
)
from tests.core.scaling.guardrails.cases import AN_INSTANT, IDLE, held
from tests.core.worlds import LAWS

SNOOZE = an_override("snooze")


def dead(name: str = "dead") -> Node:
    """A node that was usable and broke long ago."""
    return a_node(
        name, stage=Stage.BROKEN, created_at=HOUR_ENDS_SOON, idle_since=None, lost_at=HOUR_ENDS_SOON, was_usable=True
    )


def test_a_snooze_keeps_idle_nodes_until_it_ends_and_the_reason_says_who_and_why() -> None:
    decision = shrinking(overrides=(SNOOZE,))
    said = held(decision, "removal_is_not_snoozed")
    assert (said.detail, said.until) == ("snooze by alice until 2026-11-20 13:00 UTC: load test", NOW + HOUR)
    end = (
        "wait until the snooze of alice ends at 2026-11-20 13:00:00 UTC,"
        " or end it: gpu-autoscaler override end snooze-1"
    )
    assert remedies(decision, "removal_is_not_snoozed") == {end: NOW + HOUR}


def test_at_its_end_they_go() -> None:
    end = NOW + MINUTE
    snooze = an_override("snooze", until=end)
    assert shrinking(overrides=(snooze,), at=end - AN_INSTANT).target == 1
    assert shrinking(overrides=(snooze,), at=end).target == 0


def test_the_pool_grows_and_loses_dead_nodes_all_the_same() -> None:
    assert growing(overrides=(SNOOZE,)).target == 1
    decision = shrinking(state=a_state(IDLE, dead()), overrides=(SNOOZE,))
    assert (decision.target, decision.candidates[0]) == (1, "i-dead")


def test_at_the_stop_of_a_budget_empty_nodes_go_all_the_same() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    assert shrinking(policy, overrides=(SNOOZE,), spend=Spend(month="2026-11", usd=Decimal(100))).target == 0


def test_it_keeps_nodes_beyond_a_ceiling_too() -> None:
    two = a_state(a_node("n1"), a_node("n2"))
    held(decision_on(two, overrides=(SNOOZE, an_override("ceiling", 0))), "removal_is_not_snoozed")


@LAWS
@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_a_snoozed_pool_loses_its_dead_nodes_and_no_other(broken: int, due: int, busy: int) -> None:
    there = a_state(
        *(dead(f"d{n}") for n in range(broken)),
        *(a_node(f"i{n}", created_at=HOUR_ENDS_SOON) for n in range(due)),
        *(a_busy_node(f"b{n}") for n in range(busy)),
    )
    assert decision_on(there, overrides=(SNOOZE,)).target == due + busy
    assert decision_on(there).target == busy
