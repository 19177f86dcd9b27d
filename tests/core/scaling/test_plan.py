"""From a decision to an action: growth is a count, removal names its instances."""

from dataclasses import replace
from decimal import Decimal

import pytest

from receiver.core.model.actions import ActionKind, Decision
from receiver.core.scaling.decide import plan
from tests.core.builders import HOURLY, NOW, a_due_node, a_policy, a_state

TWO = a_state(a_due_node("a"), a_due_node("b"))


def to(target: int, *candidates: str) -> Decision:
    """The decision that the two nodes become *target*."""
    return Decision(pool="l40s-id", at=NOW, present=2, target=target, reasons=(), candidates=candidates)


def test_growth_has_no_victims_although_nodes_might_go() -> None:
    action = plan(to(3, "i-a", "i-b"), TWO, a_policy())
    assert action is not None
    assert (action.kind, action.from_count, action.to_count, action.victims) == (ActionKind.GROW, 2, 3, ())
    assert action.reserved_usd == Decimal("1.29")
    assert action.id.endswith("-grow-2-to-3")


def test_removal_reserves_nothing_and_counts_the_nodes_that_it_names() -> None:
    action = plan(to(0, "i-b"), TWO, a_policy())
    assert action is not None
    assert (action.kind, action.from_count, action.to_count) == (ActionKind.RETIRE, 2, 1)
    assert [v.instance for v in action.victims] == ["i-b"]
    assert action.reserved_usd == 0
    assert action.id.endswith("-retire-1")


@pytest.mark.parametrize("decision", [to(3), to(1, "i-a")])
def test_nothing_is_planned_for_a_pool_that_is_not_configured(decision: Decision) -> None:
    assert plan(replace(decision, pool="other-id"), TWO, a_policy(billing=HOURLY)) is None
