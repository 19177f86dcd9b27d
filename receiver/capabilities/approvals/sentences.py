"""Sentences about an approval request: the question, its state, and what happens with and without an answer."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from receiver.capabilities.approvals.coverage import growth_in
from receiver.core.model.overrides import Answer, Asks, Question
from receiver.core.model.text import minute, some

NAMED = 3  # nodes in a sentence


def why_waiting(names: Collection[str], asks: Collection[Asks], questions: Collection[Question], now: datetime) -> str:
    """Say what is waited for before nodes called *names* go, or before a pool grows: open or rejected requests."""
    of_names = (q for q in questions if (set(names) & set(q.nodes) if names else q.asks in asks))
    unapproved = [q for q in of_names if q.is_rejected(now) or (q.is_open(now) and q.asks in asks)]
    if not unapproved:
        return f"{', '.join(sorted(names)) or 'growth of this cost'}: an approval is needed and not requested yet"
    return "; ".join(sentence(q, now, questions) for q in unapproved)


def gives_way(question: Question, questions: Iterable[Question], now: datetime) -> bool:
    """True when other *questions* were rejected so that silence on this one changes nothing: growth to as many nodes or
    fewer, or the removal of each of its nodes."""
    rejected = [q for q in questions if q.pool == question.pool and q.is_rejected(now)]
    if question.asks is Asks.GROWTH:
        return any(q.to_count <= question.to_count for q in growth_in(rejected))
    return bool(rejected) and {i for q in rejected for i in q.instances}.issuperset(question.instances)


def sentence(question: Question, now: datetime, questions: Iterable[Question] = ()) -> str:
    """Return the request and its state: the answer, or until when an answer is awaited and what happens then, also by
    the other *questions*."""
    subject = about(question)
    if question.answer is Answer.APPROVE:
        return f"{question.who} approved: {subject}"
    if question.answer is Answer.REJECT:
        return f"{question.who} rejected: {subject}; not requested again before {minute(question.expires_at, now)}"
    if question.answer is not None:
        return f"{question.who} answered {question.answer} to the request: {subject}"
    proceeds = question.proceeds_at and not gives_way(question, questions, now)
    then = does(question) if proceeds else does_not(question)
    until = minute(question.deadline if proceeds else question.expires_at, now)
    if now < question.wait_ends:
        return f"approval requested until {until}: {subject}; without an answer {then}"
    still = "" if proceeds else f", and an answer counts until {until}"
    return f"no answer to the request: {subject}; {then}{still}"


def about(question: Question) -> str:
    """What is requested: ``remove n1 and n2``, ``grow the pool from 2 to 8 nodes``."""
    if question.asks is Asks.GROWTH:
        return f"grow the pool from {question.from_count} to {question.to_count} nodes"
    verb = "remove" if question.asks is Asks.REMOVAL else "drain and remove"
    return f"{verb} {named(question.nodes)}"


def named(nodes: Sequence[str]) -> str:
    """The first of *nodes* by name, and how many more there are: ``n1 and n2``, ``n1, n2, n3 and 4 more nodes``."""
    if len(nodes) <= NAMED:
        return " and ".join([", ".join(nodes[:-1]), nodes[-1]] if len(nodes) > 1 else nodes)
    return f"{', '.join(nodes[:NAMED])} and {some(len(nodes) - NAMED, 'more node')}"


def does(question: Question) -> str:
    """What happens on approval: ``it grows``, ``they are removed``."""
    if question.asks is Asks.GROWTH:
        return "it grows"
    return "they are removed" if len(question.nodes) > 1 else "it is removed"


def does_not(question: Question) -> str:
    """What happens otherwise: ``it stays``."""
    if question.asks is Asks.GROWTH:
        return "it does not grow"
    return "they stay" if len(question.nodes) > 1 else "it stays"
