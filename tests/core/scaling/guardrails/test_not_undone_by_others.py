"""not_undone_by_others: what another system reverted three times in a day is not tried again for a day."""

from collections.abc import Sequence
from decimal import Decimal

from receiver.core.model.model import Drift
from tests.core.builders import (
    HOUR,
    MINUTE,
    NOW,
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
from tests.core.scaling.guardrails.cases import AN_INSTANT, IDLE, held


def lowered(hours: Sequence[float] = (1, 2, 3)) -> tuple[Drift, ...]:
    """Another system lowered the count so many *hours* ago, after growth of ours."""
    return tuple(Drift(at=NOW - h * HOUR, from_count=2, to_count=1, undoes=True) for h in hours)


def raised(hours: Sequence[float] = (1, 2, 3)) -> tuple[Drift, ...]:
    """The same the other way, after removals of ours."""
    return tuple(Drift(at=NOW - h * HOUR, from_count=1, to_count=2, undoes=True) for h in hours)


def test_a_pool_does_not_change_the_way_that_another_system_keeps_reverting() -> None:
    growth, removal = growing(state=a_state(drifts=lowered())), shrinking(state=a_state(IDLE, drifts=raised()))
    for decision, what in ((growth, "lowered the count repeatedly after our growth"),
                           (removal, "raised the count repeatedly after our removals")):  # fmt: skip
        said = held(decision, "not_undone_by_others")
        assert said.detail == f"another system {what}: none before 2026-11-21 11:00 UTC"
        assert said.until == NOW + 23 * HOUR
        alone = "wait until 2026-11-21 11:00:00 UTC, and let only the autoscaler change the count at Civo"
        assert remedies(decision, "not_undone_by_others") == {alone: NOW + 23 * HOUR}


def test_it_is_tried_again_a_day_after_the_last_time() -> None:
    state, until = a_state(drifts=lowered()), NOW + 23 * HOUR
    assert growing(state=state).reconsider_at is not None
    assert growing(state=state, at=until - AN_INSTANT).target == 0
    assert growing(state=state, at=until).target == 1
    soon = a_state(IDLE, drifts=raised((23 + 59 / 60, 24, 25)))
    assert shrinking(state=soon).target == 1
    assert shrinking(state=soon, at=NOW + MINUTE).target == 0


def test_the_other_way_stays_open() -> None:
    assert shrinking(state=a_state(IDLE, drifts=lowered())).target == 0
    assert growing(state=a_state(drifts=raised())).target == 1


def test_twice_is_not_enough() -> None:
    assert growing(state=a_state(drifts=lowered((1, 2)))).target == 1


def test_work_goes_to_another_pool_meanwhile() -> None:
    policy = a_policy(a_pool(), a_pool("dear", price_usd_per_hour=Decimal(9)))
    found = facts(a_state(drifts=lowered()), a_state(pool="dear-id"), waiting=[a_pod()])
    _, decisions = run(found, policy)
    assert (decisions["l40s"].target, decisions["dear"].target) == (0, 1)
