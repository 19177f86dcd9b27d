"""above_the_floor: a pool does not shrink below its minimum, unless the stop of a budget says so."""

from decimal import Decimal

from receiver.core.model.model import Spend
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.policy import Budget
from tests.core.builders import HOUR, NOW, a_policy, a_pool, an_override, outcome, remedies, rules, shrinking

ONE = a_policy(a_pool(min_nodes=1))


def test_the_last_nodes_up_to_the_minimum_stay() -> None:
    assert outcome(shrinking(ONE)) == ("above_the_floor", 0)


def test_the_nodes_above_the_minimum_go() -> None:
    decision = shrinking(ONE, nodes=3)
    assert decision.target == 1
    assert rules(decision, "holds") == []


def test_at_the_stop_of_a_budget_the_floor_does_not_hold() -> None:
    policy = a_policy(a_pool(min_nodes=1), budget=Budget(monthly_usd=Decimal(100)))
    assert shrinking(policy, spend=Spend(month="2026-11", usd=Decimal(100))).target == 0


def test_what_civo_counts_and_does_not_list_is_no_node_of_the_floor() -> None:
    decision = shrinking(ONE, state={"required": 2})
    assert (decision.target, decision.deciding.rule) == (2, "above_the_floor")


def test_a_floor_that_a_person_set_holds_until_it_ends() -> None:
    held = shrinking(overrides=(an_override(OverrideKind.FLOOR, 1),))
    assert outcome(held) == ("above_the_floor", 0)
    assert held.deciding.until == NOW + HOUR


def test_the_remedy_is_a_lower_minimum() -> None:
    said = [text for text, _ in remedies(shrinking(ONE), "above_the_floor")]
    assert any("a lower min_nodes of the pool (it is 1)" in text for text in said)
