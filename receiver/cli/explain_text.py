"""What `gpu-autoscaler explain` prints: documents on pods, pools and decisions as lines, at most a screen of them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from receiver.core.explain.explain import STAGES, State
from receiver.core.model.actions import Verdict
from receiver.core.model.approval_request import Standing
from receiver.core.model.model import ON_ITS_WAY
from receiver.core.model.text import some, span
from receiver.reports.picture import (
    FitDocument,
    NodeDocument,
    OverrideInForce,
    PoolDocument,
    ReasonDocument,
    WaitDocument,
    WaitingPod,
)
from receiver.reports.screen import aligned, as_of, clock_time, known, listed, moment, since, until, usd
from receiver.web.api.documents import ActionDocument, DecisionDocument, ExplainedDecision, OverrideDocument

NODES_SHOWN = 20
FEW = 3  # nodes on their way that have a line each
ALERTS, ASKING, ACTIONS = 5, 5, 5  # how many a decision shows; --json has all


def about_pod(pod: WaitingPod, at: datetime | None, now: datetime) -> Iterator[str]:
    """Lines on a waiting pod; *at* is when the step looked."""
    asks = ", ".join(f"{count} {resource}" for resource, count in pod.resources.items())
    yield f"pod {pod.namespace}/{pod.name} waits {since(pod.since, at)} for {asks or 'no GPU'}"
    if pod.gang is not None:
        least = f", at least {pod.gang.least} must run together" if pod.gang.least else ""
        bound = f"{some(pod.gang.bound, 'pod')} of it already on a node"
        yield f"gang: {pod.workload}: {some(pod.gang.waiting, 'pod')} waiting, {bound}{least}"
    pools = listed("pools: ", [_fit(fit) for fit in pod.fits])
    yield f"state: {pod.state} - {pod.detail}"
    if pod.state == State.FITS_NOWHERE:
        yield from pools
    yield f"what to do: {pod.what_to_do or 'not known to this server'}"
    if pod.scheduler_says:
        yield f"the scheduler says: {pod.scheduler_says}"
    yield from pools  # has nothing left where they stand above
    if pod.decision:
        yield f"decision: {pod.decision} of GPU pool {pod.pool_name}, priority {pod.priority}"
    yield as_of(at, now)


def _fit(fit: FitDocument) -> str:
    return f"{fit.name}: {fit.why_not}" if fit.why_not else f"{fit.name} fits"


def about_pool(
    pool: PoolDocument, decision: DecisionDocument | None, at: datetime | None, now: datetime
) -> Iterator[str]:
    """Lines on a pool and its latest decision."""
    yield f"GPU pool {pool.name} ({pool.pool}), size {pool.size or None}, mode {pool.mode}"
    yield from _answer(pool)
    yield from _on_the_way(pool, at)
    for lost in pool.fits_nowhere:
        yield f"fits no pool: {lost.pod}: {lost.why_not or lost.detail}"
    yield _counts(pool)
    yield f"wanted: {known(pool.wanted)}, allowed {_bounds(pool)}; {_pending(pool)}"
    yield from _why(pool, decision)
    yield from listed("to change it: ", [remedy.text for remedy in pool.what_would_change])
    yield from _in_the_way(pool, at)
    action = pool.open_action
    if action is not None:
        failed = f"; last error: {action.last_error}" if action.last_error else ""
        change = f"{action.kind} {action.from_count} -> {action.to_count} nodes"
        yield f"open action: {change} {since(action.opened_at, at)}{failed}"
    yield from _nodes(pool.nodes, at)
    if pool.messages_to:
        yield f"messages about it go to {', '.join(pool.messages_to)}"
    yield as_of(at, now)


def override_line(override: OverrideInForce | OverrideDocument) -> str:
    """``pin of 3 nodes of l40s by alice until 2026-11-21 18:00:00 UTC: load test``."""
    size = f" of {some(override.nodes, 'node')}" if override.nodes is not None else ""
    if isinstance(override, OverrideInForce):
        where = " of every pool" if override.every_pool else ""
    else:
        where = f" of {override.pool_name}" if override.pool_name else "" if override.pool else " of every pool"
    when = clock_time(override.until, None) if override.until is not None else "an unknown time"
    return f"{override.kind}{size}{where} by {override.who} until {when}: {override.why}"


def _answer(pool: PoolDocument) -> Iterator[str]:
    """What the last step came to, in a sentence: it is what most people want to know."""
    if pool.because:
        change = {"grow": "it grows", "shrink": "it shrinks", "hold": "it stays"}.get(pool.verdict, "now")
        by = f" [{', '.join(pool.held_by)}]" if pool.held_by else ""
        yield f"{change}: {pool.because}{by}"
    if pool.silenced_by:
        yield f"paused: {pool.silenced_by}"
    for question in pool.questions:
        if question.state == Standing.OPEN:
            yield f"{question.said}: gpu-autoscaler answer {question.id} approve"


def _on_the_way(pool: PoolDocument, at: datetime | None) -> Iterator[str]:
    """The nodes that are not usable yet, each with what it is doing."""
    doing = {stage.value: words for stage, words in STAGES.items()}
    coming = [node for node in pool.nodes if node.stage in ON_ITS_WAY]
    usual = "" if pool.ready_in_seconds is None else f"; a node usually takes {span(pool.ready_in_seconds)}"
    for node in coming[:FEW]:
        yield (f"on the way {since(node.created_at, at)}: node {node.name} {node.note or doing.get(node.stage)}{usual}")
    if len(coming) > FEW:
        yield f"on the way: {len(coming) - FEW} more"


def _counts(pool: PoolDocument) -> str:
    names = ("required", "ready", "building", "busy", "idle", "unknown")
    said = ", ".join(f"{known(getattr(pool, name))} {name}" for name in names)
    late = f" (Civo still counts {some(pool.uncounted, 'removed node')} more)" if pool.uncounted else ""
    moved = f"; others changed the count {some(pool.drifts, 'time')} in the last day" if pool.drifts else ""
    return f"nodes: {said}{late}{moved}"


def _bounds(pool: PoolDocument) -> str:
    named = f" (window {', '.join(pool.windows)})" if pool.windows else ""
    return f"{known(pool.min_nodes)} to {known(pool.max_nodes)}{named}"


def _pending(pool: PoolDocument) -> str:
    return "pending GPUs unknown" if pool.pending_gpus is None else some(pool.pending_gpus, "pending GPU")


def _why(pool: PoolDocument, decision: DecisionDocument | None) -> Iterator[str]:
    if decision is None:
        yield f"why: {pool.because or 'no step has finished yet'}"
        return
    change = f"{decision.from_count} -> {decision.to_count} nodes"
    yield f"why: decision {decision.id} ({decision.verdict}, {change}); the rules that spoke, in order:"
    yield from _spoken(pool.reasons or decision.reasons)  # those of the last step, where known
    yield _passed(decision.reasons)


def _spoken(reasons: Sequence[ReasonDocument]) -> Iterator[str]:
    """Lines on the rules that spoke, in order."""
    for reason in reasons:
        if reason.verdict != Verdict.ALLOWS:
            yield f"  {reason.verdict:<6} {reason.target:>3}  {reason.rule}: {reason.detail}"


def _passed(reasons: Sequence[ReasonDocument]) -> str:
    return f"  and {some(sum(reason.verdict == Verdict.ALLOWS for reason in reasons), 'guardrail')} passed"


def _in_the_way(pool: PoolDocument, at: datetime | None) -> Iterator[str]:
    """What keeps the pool from changing for a while, and how long a node of it takes."""
    for override in pool.overrides:
        yield f"override: {override_line(override)} ({override.id})"
    for wait in pool.waits:
        yield _wait(wait, at)
    failed = pool.provisioning
    if failed is not None and not any(wait.kind == "provisioning" for wait in pool.waits):
        failures = some(failed.failures, "failure")
        yield f"one node on trial until one becomes usable, after {failures}: {failed.reason}"
    if pool.reconsider_at is not None:
        yield f"will be re-evaluated {until(pool.reconsider_at, at)}"
    if pool.ready_in_seconds is not None:
        yield f"a node usually takes {span(pool.ready_in_seconds)} until its GPUs are allocatable"


def _wait(wait: WaitDocument, at: datetime | None) -> str:
    """One line on what holds one direction for a while: which, why, and when it ends."""
    way = {"grow": "no growth", "shrink": "no removal"}.get(wait.direction, "no change")
    nodes = f" of {', '.join(wait.nodes)}" if wait.nodes else ""
    after = f" after {some(wait.failures, 'failure')}" if wait.failures else ""
    return f"{way}{nodes}: {wait.kind}{after}, ends {until(wait.until, at)}: {wait.reason}"


def _nodes(nodes: Sequence[NodeDocument], at: datetime | None) -> Iterator[str]:
    if not nodes:
        return
    rows = [("NODE", "STAGE", "PAID UNTIL", "GPU PODS")]
    for node in nodes[:NODES_SHOWN]:
        idle = f"idle {since(node.idle_since, at)}" if node.idle_since is not None else "none"
        if node.kept_until is not None:
            idle += f", kept until {clock_time(node.kept_until, at)} for {node.kept_for}"
        if node.kept_by:
            idle += f", kept: {'; '.join(node.kept_by)}"
        noted = f", {node.note}" if node.note else ""
        cordoned = f", cordoned by {node.cordoned_by}" if node.cordoned_by else ""
        paid = f"{node.paid_until:%H:%M:%S}" if node.paid_until is not None else "unknown"
        rows.append(
            (str(node.name or node.instance), f"{node.stage}{noted}{cordoned}", paid, " ".join(node.pods) or idle)
        )
    yield from aligned(rows)
    if len(nodes) > NODES_SHOWN:
        yield f"and {len(nodes) - NODES_SHOWN} more"


def about_decision(decision: ExplainedDecision, now: datetime) -> Iterator[str]:
    """Lines on a decision."""
    at = decision.at
    change = f"{decision.verdict}, {decision.from_count} -> {decision.to_count} nodes"
    yield f"decision {decision.id} of GPU pool {decision.pool_name} ({decision.pool}): {change}"
    yield f"because: {decision.because}"
    if at is not None:
        by = f", by version {decision.version} in mode {decision.mode}" if decision.mode else ""
        yield f"made: {clock_time(at, None)} ({span((now - at).total_seconds())} ago){by}"
    yield from listed("what would change it: ", [f"{r.rule}: {r.text}" for r in decision.what_would_change])
    if decision.reconsider_at is not None:
        yield f"to be re-evaluated at {clock_time(decision.reconsider_at, at)}"
    yield "the rules that spoke, in order:"
    yield from _spoken(decision.reasons)
    yield _passed(decision.reasons)
    yield from _evidence(decision.evidence, at)
    for action in decision.actions[:ACTIONS]:
        yield from _action(action, at)
    beside = [(word, getattr(decision, word)) for word in ("previous", "next")]
    said = [f"{word} {number}" for word, number in beside if number is not None]
    if said:
        yield f"decisions of this pool beside it: {', '.join(said)}"


def _action(action: ActionDocument, at: datetime | None) -> Iterator[str]:
    yield f"then: {action.kind} {action.from_count} -> {action.to_count} nodes, opened{_at(action.opened_at, at)}"
    for victim in action.victims:
        why = f": {victim.why}" if victim.why else ""
        yield f"      {victim.node or victim.instance}: {victim.stage}{_at(victim.since, at)}{why}"
    if action.last_error:
        yield f"      last error: {action.last_error}"
    ended = action.outcome
    yield f"      {ended.kind}{_at(ended.at, at)}: {ended.detail}" if ended is not None else "      still open"


def _at(moment: datetime | None, beside: datetime | None) -> str:
    return "" if moment is None else f" at {clock_time(moment, beside)}"


def _evidence(evidence: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    """What was known then, with its age at that time. An older version may have stored other parts."""
    left_out = evidence.get("left_out") or {}
    asked = [_work(work, at) for work in evidence.get("workloads") or ()]
    yield from _some("who asked: ", asked, ASKING, left_out.get("asking"))
    alerts = [_alert(alert, at) for alert in evidence.get("signals") or ()]
    yield from _some("alerts: ", alerts, ALERTS, left_out.get("signals"))
    silent = [
        f"{name} {since(moment(source.get('since')), at)}: {source.get('detail') or 'no answer'}"
        for name, source in (evidence.get("sources") or {}).items()
        if not source.get("up") and source.get("configured", True)
    ]
    yield from listed("silent then: ", silent)
    if evidence.get("silence"):
        yield f"silence: {evidence['silence'].get('said')}"
    for said in evidence.get("overrides") or ():
        nodes = f" of {some(said['nodes'], 'node')}" if isinstance(said.get("nodes"), int) else ""
        yield f"override {said.get('id')}: {said.get('kind')}{nodes} by {said.get('who')}: {said.get('why')}"
    bounds, pool = evidence.get("bounds"), evidence.get("pool")
    if bounds and pool:
        price = pool.get("price_usd_per_hour")
        cost = f"USD {price} an hour" if price else "price unknown"
        yield f"bounds: {bounds.get('min_nodes')} to {bounds.get('max_nodes')} nodes of {pool.get('size')}, {cost} each"
    for budget in evidence.get("uncovered") or [b for b in [evidence.get("budget")] if b]:
        spent = f"USD {usd(budget.get('spent_usd'))} of {usd(budget.get('monthly_usd'))} spent"
        kept = f"{usd(budget.get('reserved_usd'))} reserved"
        title = f"{budget.get('title') or 'budget'} of {budget.get('month')}"
        yield f"{title}: {spent}, {kept}, stage {budget.get('stage')}"


def _some(title: str, lines: Sequence[str], most: int, left_out: int | None) -> Iterator[str]:
    """At most so many of *lines* behind *title*, and how many more there were."""
    more = max(0, len(lines) - most) + int(left_out or 0)
    yield from listed(title, [*lines[:most], *([f"and {more} more"] if more else [])])


def _work(work: Mapping[str, Any], at: datetime | None) -> str:
    whose = ", ".join(x for x in (work.get("owner"), f"team {work['team']}" if work.get("team") else "") if x)
    gpus = some(work.get("gpus") or 0, "GPU")
    return f"{work.get('workload')} ({whose or 'no owner'}), {gpus}, {since(moment(work.get('since')), at)}"


def _alert(alert: Mapping[str, Any], at: datetime | None) -> str:
    brought = f", delivery {alert['delivery']}" if alert.get("delivery") is not None else ""
    fires = since(moment(alert.get("starts_at")), at)
    return f"{alert.get('alertname')} ({alert.get('action')}), {alert.get('fingerprint')}, {fires}{brought}"
