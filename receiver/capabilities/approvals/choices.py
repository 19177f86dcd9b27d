"""The answers to an approval request: what each does, and the override that it sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from receiver.capabilities.approvals.sentences import named
from receiver.core.model.overrides import Answer, Asks, Override, OverrideKind, Question, next_time
from receiver.core.model.policy import Policy
from receiver.core.model.text import minute, some

MIDNIGHT, MORNING = time(0), time(8)  # when "not today" and "until tomorrow" end, in the budget's zone
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


def until_of(answer: Answer, policy: Policy, now: datetime) -> datetime | None:
    """Return until when the override of *answer*, given at *now*, applies: at most the longest one ahead; None for an
    answer that sets none."""
    if answer in SET_NONE:
        return None
    clock = MIDNIGHT if answer is Answer.SNOOZE_TODAY else MORNING
    until = now + LENGTHS[answer] if answer in LENGTHS else next_time(now, policy.timezone, clock)
    return min(until, now + policy.longest_override)


def choices(question: Question, policy: Policy, now: datetime, present: int) -> Sequence[Choice]:
    """Return the answers that a page offers to *question* at *now*, while its pool has *present* nodes."""
    return [Choice(answer=a, label=LABELS[a], does=_does(a, question, policy, now, present)) for a in OFFERED]


SET_NONE = frozenset({Answer.APPROVE, Answer.REJECT})  # these set no override
OFFERED = (Answer.APPROVE, Answer.SNOOZE_1H, Answer.SNOOZE_TODAY, Answer.REJECT)  # the others: API and command line
LABELS = {
    Answer.APPROVE: "Approve",
    Answer.SNOOZE_1H: "Not now (1 h)",
    Answer.SNOOZE_4H: "Snooze 4 h",
    Answer.SNOOZE_TODAY: "Not today",
    Answer.SNOOZE_TOMORROW: "Snooze until tomorrow",
    Answer.PIN: "Keep as it is (pin)",
    Answer.REJECT: "Reject",
}


def override_by_answer(question: Question, policy: Policy, *, present: int) -> Override | None:
    """Return the override that the answer to *question* sets; None for approval and rejection.

    A snooze keeps every node of the pool; for growth it keeps the pool at the *present* size, as a ceiling. A pin keeps
    that size both ways.
    """
    answer, at = question.answer, question.answered_at
    assert answer is not None
    assert at is not None
    until = until_of(answer, policy, at)
    if until is None:
        return None
    kind = _kind(answer, question)
    return Override(
        id=override_id(answer, question),
        kind=kind,
        pool=question.pool,
        nodes=None if kind is OverrideKind.SNOOZE else present,
        who=question.who,
        why=question.why or f"{answer} in answer to {question.id}",
        at=at,
        until=until,
    )


def override_id(answer: Answer, question: Question) -> str:
    """The id of the override that *answer* to *question* sets: a request is answered once."""
    return f"{_kind(answer, question)}-{question.id}"


def needs_size(answer: Answer, question: Question) -> bool:
    """True when *answer* sets a number of nodes, so that the pool's present size must be known."""
    return answer not in SET_NONE and _kind(answer, question) is not OverrideKind.SNOOZE


def _kind(answer: Answer, question: Question) -> OverrideKind:
    if answer is Answer.PIN:
        return OverrideKind.PIN
    return OverrideKind.CEILING if question.asks is Asks.GROWTH else OverrideKind.SNOOZE


def _does(answer: Answer, question: Question, policy: Policy, now: datetime, present: int) -> str:
    until, expires = until_of(answer, policy, now), minute(question.expires_at, now)
    if answer is Answer.REJECT and question.asks is Asks.GROWTH:
        return f"No growth to {question.to_count} nodes and no new request before {expires}."
    if answer is Answer.REJECT:
        return f"{named(question.nodes)} {'stay' if len(question.nodes) > 1 else 'stays'} until {expires}."
    if until is None and question.asks is Asks.GROWTH:
        return f"The pool may grow to {question.to_count} nodes at once."
    if until is None:
        does, idle = ("removed", ", if still idle") if question.asks is Asks.REMOVAL else ("drained and removed", "")
        return f"{named(question.nodes)} may be {does} from {minute(max(now, question.due_at), now)} on{idle}."
    end = minute(until, now)
    kind = _kind(answer, question)
    if kind is OverrideKind.SNOOZE:
        return f"No removal in this pool before {end}."
    if kind is OverrideKind.CEILING:
        return f"At most {some(present, 'node')} until {end}."
    return f"Exactly {some(present, 'node')} until {end}."
