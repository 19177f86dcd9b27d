"""within_limits: all pools together stay within GPUs, purchases and removals an hour."""

from typing import Any

import pytest

from receiver.core.model.policy import Limits, Policy
from tests.core.builders import (
    HOUR,
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    growing,
    remedies,
    run,
    shrinking,
)
from tests.core.scaling.guardrails.cases import cut, held

FOUR_IDLE = a_state(*(a_node(f"n{n}", created_at=HOUR_ENDS_SOON) for n in range(4)))


def limited(**limits: int) -> Policy:
    return a_policy(limits=Limits(**limits))


def test_growth_ends_at_max_gpus_and_only_a_removal_or_a_higher_one_helps() -> None:
    decision = growing(limited(max_gpus=2), pods=3)
    said = cut(decision, "within_limits")
    assert (decision.target, said.detail, said.until) == (2, "limits.max_gpus (2 GPUs) is used up", None)
    removal = "raise limits.max_gpus (now 2), or remove nodes of any pool"
    assert remedies(decision, "within_limits") == {removal: None}
    held(growing(limited(max_gpus=2), a_state(a_busy_node("n1"), a_busy_node("n2"))), "within_limits")
    assert growing(limited(max_gpus=3), pods=3).target == 3


def test_max_gpus_counts_all_pools_together() -> None:
    one, two = a_pool("one", labels={"kind": "1"}), a_pool("two", labels={"kind": "2"})
    pods = [a_pod("a", node_selector={"kind": "1"}), a_pod("b", node_selector={"kind": "2"})]
    found = facts(a_state(a_busy_node(), pool="one-id"), a_state(pool="two-id"), waiting=pods)
    _, decisions = run(found, a_policy(one, two, limits=Limits(max_gpus=2)))
    assert decisions["one"].target + decisions["two"].target == 2


def test_growth_per_hour_counts_what_was_bought_before() -> None:
    decision = growing(limited(max_growth_per_hour=5), pods=5, grown_last_hour=3)
    assert (decision.target, cut(decision, "within_limits").detail) == (
        2,
        "limits.max_growth_per_hour (5 nodes per hour) is used up",
    )
    hour = "wait at most an hour, or raise limits.max_growth_per_hour (now 5)"
    assert remedies(decision, "within_limits") == {hour: None}
    held(growing(limited(max_growth_per_hour=5), grown_last_hour=5), "within_limits")


def test_removals_per_hour_count_what_was_removed_before() -> None:
    decision = shrinking(limited(max_removals_per_hour=3), FOUR_IDLE, removed_last_hour=1)
    assert (decision.target, cut(decision, "within_limits").detail) == (
        2,
        "limits.max_removals_per_hour (3 nodes per hour) is used up",
    )
    assert remedies(decision, "within_limits") == {
        "wait at most an hour, or raise limits.max_removals_per_hour (now 3)": None
    }
    held(shrinking(limited(max_removals_per_hour=3), FOUR_IDLE, removed_last_hour=3), "within_limits")
    assert shrinking(limited(max_removals_per_hour=4), FOUR_IDLE).target == 0


def test_the_limits_of_one_direction_do_not_hold_the_other() -> None:
    assert growing(limited(max_removals_per_hour=0)).target == 1
    assert shrinking(limited(max_gpus=0, max_growth_per_hour=0)).target == 0


@pytest.mark.parametrize("limit", ["max_growth_per_hour", "max_removals_per_hour"])
def test_a_limit_per_hour_lets_go_an_hour_after_the_first_change(limit: str) -> None:
    known: dict[str, Any] = {"grown_last_hour": 2, "removed_last_hour": 2, "first_changed_at": NOW - 50 * MINUTE}
    grows = limit == "max_growth_per_hour"
    decision = growing(limited(**{limit: 2}), **known) if grows else shrinking(limited(**{limit: 2}), **known)
    assert held(decision, "within_limits").until == NOW - 50 * MINUTE + HOUR


@pytest.mark.parametrize("limit", ["max_growth_per_hour", "max_removals_per_hour"])
def test_that_moment_is_looked_at_where_the_other_direction_is_limited_too(limit: str) -> None:
    known: dict[str, Any] = {"grown_last_hour": 2, "removed_last_hour": 2, "first_changed_at": NOW - 50 * MINUTE}
    assert growing(limited(**{limit: 2}), **known).reconsider_at == NOW + 10 * MINUTE
    assert growing(**known).reconsider_at is None
