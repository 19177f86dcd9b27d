"""One sub-step of an action at a time: growth by one absolute count, and when what failed is tried again."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from receiver.core.model.actions import Action, ActionKind, OutcomeKind, Victim
from receiver.core.model.flights import is_unanswered, may_arrive
from receiver.core.model.model import Backoff, PoolState
from receiver.ports import Did, TryLater, WontWork, WriterLostError
from receiver.step.carry_out import (
    Keeps,
    Progress,
    carry_out,
    is_smaller_request,
    next_backoff,
    removals_stopped,
    settled,
)
from tests.core.builders import HOUR, MINUTE, NOW, SECOND, a_flight, a_node, a_state
from tests.step.outside import Outside, receipt

TICK = timedelta(microseconds=1)
RESCALING = "cannot_scale_already_rescaling_cluster"
GROWTH = Action(id="grow", pool="l40s-id", kind=ActionKind.GROW, opened_at=NOW, from_count=2, to_count=4)
REMOVAL = replace(GROWTH, id="retire", kind=ActionKind.RETIRE, to_count=1)
TWO = a_state(required=2)


def grown(
    action: Action = GROWTH, state: PoolState = TWO, *, outside: Outside | None = None, **answer: Any
) -> Progress:
    """What a step makes of *action*, where Civo answers the request with *answer* (of a Receipt)."""
    outside = outside or Outside(resize=receipt(**answer))
    return carry_out(action, state, Keeps(), outside.hands, NOW)


def failing(error: Exception, action: Action = GROWTH, state: PoolState = TWO) -> Progress:
    return grown(action, state, outside=Outside(resize=error))


def backing_off(failures: int = 1, ends: timedelta = MINUTE) -> Backoff:
    return Backoff(failures=failures, until=NOW + ends, reason="out of stock")


# --- back-off ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "failures", "minutes"),
    [
        (GROWTH, 0, 1),
        (GROWTH, 1, 2),
        (GROWTH, 4, 16),
        (GROWTH, 5, 30),
        (GROWTH, 5000, 30),
        (REMOVAL, 0, 5),
        (REMOVAL, 1, 10),
        (REMOVAL, 2, 20),
        (REMOVAL, 3, 30),
    ],
)
def test_a_back_off_doubles_with_each_failure_in_a_row_up_to_half_an_hour(
    action: Action, failures: int, minutes: int
) -> None:
    before = backing_off(failures, -SECOND) if failures else None
    growth = action.kind is ActionKind.GROW
    state = a_state(backoff=before) if growth else a_state(removal_backoff=before, backoff=backing_off(9))
    found = next_backoff(action, state, "no stock", NOW)
    assert (found.failures, found.reason) == (failures + 1, "no stock")
    assert minutes * MINUTE < found.until - NOW <= minutes * MINUTE * 1.1


def test_actions_back_off_for_different_times() -> None:
    ends = {next_backoff(replace(GROWTH, id=f"grow-{n}"), TWO, "", NOW).until for n in range(9)}
    assert len(ends) > 5


def test_a_smaller_request_that_fails_leaves_the_back_off_as_it_is_but_for_the_reason() -> None:
    held = backing_off(3)
    assert next_backoff(GROWTH, a_state(backoff=held), "still none", NOW) == replace(held, reason="still none")


@pytest.mark.parametrize(
    ("backoff", "smaller"),
    [
        (None, False),
        (backing_off(), True),
        (backing_off(ends=timedelta(0)), False),
        (backing_off(ends=2 * HOUR), False),
    ],
)
def test_a_request_is_a_smaller_one_while_a_back_off_from_growth_holds(backoff: Backoff | None, smaller: bool) -> None:
    assert is_smaller_request(a_state(backoff=backoff), NOW) is smaller


def test_nodes_that_civo_keeps_although_it_accepted_their_delete_back_off_alone() -> None:
    assert removals_stopped("it is still there", ["i-2", "i-1"], NOW) == Backoff(
        failures=1, until=NOW + 24 * HOUR, reason="it is still there", instances=("i-1", "i-2")
    )


# --- requests without an answer ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unanswered_at", "arrives"),
    [
        (None, False),
        (NOW, True),
        (NOW - MINUTE + SECOND, True),
        (NOW - MINUTE, False),
        (NOW + MINUTE - SECOND, True),
        (NOW + MINUTE, False),
    ],
)
def test_a_request_may_take_effect_for_a_minute(unanswered_at: datetime | None, arrives: bool) -> None:
    action = replace(GROWTH, unanswered_at=unanswered_at)
    assert may_arrive(action.unanswered_at, NOW) is arrives
    assert is_unanswered(replace(action, last_error="http_409: no"), NOW) is arrives
    assert is_unanswered(replace(action, last_error="timeout: no answer"), NOW)


# --- growth -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("required", "ends"), [(3, False), (4, True), (5, True)])
def test_growth_has_ended_when_civo_is_asked_for_its_count(required: int, ends: bool) -> None:
    found = settled(GROWTH, a_state(required=required), NOW)
    assert (found is not None) is ends
    assert found is None or found.kind is OutcomeKind.CONFIRMED


def test_growth_asks_for_one_absolute_count_after_a_look_at_the_lead() -> None:
    outside = Outside(resize=receipt(required=4))
    progress = grown(outside=outside)
    assert outside.calls == ["ready", "resize l40s-id from 2 to 4 shown None"]
    assert progress.outcome is not None
    assert progress.outcome.kind is OutcomeKind.CONFIRMED
    assert (progress.late, progress.backoff, progress.again_at) == (None, None, None)


def test_growth_says_what_civo_shows_while_it_counts_removed_nodes() -> None:
    outside = Outside(resize=receipt(required=4))
    grown(state=a_state(required=2, uncounted=3), outside=outside)
    assert outside.calls[-1] == "resize l40s-id from 2 to 4 shown 5"


def test_without_the_lead_nothing_is_requested() -> None:
    outside = Outside(leads=False)
    with pytest.raises(WriterLostError):
        grown(outside=outside)
    assert outside.calls == ["ready"]


@pytest.mark.parametrize(
    ("did", "kind"),
    [
        (Did.DONE, OutcomeKind.CONFIRMED),
        (Did.ALREADY, OutcomeKind.CONFIRMED),
        (Did.DIFFERS, OutcomeKind.SUPERSEDED),
        (Did.OBSERVED, OutcomeKind.OBSERVED),
    ],
)
def test_growth_ends_as_civo_answers(did: Did, kind: OutcomeKind) -> None:
    progress = grown(did=did, required=3)
    assert progress.outcome is not None
    assert progress.outcome.kind is kind
    assert (progress.late is not None) is (did is Did.DONE)


@pytest.mark.parametrize(
    ("required", "shown"), [(None, 2 + 1), (2, 2), (3, 3), (4, None), (5, None)], ids=lambda n: str(n)
)
def test_a_count_that_civo_accepted_and_does_not_show_yet_is_late(required: int | None, shown: int | None) -> None:
    late = grown(state=a_state(required=2, uncounted=1), required=required).late
    assert late == (None if shown is None else a_flight(4, shown))


@pytest.mark.parametrize(
    ("retry_at", "waits"),
    [
        (None, False),
        (NOW + SECOND, True),
        (NOW, False),
        (NOW - SECOND, False),
        (NOW + HOUR, True),
        (NOW + HOUR + TICK, False),  # set under a wrong clock
    ],
)
def test_growth_waits_for_its_retry_time(retry_at: datetime | None, waits: bool) -> None:
    outside = Outside(resize=receipt(required=4))
    progress = grown(replace(GROWTH, retry_at=retry_at, attempts=1), outside=outside)
    assert (outside.calls == []) is waits
    assert progress.again_at == (retry_at if waits else None)
    assert (progress.outcome is None) is waits


def test_growth_that_was_stored_and_never_tried_may_have_been_requested_before_a_crash() -> None:
    stored = replace(TWO, open_action=GROWTH)
    assert grown(state=stored, required=4).action.unanswered_at == NOW
    assert grown(required=4).action.unanswered_at is None
    tried = replace(GROWTH, attempts=1)
    assert grown(tried, replace(TWO, open_action=tried), required=4).action.unanswered_at is None


def test_a_smaller_request_that_is_granted_is_followed_by_another_one_soon() -> None:
    held = backing_off(3)
    progress = grown(state=a_state(required=2, backoff=held), required=4)
    assert progress.again_at == NOW + timedelta(milliseconds=100)
    assert progress.backoff is not None
    assert (progress.backoff.failures, progress.backoff.reason) == (1, held.reason)
    assert MINUTE < progress.backoff.until - NOW < 2 * MINUTE


@pytest.mark.parametrize(
    ("backoff", "did"),
    [(None, Did.DONE), (backing_off(ends=-SECOND), Did.DONE), (backing_off(), Did.DIFFERS)],
)
def test_other_growth_leaves_no_back_off(backoff: Backoff | None, did: Did) -> None:
    progress = grown(state=a_state(required=2, backoff=backoff), did=did, required=4)
    assert (progress.backoff, progress.again_at) == (None, None)


# --- failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("attempts", "seconds"), [(0, 2), (1, 4), (2, 8), (4, 32)])
def test_growth_that_failed_is_tried_again_after_twice_the_time(attempts: int, seconds: int) -> None:
    progress = failing(TryLater("no answer", code="http_503"), replace(GROWTH, attempts=attempts))
    assert progress.outcome is None
    assert progress.again_at == progress.action.retry_at == NOW + seconds * SECOND
    assert progress.action.attempts == attempts + 1
    assert progress.action.last_error == "http_503: no answer"
    assert progress.action.unanswered_at == NOW
    assert not progress.hung


@pytest.mark.parametrize(
    ("attempts", "delay", "expected"),
    [
        (5, None, MINUTE),
        (5000, None, MINUTE),
        (0, 30 * SECOND, 30 * SECOND),
        (5, 30 * SECOND, MINUTE),
        (0, 2 * HOUR, HOUR),
    ],
)
def test_a_retry_waits_at_most_a_minute_or_as_long_as_civo_says_and_never_over_an_hour(
    attempts: int, delay: timedelta | None, expected: timedelta
) -> None:
    removal = replace(REMOVAL, attempts=attempts, victims=(Victim(instance="i-n1", node="n1"),))
    outside = Outside(cordon=TryLater("busy", code="http_503", delay=delay))
    progress = carry_out(removal, a_state(a_node()), Keeps(), outside.hands, NOW)
    assert progress.outcome is None  # a removal is tried for ever
    assert progress.action.retry_at == progress.again_at == NOW + expected


@pytest.mark.parametrize(
    ("code", "most"), [("http_503", 5), ("timeout", 5), (RESCALING, 40)], ids=["an error", "no answer", "rescaling"]
)
def test_growth_is_given_up_after_so_many_failures_in_a_row(code: str, most: int) -> None:
    error = TryLater("no", code=code)
    assert failing(error, replace(GROWTH, attempts=most - 1)).outcome is None
    progress = failing(error, replace(GROWTH, attempts=most))
    assert progress.outcome is not None
    assert progress.outcome.kind is OutcomeKind.FAILED
    assert progress.outcome.detail == f"{code}: {most + 1} times in a row: no"
    assert progress.action.unanswered_at == (None if code == RESCALING else NOW)  # the last one may still arrive too
    assert progress.hung is (code == "timeout")
    assert progress.again_at == NOW + timedelta(milliseconds=100)  # another pool may do better
    assert progress.backoff is not None


def test_a_call_that_hangs_is_told() -> None:
    assert failing(TryLater("no answer", code="timeout")).hung


@pytest.mark.parametrize(("code", "unanswered"), [("http_429", False), (RESCALING, False), ("http_500", True)])
def test_a_refused_request_has_no_effect_later(code: str, unanswered: bool) -> None:
    assert (failing(TryLater("no", code=code)).action.unanswered_at == NOW) is unanswered


def test_growth_that_cannot_work_fails_at_once_and_backs_off() -> None:
    progress = failing(WontWork("no such pool", code="http_404"))
    assert progress.outcome is not None
    assert (progress.outcome.kind, progress.outcome.detail) == (OutcomeKind.FAILED, "http_404: no such pool")
    assert progress.backoff is not None
    assert progress.backoff.reason == "http_404: no such pool"
    assert progress.again_at == NOW + timedelta(milliseconds=100)
    assert progress.action.victims == ()
