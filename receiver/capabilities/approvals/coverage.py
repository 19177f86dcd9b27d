"""What answers to approval requests cover.

An approval covers what was asked for and no more: the named nodes until their paid unit ends, or growth to the named
count, once. A rejection refuses the same, until the request expires. Every other answer is an ordinary override, as if
it had been set from the command line.
"""

from collections.abc import Iterable
from datetime import datetime

from receiver.core.model.overrides import Asks, Question


def approved_instances(questions: Iterable[Question], now: datetime, *, busy: bool) -> frozenset[str]:
    """The instances whose removal is approved. Only a request to empty *busy* nodes covers them; it then also covers
    them once they are empty."""
    requests = tuple(questions)
    rejected = [q for q in requests if q.is_rejected(now)]
    approved = ((i, q) for q in requests if _fits(q, busy=busy) and q.is_approved(now) for i in q.instances)
    return frozenset(i for i, q in approved if not _overruled(q, (r for r in rejected if i in r.instances)))


def _overruled(question: Question, rejected: Iterable[Question]) -> bool:
    """True when one of *rejected* was rejected after *question* was approved. Without an answer to it any of them is:
    a person's no goes before silence."""
    return any(question.answered_at is None or (r.answered_at or r.asked_at) > question.answered_at for r in rejected)


def covered_instances(questions: Iterable[Question], now: datetime, *, busy: bool) -> frozenset[str]:
    """The instances whose removal is not requested again. A rejection keeps a node, whether it is idle or busy."""
    fit = (q for q in questions if _fits(q, busy=busy) or q.is_rejected(now))
    return frozenset(i for q in fit if q.covers(now) for i in q.instances)


def _fits(question: Question, *, busy: bool) -> bool:
    return question.asks is Asks.EMPTYING or (question.asks is Asks.REMOVAL and not busy)


def approved_growth(questions: Iterable[Question], now: datetime) -> int:
    """The highest count up to which a pool may grow by an approval that is not used up; 0 for none."""
    requests = tuple(growth_in(questions))
    rejected = [q for q in requests if q.is_rejected(now)]
    approved = (q for q in requests if q.is_approved(now) and q.done_at is None)
    stands = (q for q in approved if not _overruled(q, (r for r in rejected if r.to_count <= q.to_count)))
    return max((q.to_count for q in stands), default=0)


def growth_ever_approved(questions: Iterable[Question], now: datetime) -> int:
    """The highest count of an approval that still stands, used up or not; 0 for none."""
    return max((q.to_count for q in growth_in(questions) if q.is_approved(now)), default=0)


def growth_covered(questions: Iterable[Question], now: datetime) -> int:
    """The highest count that is not requested again; 0 for none."""
    return max((q.to_count for q in growth_in(questions) if q.covers(now)), default=0)


def growth_rejected(questions: Iterable[Question], now: datetime) -> bool:
    """True while no growth is requested: a person rejected some, and the request has not expired."""
    return any(q.is_rejected(now) for q in growth_in(questions))


def growth_in(questions: Iterable[Question]) -> Iterable[Question]:
    """Those of *questions* that ask for growth."""
    return (q for q in questions if q.asks is Asks.GROWTH)
