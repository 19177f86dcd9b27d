"""What people may choose when they are asked, and what each choice does: approve, or say for a while what goes first.

Anything but an approval is an ordinary override, as if it had been set from the command line, and ends as one does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from receiver.core.model.approval_request import Answer, Asks, Question, named
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Policy
from receiver.core.model.text import some

MORNING = time(8)  # when "until tomorrow" ends, in the budget's zone
PINNED_FOR = timedelta(days=1)
LENGTHS = {
    Answer.SNOOZE_1H: timedelta(hours=1),
    Answer.SNOOZE_4H: timedelta(hours=4),
    Answer.PIN: PINNED_FOR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One answer as people see it: the *label* of its button and what it *does*, in a sentence."""

    answer: Answer
    label: str
    does: str


def next_morning(now: datetime, timezone: str) -> datetime:
    """Return the next moment (UTC) after *now* at which a clock in *timezone* shows 08:00, whatever its offset then."""
    zone = ZoneInfo(timezone)
    there = now.astimezone(zone)
    today = datetime.combine(there.date(), MORNING, tzinfo=zone)
    found = today.astimezone(UTC)
    return found if found > now else datetime.combine(there.date() + timedelta(days=1), MORNING, zone).astimezone(UTC)


def until_of(answer: Answer, policy: Policy, now: datetime) -> datetime | None:
    """Return until when *answer*, given at *now*, acts: at most as far ahead as an override may; None for approval."""
    if answer is Answer.APPROVE:
        return None
    until = now + LENGTHS[answer] if answer in LENGTHS else next_morning(now, policy.timezone)
    return min(until, now + policy.longest_override)


def choices(question: Question, policy: Policy, now: datetime, present: int) -> Sequence[Choice]:
    """Return what may be answered to *question* at *now*, while its pool has *present* nodes."""
    return [Choice(answer=a, label=LABELS[a], does=_does(a, question, policy, now, present)) for a in Answer]


LABELS = {
    Answer.APPROVE: "Approve",
    Answer.SNOOZE_1H: "Snooze 1 h",
    Answer.SNOOZE_4H: "Snooze 4 h",
    Answer.SNOOZE_TOMORROW: "Snooze until tomorrow",
    Answer.PIN: "Keep as it is (pin)",
}


def override_of(
    answer: Answer, question: Question, policy: Policy, now: datetime, *, present: int, who: str, why: str = ""
) -> Override | None:
    """Return the override that *answer*, given at *now* by *who*, sets; None for approval, which sets none.

    A snooze keeps every node of the pool; of growth it keeps the pool at the *present* size, as a ceiling. A pin keeps
    that size both ways.
    """
    until = until_of(answer, policy, now)
    if until is None:
        return None
    kind = _kind(answer, question)
    return Override(
        id=override_id(answer, question),
        kind=kind,
        pool=question.pool,
        nodes=None if kind is OverrideKind.SNOOZE else present,
        who=who,
        why=why or f"{answer} in answer to {question.id}",
        at=now,
        until=until,
    )


def override_id(answer: Answer, question: Question) -> str:
    """The id of the override that *answer* to *question* sets: a question is answered once."""
    return f"{_kind(answer, question)}-{question.id}"


def needs_size(answer: Answer, question: Question) -> bool:
    """True when *answer* says a number of nodes, so that the pool's present size must be known."""
    return answer is not Answer.APPROVE and _kind(answer, question) is not OverrideKind.SNOOZE


def _kind(answer: Answer, question: Question) -> OverrideKind:
    if answer is Answer.PIN:
        return OverrideKind.PIN
    return OverrideKind.CEILING if question.asks is Asks.GROWTH else OverrideKind.SNOOZE


def _does(answer: Answer, question: Question, policy: Policy, now: datetime, present: int) -> str:
    until = until_of(answer, policy, now)
    if until is None:
        return _approves(question, now)
    end = f"{until:%Y-%m-%d %H:%M} UTC"
    kind = _kind(answer, question)
    if kind is OverrideKind.SNOOZE:
        return f"No node of the pool is removed before {end}."
    if kind is OverrideKind.CEILING:
        return f"The pool stays at {present} or fewer nodes until {end}, whatever waits."
    return f"The pool stays at exactly {some(present, 'node')} until {end}, whatever it needs."


def _approves(question: Question, now: datetime) -> str:
    if question.asks is Asks.GROWTH:
        return f"The pool may grow to {question.to_count} nodes at once."
    moment = max(now, question.due_at)
    return f"{named(question.nodes)} may go from {moment:%H:%M:%S} UTC on, if still idle then."
