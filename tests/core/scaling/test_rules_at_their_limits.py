"""A rule that leaves all that is wanted does not say that it limited it, and one that does not apply stays silent."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.actions import Decision
from receiver.core.model.model import Backoff, PoolState, Source, SourceState, Spend
from receiver.core.model.overrides import Asks, OverrideKind
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Approval, Budget, Limits
from receiver.core.money.budget import Refusal
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.guardrails import AsksFirst, spend_is_known
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    MINUTE,
    NOW,
    a_busy_node,
    a_due_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    all_up,
    an_override,
    facts,
    growing,
    rules,
    run,
    shrinking,
)

BY_THE_SECOND = a_policy(billing=EVERY_SECOND)
BACKOFF = Backoff(failures=1, until=NOW + MINUTE, reason="out of stock")
TRIAL = replace(BACKOFF, until=NOW)
STOPPED = Spend(month="2026-11", usd=Decimal(100))


def idle(nodes: int = 1, **changes: Any) -> PoolState:
    """A pool whose nodes are all due."""
    return a_state(*(a_due_node(f"n{n}") for n in range(nodes)), **changes)


def outcome(decision: Decision) -> tuple[str, int]:
    """The rule that settled it, and by how many nodes the pool changes."""
    return decision.deciding.rule, decision.target - decision.present


LIMITED_TO_3 = a_policy(limits=Limits(max_removals_per_hour=3))

JUST_ENOUGH = {
    "removals per hour": lambda: shrinking(LIMITED_TO_3, idle(3)),
    "more removals per hour": lambda: shrinking(LIMITED_TO_3, idle(2)),
    "growth per hour": lambda: growing(a_policy(limits=Limits(max_growth_per_hour=2)), pods=2),
    "the budget": lambda: growing(a_policy(budget=Budget(monthly_usd=Decimal("1.29"), hold_at=Decimal(1)))),
    "the maximum": lambda: growing(a_policy(a_pool(max_nodes=2)), pods=2),
    "the one node on trial": lambda: growing(state=a_state(a_busy_node(), provisioning=TRIAL)),
    "fewer nodes than Civo refused": lambda: growing(state=a_state(backoff=BACKOFF, refused=3), pods=2),
    "a floor during the cooldown": lambda: growing(
        state=a_state(last_grow_at=NOW), overrides=(an_override(OverrideKind.FLOOR, 1),), pods=0
    ),
    "a ceiling during the cooldown": lambda: shrinking(
        BY_THE_SECOND, idle(2, last_shrink_at=NOW), overrides=(an_override(OverrideKind.CEILING, 0),)
    ),
    "a pause at the stop of the budget": lambda: shrinking(
        a_policy(budget=Budget(monthly_usd=Decimal(100))),
        idle(2),
        spend=STOPPED,
        overrides=(an_override(OverrideKind.PAUSE),),
    ),
}


@pytest.mark.parametrize("name", JUST_ENOUGH)
def test_what_just_suffices_is_not_limited_by(name: str) -> None:
    decision: Decision = JUST_ENOUGH[name]()
    assert decision.target != decision.present
    assert rules(decision, "limits", "holds") == []


def test_only_a_floor_that_a_person_set_ends_the_cooldown() -> None:
    decision = growing(a_policy(a_pool(min_nodes=2)), a_state(last_grow_at=NOW), pods=0)
    assert outcome(decision) == ("cooled_down", 0)


def test_only_a_ceiling_that_a_person_set_ends_the_cooldown() -> None:
    policy = a_policy(a_pool(max_nodes=1), billing=EVERY_SECOND)
    assert outcome(shrinking(policy, idle(2, last_shrink_at=NOW))) == ("cooled_down", 0)


def test_a_removal_backs_off_although_fewer_nodes_might_be_bought() -> None:
    state = idle(removal_backoff=BACKOFF, backoff=BACKOFF, refused=3)
    assert outcome(shrinking(state=state)) == ("not_backing_off", 0)


def test_only_alertmanager_may_be_left_out_of_the_configuration() -> None:
    absent = SourceState(source=Source.KUBERNETES, up=False, at=NOW, configured=False)
    assert outcome(shrinking(sources={**all_up(), Source.KUBERNETES: absent})) == ("sources_answer", 0)


def test_an_alertmanager_that_was_never_asked_is_not_left_out() -> None:
    known = {source: state for source, state in all_up().items() if source is not Source.ALERTMANAGER}
    assert outcome(shrinking(sources=known)) == ("sources_answer", 0)


POLICY = a_policy(budget=Budget(monthly_usd=Decimal(1)))
REFUSING = facts(a_state(), waiting=[a_pod()])


@pytest.mark.parametrize(
    ("unknown", "left", "holds"),
    [
        pytest.param([True], 0, True, id="the only one is unknown"),
        pytest.param([True, True], 0, True, id="all are unknown"),
        pytest.param([True, False], 0, False, id="another one is known and does not cover the node either"),
        pytest.param([True], 1, False, id="a node is covered"),
        pytest.param([False], 0, False, id="it is known"),
    ],
)
def test_unknown_spend_of_one_budget_holds_what_only_that_refuses(unknown: list[bool], left: int, holds: bool) -> None:
    wanted = assign(REFUSING, POLICY).pools["l40s-id"]
    [refusal] = wanted.uncovered
    views = [replace(refusal.view, unknown="no answer" if x else "") for x in unknown]
    wanted = replace(wanted, uncovered=tuple(Refusal(view=view) for view in views), within_budget=left)
    held = spend_is_known(1, case_of(REFUSING.pools[0], wanted, REFUSING, POLICY))
    assert (held is not None) is holds
    if held is not None:
        assert held.because == wanted.uncovered


def test_unknown_spend_of_the_month_holds_growth_that_no_budget_refuses() -> None:
    found = facts(a_state(), waiting=[a_pod()], spend=Spend(month="2026-11", usd=Decimal(0), unknown="no answer"))
    _, decisions = run(found, a_policy())
    assert outcome(decisions["l40s"]) == ("spend_is_known", 0)


def test_people_are_asked_to_empty_nodes_that_work_and_to_remove_others() -> None:
    moves = a_pod("moves", phase=PodPhase.RUNNING, evictable=True, owner="ReplicaSet/web")
    stays = replace(moves, name="stays", evictable=False)
    pair = {"allocatable": {GPU: 2}, "idle_since": None}
    nodes = a_due_node("n1", pods=(moves,), **pair), a_due_node("n2", pods=(stays,), **pair)
    policy = a_policy(a_pool(resources={GPU: 2}, approval=Approval(removals=True)))
    for state, asks in ((a_state(*nodes), Asks.EMPTYING), (idle(), Asks.REMOVAL)):
        asked = shrinking(policy, state).deciding.because
        assert isinstance(asked, AsksFirst)
        assert asked.asks == {asks}
