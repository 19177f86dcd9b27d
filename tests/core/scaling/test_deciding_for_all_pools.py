"""Deciding for every pool at once: removals per hour are shared, and a pool that fails keeps its size."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.actions import Action, ActionKind, Decision, Verdict, Victim, VictimStage
from receiver.core.model.model import Facts
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.policy import Limits, Policy
from receiver.core.scaling.assign import Assignment, assign
from receiver.core.scaling.decide import case_of, decide_all, later, removals_under_way
from receiver.core.scaling.failures import Failures
from receiver.core.scaling.market import Headroom
from tests.core.builders import (
    HOUR,
    NOW,
    a_busy_node,
    a_due_node,
    a_pod,
    a_policy,
    a_pool,
    a_question,
    a_state,
    an_override,
    facts,
)

ONE, TWO = a_pool("one"), a_pool("two")
POLICY = a_policy(ONE, TWO)


def removal(*stages: VictimStage, pool: str = ONE.id) -> Action:
    """An open removal of the first nodes of a pool, one in each of *stages*."""
    victims = tuple(
        Victim(instance=f"i-n{n}", node=f"n{n}", stage=stage, since=NOW - timedelta(minutes=1))
        for n, stage in enumerate(stages)
    )
    return Action(
        id="r",
        pool=pool,
        kind=ActionKind.RETIRE,
        opened_at=NOW,
        from_count=9,
        to_count=9 - len(stages),
        victims=victims,
    )


def idle(pool: str, **changes: Any) -> Facts:
    """Both pools, each with two nodes that are due, and *changes* of *pool*."""
    states = (
        a_state(*(a_due_node(f"n{n}") for n in range(2)), pool=ONE.id),
        a_state(*(a_due_node(f"m{n}", instance=f"i-m{n}") for n in range(2)), pool=TWO.id),
    )
    return facts(*(replace(s, **changes) if s.pool == pool else s for s in states))


def going(found: Facts, policy: Policy) -> list[int]:
    decisions = decide_all(found, assign(found, policy), policy)
    return [decisions[pool.id].present - decisions[pool.id].target for pool in policy.pools]


def limited(most: int) -> Policy:
    return a_policy(ONE, TWO, limits=Limits(max_removals_per_hour=most))


@pytest.mark.parametrize(("most", "expected"), [(5, [2, 2]), (3, [2, 1]), (2, [2, 0]), (1, [1, 0])])
def test_pools_share_the_removals_of_an_hour_in_order(most: int, expected: list[int]) -> None:
    assert going(idle(ONE.id), limited(most)) == expected


@pytest.mark.parametrize(("most", "expected"), [(1, [1, 0]), (2, [1, 1]), (3, [1, 2])])
def test_a_removal_under_way_counts_for_the_other_pools_and_not_twice_for_its_own(
    most: int, expected: list[int]
) -> None:
    found = idle(ONE.id, open_action=removal(VictimStage.CORDONED), nodes=(a_due_node("n0"),), required=1)
    assert going(found, limited(most)) == expected


def test_a_victim_is_under_way_until_it_is_spared_and_one_that_is_deleted_until_the_removal_ends() -> None:
    state = a_state(open_action=removal(*VictimStage))
    assert removals_under_way(state, deleted=False) == 2  # chosen or cordoned
    assert removals_under_way(state) == 4
    assert removals_under_way(a_state()) == 0


def test_a_pool_takes_from_the_shared_removals_what_it_removes_and_no_more() -> None:
    found = idle(ONE.id, nodes=(a_due_node("n0"), a_busy_node("n1")))
    assert going(found, limited(3)) == [1, 2]


def test_what_is_kept_warm_is_unknown_from_the_moment_on_at_which_it_falls() -> None:
    found, falls_at = idle(ONE.id), NOW + HOUR
    headroom = Headroom(gpus=2, asked=2, falls_at=falls_at)
    for falls, then, kept in (
        (falls_at, falls_at, None),
        (falls_at, falls_at - timedelta(seconds=1), headroom),
        (None, falls_at, replace(headroom, falls_at=None)),
    ):
        warm = replace(assign(found, POLICY).pools[ONE.id], headroom=replace(headroom, falls_at=falls))
        assert later(case_of(found.pools[0], warm, found, POLICY), then).wanted.headroom == kept


class Unreadable:
    """An action that no step can read."""

    @property
    def kind(self) -> ActionKind:
        raise RuntimeError("unreadable")


UNREADABLE: Any = Unreadable()


def broken(assignment: Assignment, pool: str) -> Assignment:
    """*assignment*, where an exception is raised when *pool* is decided."""
    wanted: Any = None
    return replace(assignment, pools={**assignment.pools, pool: wanted})


def kept(decision: Decision) -> bool:
    return (
        decision.target == decision.present
        and [(r.rule, r.verdict) for r in decision.reasons] == [("internal_error", Verdict.HOLDS)]
        and "internal error" in decision.reasons[0].detail
    )


def test_a_pool_that_cannot_be_decided_keeps_its_size_and_the_others_are_decided() -> None:
    found, failures = idle(ONE.id), Failures()
    decisions = decide_all(found, broken(assign(found, POLICY), ONE.id), POLICY, failures=failures)
    assert kept(decisions[ONE.id])
    assert decisions[TWO.id].target == 0
    assert list(failures.set_aside) == [ONE.id]
    assert [failure.part for failure in failures.all] == ["decide"]


def test_a_pool_whose_open_action_cannot_be_read_keeps_its_size() -> None:
    found, failures = idle(ONE.id, open_action=UNREADABLE), Failures()
    decisions = decide_all(found, assign(idle(ONE.id), POLICY), POLICY, failures=failures)
    assert kept(decisions[ONE.id])
    assert decisions[TWO.id].target == 0
    assert [(failure.part, failure.pool) for failure in failures.all] == [("decide", ONE.id)]


def test_without_a_place_for_failures_they_are_raised() -> None:
    found = idle(ONE.id)
    with pytest.raises(AttributeError):
        decide_all(found, broken(assign(found, POLICY), ONE.id), POLICY)
    with pytest.raises(RuntimeError, match="unreadable"):
        decide_all(idle(ONE.id, open_action=UNREADABLE), assign(found, POLICY), POLICY)


def test_a_decision_that_cannot_be_explained_stands_and_names_the_work_that_asks() -> None:
    def explain(decision: Decision, _: object) -> Decision:
        raise RuntimeError(decision.pool)

    found, failures = facts(a_state(), waiting=[a_pod("p1"), a_pod("p2")]), Failures()
    assignment, policy = assign(found, a_policy()), a_policy()
    decision = decide_all(found, assignment, policy, explained_by=explain, failures=failures)["l40s-id"]
    assert decision.target == 2
    assert decision.evidence == {"asking": ["ml/p1", "ml/p2"]}
    assert [(failure.part, failure.pool) for failure in failures.all] == [("grounds", "l40s-id")]
    with pytest.raises(RuntimeError):
        decide_all(found, assignment, policy, explained_by=explain)


def test_without_an_explanation_a_decision_has_no_evidence() -> None:
    found = facts(a_state(), waiting=[a_pod()])
    assert decide_all(found, assign(found, a_policy()), a_policy())["l40s-id"].evidence == {}


def test_a_case_holds_what_concerns_its_pool_and_has_not_ended() -> None:
    mine, others = an_override(OverrideKind.PAUSE, pool=ONE.id), an_override(OverrideKind.PAUSE, pool=TWO.id)
    over = replace(mine, at=NOW - HOUR, until=NOW)
    asked, of_others = a_question(pool=ONE.id), a_question(pool=TWO.id)
    expired = replace(asked, expires_at=NOW)
    found = replace(idle(ONE.id), overrides=(others, over, mine), questions=(of_others, expired, asked))
    case = case_of(found.pools[0], assign(found, POLICY).pools[ONE.id], found, POLICY)
    assert case.overrides == (mine,)
    assert case.questions == (asked,)


def test_there_is_no_case_for_a_pool_that_is_not_configured() -> None:
    found = idle(ONE.id)
    wanted = assign(found, POLICY).pools[ONE.id]
    with pytest.raises(KeyError, match="one-id"):
        case_of(found.pools[0], wanted, found, a_policy(TWO))
