"""within_maximum: a pool never exceeds its maximum, nor that of an open window, a ceiling or a pin."""

from receiver.core.model.overrides import OverrideKind
from tests.core.builders import (
    HOUR,
    NOW,
    a_busy_node,
    a_policy,
    a_pool,
    a_state,
    an_override,
    growing,
    outcome,
    remedies,
    rules,
)

FOUR = a_state(*(a_busy_node(f"n{n}") for n in range(4)))


def test_it_leaves_the_nodes_up_to_the_maximum() -> None:
    decision = growing(a_policy(a_pool(max_nodes=3)), a_state(a_busy_node()), pods=5)
    assert decision.target == 3
    assert rules(decision, "limits") == ["within_maximum"]


def test_at_the_maximum_nothing_is_bought() -> None:
    assert outcome(growing(a_policy(a_pool(max_nodes=4)), FOUR)) == ("within_maximum", 0)
    assert outcome(growing(a_policy(a_pool(max_nodes=5)), FOUR)) == ("demand", 1)


def test_a_pool_above_its_maximum_is_not_shrunk_by_a_wish_to_grow() -> None:
    assert outcome(growing(a_policy(a_pool(max_nodes=2)), FOUR)) == ("within_maximum", 0)


def test_a_ceiling_of_a_person_counts_until_it_ends() -> None:
    held = growing(overrides=(an_override(OverrideKind.CEILING, 0),))
    assert outcome(held) == ("within_maximum", 0)
    assert held.deciding.until == NOW + HOUR


def test_the_remedy_is_a_higher_maximum() -> None:
    [(text, at), *_] = remedies(growing(a_policy(a_pool(max_nodes=0))), "within_maximum")
    assert "a higher max_nodes of the pool (it is 0)" in text
    assert at is None


def test_the_remedy_of_a_ceiling_is_its_end() -> None:
    held = growing(overrides=(an_override(OverrideKind.CEILING, 0),))
    said = "the end of the ceiling of alice at 2026-11-20 13:00:00 UTC, or gpu-autoscaler override end o1"
    assert any(said in text and at == NOW + HOUR for text, at in remedies(held, "within_maximum"))
