"""Messages about what people requested: approvals and overrides."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from receiver.core.model.model import PoolState
from receiver.core.model.overrides import (
    Asks,
    Override,
    OverrideKind,
    Question,
    does,
    does_not,
    named,
)
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import dollars, listed, some
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


MEANING = {
    OverrideKind.PIN: "pinned to {nodes}",
    OverrideKind.FLOOR: "at least {nodes}",
    OverrideKind.CEILING: "at most {nodes}",
    OverrideKind.PAUSE: "paused",
    OverrideKind.SNOOZE: "snoozed (no removals)",
}
EFFECT = {
    OverrideKind.PIN: "the pool is resized to this size now and stays there",
    OverrideKind.FLOOR: "the pool grows to this size now and does not shrink below it",
    OverrideKind.CEILING: "idle nodes above it are removed now; the pool does not grow above it",
    OverrideKind.PAUSE: "nothing grows and nothing is removed",
    OverrideKind.SNOOZE: "only dead nodes are removed; growth continues",
}
AFTERWARDS = {
    OverrideKind.PAUSE: "waiting work gets nodes again, and idle nodes are removed",
    OverrideKind.SNOOZE: "idle nodes are removed, each before its next paid hour",
}


def was_set(override: Override, policy: Policy, idle: Sequence[str] = ()) -> Notice:
    """The notice of a new override; *idle* are the nodes of its pools that are idle now."""
    after = f"{EFFECT[override.kind]}. When it ends, {_afterwards(override, idle)}"
    return _set(override, policy, "set", "", f"{override.who}: {override.why}", after)


def goes_on(override: Override, policy: Policy) -> Notice:
    """The notice that an override is in force again, which a step under a clock that was ahead had ended."""
    reason = f"a clock jump ended {override.who}'s {override.kind} too early (reason: {override.why})"
    return _set(override, policy, "goes on", " again", reason, EFFECT[override.kind])


def was_ended(override: Override, by: str, policy: Policy) -> Notice:
    """The notice that *by* ended an override early."""
    until = wording.moment(override.until, override.at)
    reason = f"{by} ended the {override.kind} that {override.who} had set until {until} (reason: {override.why})"
    body = wording.worded(why=reason, after=_afterwards(override))
    return _notice(override, policy, "ended", f"no longer {_meaning(override)}", body)


def ran_out(override: Override, policy: Policy, pools: Iterable[PoolState] = ()) -> Notice:
    """The notice that an override has expired; *pools* as found now."""
    nodes = [n for state in pools if override.concerns(state.pool) for n in state.nodes]
    idle = [n.name for n in nodes if n.idle_since is not None]
    reason = f"the {override.kind} set by {override.who} has expired (reason: {override.why})"
    body = wording.worded(why=reason, after=_afterwards(override, idle))
    return _notice(override, policy, "ran out", f"no longer {_meaning(override)}", body)


def _meaning(override: Override) -> str:
    nodes = "" if override.nodes is None else some(override.nodes, "node")
    return MEANING[override.kind].format(nodes=nodes)


def _afterwards(override: Override, idle: Sequence[str] = ()) -> str:
    if override.kind not in AFTERWARDS:
        return "the configured size and demand apply again"
    return AFTERWARDS[override.kind] + (f" (idle now: {listed(idle)})" if idle else "")


def _set(override: Override, policy: Policy, key: str, again: str, reason: str, after: str) -> Notice:
    title = f"{_meaning(override)}{again} until {override.until:%Y-%m-%d %H:%M} UTC"
    do = f"To end it earlier: gpu-autoscaler override end {override.id}"
    notice = _notice(override, policy, key, title, wording.worded(why=reason, after=after, do=do))
    return replace(notice, cause=Cause.OVERRIDE_SET, severity=Severity.WARNING)


def _notice(override: Override, policy: Policy, key: str, title: str, body: str) -> Notice:
    pool = policy.pool(override.pool) if override.pool is not None else None
    scope = "All GPU pools" if override.pool is None else f"GPU pool {pool.name if pool else override.pool}"
    return Notice(
        cause=Cause.OVERRIDE_ENDED,
        topic=f"override:{override.id}",
        key=key,
        title=f"{scope}: {title}",
        body=body,
        pool=override.pool,
    )
