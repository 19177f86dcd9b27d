"""not_paused: a person's pause stops every change."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Change
from tests.core.builders import (
    HOUR,
    HOUR_ENDS_SOON,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    an_override,
    decision_on,
    facts,
    growing,
    remedies,
    rules,
    run,
    shrinking,
)
from tests.core.scaling.guardrails.cases import AN_INSTANT, held
from tests.core.worlds import LAWS

PAUSE = an_override("pause")


def test_a_pause_stops_growth_and_removal_until_it_ends_and_the_reason_says_who_and_why() -> None:
    for decision in (growing(overrides=(PAUSE,)), shrinking(overrides=(PAUSE,))):
        said = held(decision, "not_paused")
        assert (said.detail, said.until) == ("pause by alice until 2026-11-20 13:00 UTC: load test", NOW + HOUR)
        end = (
            "wait until the pause of alice ends at 2026-11-20 13:00:00 UTC,"
            " or end it: gpu-autoscaler override end pause-1"
        )
        assert remedies(decision, "not_paused") == {end: NOW + HOUR}


def test_at_its_end_the_pool_grows() -> None:
    assert growing(overrides=(PAUSE,)).reconsider_at == NOW + HOUR
    assert growing(overrides=(PAUSE,), at=NOW + HOUR - AN_INSTANT).target == 0
    assert growing(overrides=(PAUSE,), at=NOW + HOUR).target == 1


def test_a_pause_of_another_pool_stops_nothing() -> None:
    other = an_override("pause", pool="other-id")
    assert (growing(overrides=(other,)).target, shrinking(overrides=(other,)).target) == (1, 0)


def test_work_goes_to_another_pool_while_one_is_paused() -> None:
    policy = a_policy(a_pool(), a_pool("h100", price_usd_per_hour=Decimal(4)))
    found = facts(a_state(), a_state(pool="h100-id"), waiting=[a_pod()], overrides=(PAUSE,))
    _, decisions = run(found, policy)
    assert (decisions["l40s"].target, decisions["h100"].target) == (0, 1)


@LAWS
@given(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())
def test_a_paused_pool_changes_nothing(waiting: int, there: int, pinned: bool, every_pool: bool) -> None:
    pause = an_override("pause", pool=None if every_pool else "l40s-id")
    more = (an_override("pin", 2),) if pinned else ()
    state = a_state(*(a_node(f"n{n}", created_at=HOUR_ENDS_SOON) for n in range(there)))
    work = [a_pod(f"p{n}") for n in range(waiting)]
    decision = decision_on(state, overrides=(pause, *more), waiting=work)
    assert decision.change is Change.HOLD
    if decision_on(state, overrides=more, waiting=work).change is not Change.HOLD:
        assert rules(decision, "holds") == ["not_paused"]
