"""The messages about approval requests."""

from collections.abc import Sequence
from decimal import Decimal

from receiver.capabilities.approvals.choices import LABELS
from receiver.capabilities.approvals.sentences import about, does, does_not, named
from receiver.core.model.overrides import Answer, Asks, Override, Question
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import dollars, some
from receiver.core.money.cost import HOUR
from receiver.core.notices import wording
from receiver.core.notices.notice import GUIDES, Cause, Notice, Severity
from receiver.core.scaling.wanted import Wanted

QUESTION_TOPIC = "question:"


def asked(question: Question, policy: Policy, wanted: Wanted, decision: int | None = None) -> Notice:
    """The notice that asks *question*: what it costs either way, and what happens without an answer, and when."""
    pool = policy.pool(question.pool)
    assert pool is not None
    lines = _growth(question, pool, wanted, policy) if question.asks is Asks.GROWTH else _removal(question, policy)
    waits = question.asks is Asks.GROWTH and bool(wanted.work.asking) and question.proceeds_at is None
    return Notice(
        cause=Cause.ASKS,
        topic=f"{QUESTION_TOPIC}{question.id}",
        key="asked",
        title=f"GPU pool {pool.name}: {in_short(question)}",
        body="\n".join(
            [*lines, unanswered(question), f"To answer: `gpu-autoscaler approvals approve {question.id} --who YOU`"]
        ),
        severity=Severity.FAILURE if waits else Severity.WARNING,  # work waits for the answer
        pool=pool.id,
        decision=decision,
        guide=GUIDES[Cause.ASKS],
        question=question.id,
    )


def in_short(question: Question) -> str:
    """The question itself: ``remove n1 at 14:55 UTC?``."""
    if question.asks is Asks.GROWTH:
        return f"grow from {question.from_count} to {question.to_count} nodes?"
    verb = "remove" if question.asks is Asks.REMOVAL else "drain and remove"
    if len(question.nodes) == 1:
        return f"{verb} {question.nodes[0]} at {question.due_at:%H:%M} UTC?"
    return f"{verb} {some(len(question.nodes), 'node')} from {question.due_at:%H:%M} UTC on?"


def _removal(question: Question, policy: Policy) -> Sequence[str]:
    many = len(question.nodes) > 1
    keeping = f"Keeping {'them' if many else 'it'} costs {hourly_cost(question)}"
    reason = f"{named(question.nodes)} {'run' if many else 'runs'} no GPU pod"
    if question.asks is Asks.EMPTYING:
        reason = f"The pods of {named(question.nodes)} may be moved, and fit on other nodes"
    if not policy.billing.by_the_hour:
        return [f"{reason}. {keeping} an hour."]
    unit, end = "hour" if policy.billing.granularity == HOUR else "unit", f"{question.expires_at:%H:%M} UTC"
    begins = f"their next paid {unit}s start by {end}" if many else f"the next paid {unit} starts at {end}"
    return [f"{reason}, and {begins}.", f"{keeping} for another hour."]


def _growth(question: Question, pool: Pool, wanted: Wanted, policy: Policy) -> Sequence[str]:
    new_nodes = some(question.to_count - question.from_count, "more node")
    limit = pool.approval.growth_above_usd_per_hour if pool.approval else None
    above = f" (approval is required above {dollars(limit)})" if limit is not None else ""
    lines = [f"{new_nodes[:1].upper()}{new_nodes[1:]}: {hourly_cost(question)} an hour{above}."]
    if wanted.work.asking:
        asking = wording.asked_by([pod for workload in wanted.work.asking for pod in workload.pods], policy)
        lines.append(f"For: {wording.sentence(wording.whose(asking))}")
    view = wanted.money.budget
    if view is not None:
        spent = f"{dollars(view.spent)} of {dollars(view.monthly)} spent"
        lines.append(f"Budget {view.month}: {spent}, {dollars(max(Decimal(0), view.left))} left.")
    return lines


def hourly_cost(question: Question) -> str:
    """What the nodes of *question* cost an hour."""
    return dollars(question.usd_per_hour, "an unknown price")


def unanswered(question: Question, *, yields: bool = False) -> str:
    """What happens without an answer, and when. With *yields* another request was rejected, which decides it."""
    if yields:
        return f"Without an answer {does_not(question)}: another request was rejected."
    goes, many = question.proceeds_at is not None, len(question.nodes) > 1
    by = wording.moment(question.deadline, question.asked_at)
    if not goes:
        again = "" if question.asks is Asks.GROWTH else f" and {'keep' if many else 'keeps'} costing money"
        no = f"Without an answer by {by} {does_not(question)}"
        return f"{no}{again}; a new request follows."
    each = ", each before its next paid unit" if many else ""
    return f"Without an answer by {by} {does(question)}{each}."


def answered(question: Question, override: Override | None, policy: Policy) -> Notice:
    """The notice of the answer to *question*, and of the override that this set."""
    answer = question.answer
    assert answer is not None
    pool = policy.pool(question.pool)
    name = pool.name if pool else question.pool
    verdict = {Answer.APPROVE: "approved", Answer.REJECT: "rejected"}.get(answer, f"answered: {LABELS[answer]}")
    lines = [f"Requested: {about(question)}."]
    if override is not None:
        lines += [f"Set: {override}.", f"To end it earlier: `gpu-autoscaler override end {override.id}`"]
    elif answer is Answer.REJECT:
        lines.append(f"It is not requested again before {wording.moment(question.expires_at, question.asked_at)}.")
    return Notice(
        cause=Cause.ANSWERED,
        topic=f"{QUESTION_TOPIC}{question.id}",
        key=f"answered:{answer}",
        title=f"GPU pool {name}: {question.who} {verdict}",
        body="\n".join(lines),
        pool=question.pool,
    )
