"""What people are told when they are asked, and when somebody has answered."""

from collections.abc import Sequence
from decimal import Decimal

from receiver.core.model.approval_request import LABELS, Answer, Asks, Question, about, does, does_not, named
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Billing, Policy, Pool
from receiver.core.model.text import some
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity
from receiver.core.scaling.assign import Wanted

TOPIC = "question:"
GUIDE = "operations.md#when-you-are-asked"


def asked(question: Question, policy: Policy, wanted: Wanted, decision: int | None = None) -> Notice:
    """The notice that asks *question*: what, what it costs either way, and what happens without an answer, and when."""
    pool = policy.pool(question.pool)
    assert pool is not None
    lines = _growth(question, pool, wanted, policy) if question.asks is Asks.GROWTH else _removal(question, policy)
    return Notice(
        cause=Cause.ASKS,
        topic=f"{TOPIC}{question.id}",
        key="asked",
        title=f"GPU pool {pool.name}: {in_short(question)}",
        body="\n".join([*lines, unanswered(question), f"To answer: `gpu-autoscaler answer {question.id} approve`"]),
        severity=Severity.WARNING,
        pool=pool.id,
        decision=decision,
        guide=GUIDE,
        question=question.id,
    )


def in_short(question: Question) -> str:
    """The question itself: ``may n1 and n2 go at 14:55 UTC?``."""
    if question.asks is Asks.GROWTH:
        return f"may it grow from {question.from_count} to {question.to_count} nodes?"
    nodes = question.nodes[0] if len(question.nodes) == 1 else some(len(question.nodes), "node")
    what = "go" if question.asks is Asks.REMOVAL else "be emptied and go"
    moment = "from" if len(question.nodes) > 1 else "at"
    return f"may {nodes} {what} {moment} {question.due_at:%H:%M} UTC{' on' if moment == 'from' else ''}?"


def _removal(question: Question, policy: Policy) -> Sequence[str]:
    many = len(question.nodes) > 1
    why = f"{named(question.nodes)} {'run' if many else 'runs'} no GPU pod"
    if question.asks is Asks.EMPTYING:
        why = f"The pods of {named(question.nodes)} consented to be moved, and fit on other nodes"
    if not policy.billing.by_the_hour:
        return [f"{why}. Keeping {'them' if many else 'it'} costs {usd(question)} an hour."]
    unit, end = _unit(policy.billing), f"{question.expires_at:%H:%M} UTC"
    begins = f"their next paid {unit}s begin by {end}" if many else f"the next paid {unit} begins at {end}"
    return [
        f"{why}, and {begins}.",
        f"Keeping {'them' if many else 'it'} costs {usd(question)} for another hour.",
    ]


def _unit(billing: Billing) -> str:
    return "hour" if billing.granularity.total_seconds() == 3600 else "unit"


def _growth(question: Question, pool: Pool, wanted: Wanted, policy: Policy) -> Sequence[str]:
    more = some(question.to_count - question.from_count, "more node")
    limit = pool.approval.growth_above_usd_per_hour if pool.approval else None
    above = f" (asked above USD {limit:.2f})" if limit is not None else ""
    lines = [f"{more[:1].upper()}{more[1:]}: {usd(question)} an hour{above}."]
    if wanted.asking:
        asking = wording.asked_by([pod for workload in wanted.asking for pod in workload.pods], policy)
        lines.append(f"For: {wording.sentence(wording.whose(asking))}")
    view = wanted.budget
    if view is not None:
        left = max(Decimal(0), view.left)
        lines.append(f"Budget {view.month}: USD {view.spent:.2f} of {view.monthly:.2f} spent, {left:.2f} left.")
    return lines


def usd(question: Question) -> str:
    """What the nodes that are asked about cost an hour."""
    return "an unknown price" if question.usd_per_hour is None else f"USD {question.usd_per_hour:.2f}"


def unanswered(question: Question) -> str:
    """What happens without an answer, and when."""
    goes = question.proceeds_at
    many = len(question.nodes) > 1
    again = "" if question.asks is Asks.GROWTH else f" and {'go' if many else 'goes'} on costing"
    if goes is None:
        return f"Without an answer by {question.expires_at:%H:%M} UTC {does_not(question)}{again}; you are asked again."
    each = ", each before its next paid unit" if many else ""
    return f"Without an answer by {goes:%H:%M} UTC {does(question)}{each}."


def answered(question: Question, answer: Answer, who: str, override: Override | None, policy: Policy) -> Notice:
    """The notice that *who* gave *answer*, and what it set."""
    pool = policy.pool(question.pool)
    name = pool.name if pool else question.pool
    what = "approved" if answer is Answer.APPROVE else f"answered: {LABELS[answer]}"
    lines = [f"Requested: {about(question)}."]
    if override is not None:
        lines.append(f"Set: {override}.")
        lines.append(f"To end it earlier: `gpu-autoscaler override end {override.id}`")
    return Notice(
        cause=Cause.ANSWERED,
        topic=f"{TOPIC}{question.id}",
        key=f"answered:{answer}",
        title=f"GPU pool {name}: {who} {what}",
        body="\n".join(lines),
        pool=question.pool,
    )
