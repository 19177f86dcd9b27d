"""`gpu-autoscaler explain`: why a pool has its size, why a pod waits, and what one decision rested on."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from click.shell_completion import CompletionItem

from receiver.core.explain.explain import STAGES, State
from receiver.core.model.actions import Change, Verdict
from receiver.core.model.model import ON_ITS_WAY
from receiver.core.model.overrides import Standing
from receiver.core.model.text import dollars, some, span
from receiver.ports import Clock
from receiver.reports.picture import NodeDocument, OverrideInForce, PoolDocument, ReasonDocument, WaitingPod
from receiver.reports.screen import aligned, as_of, clock_time, known, listed, moment, since, until
from receiver.terminal.client import (
    as_json,
    decision_numbers,
    pool_names,
    server,
    show,
    waiting_pods,
)
from receiver.web.api.documents import DecisionDocument, ExplainedDecision, OverrideDocument, pod_word

POD = re.compile(r"(?P<namespace>[a-z0-9][a-z0-9-]*)/(?P<name>[a-z0-9][a-z0-9.-]*)")
NODES_SHOWN = 20
FEW = 3  # nodes on their way that have a line each
SHOWN = 5  # alerts, workloads and actions of a decision; --json has all
IN_ORDER = "the rules that had an effect, in order:"
COUNTED = ("required", "ready", "building", "busy", "idle", "unknown")


class PoolUnlessNamed(click.Group):
    """What is no subcommand is the name of a pool: ``explain l40s``."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Name the argument of each subcommand."""
        arguments = {
            name: next(p.make_metavar(ctx) for p in command.params if isinstance(p, click.Argument))
            for name, command in self.commands.items()
            if name != "pool"
        }
        self.subcommand_metavar = " | ".join(["POOL", *(" ".join(words) for words in arguments.items())])
        return super().collect_usage_pieces(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand that *args* name, or `pool` with all of them."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            return "pool", self.get_command(ctx, "pool"), args
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the pools beside the subcommands."""
        return [*super().shell_complete(ctx, incomplete), *map(CompletionItem, pool_names(None, None, incomplete))]


@click.group(cls=PoolUnlessNamed)
def explain() -> None:
    """Explain a pool's size, a waiting pod, a node or a decision.

    `explain l40s` is short for `explain pool l40s`; use the long form for a pool named like a subcommand.
    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080). The exit status is 0 on success, 1 if there is
    no such pool, waiting pod, node or decision, 2 for a wrong command line, URL or token and 3 if the server cannot be
    reached.
    """


@explain.command("pod")
@click.argument("pod", metavar="NAMESPACE/NAME", shell_complete=waiting_pods)
@as_json
@click.pass_obj
def explain_pod(clock: Clock, pod: str, as_json: bool) -> None:
    """Show why a GPU pod waits, and what would help it."""
    named = POD.fullmatch(pod)
    if named is None:
        raise click.BadParameter("write NAMESPACE/NAME, such as ml/train-0", param_hint="NAMESPACE/NAME")
    with server(as_json=as_json) as api:
        answer = api.get("waiting", named["namespace"], named["name"])
    lines = about_pod(WaitingPod.model_validate(answer.document), answer.at, clock.now())
    show(as_json, answer.document, lines)


@explain.command("pool")
@click.argument("name", shell_complete=pool_names)
@as_json
@click.pass_obj
def explain_pool(clock: Clock, name: str, as_json: bool) -> None:
    """Show a pool's actual and wanted size, and each rule's verdict."""
    with server(as_json=as_json) as api:
        answer = api.get("pools", name)
        number = answer.document.get("decision")
        decision: Any = api.get("decisions", str(number)).document if number is not None else None
    latest = None if decision is None else DecisionDocument.model_validate(decision)
    lines = about_pool(PoolDocument.model_validate(answer.document), latest, answer.at, clock.now())
    show(as_json, {"pool": answer.document, "decision": decision}, lines)


@explain.command("decision")
@click.argument("number", metavar="ID", shell_complete=decision_numbers)
@as_json
@click.pass_obj
def explain_decision(clock: Clock, number: str, as_json: bool) -> None:
    """Show why a decision was made and what would change it."""
    with server(as_json=as_json) as api:
        answer = api.get("decisions", number)
    decision = ExplainedDecision.model_validate(answer.document)
    show(as_json, answer.document, about_decision(decision, clock.now()))


def about_pod(pod: WaitingPod, at: datetime | None, now: datetime) -> Iterator[str]:
    """Lines on a waiting pod; *at* is when the step looked."""
    asks = ", ".join(f"{count} {resource}" for resource, count in pod.resources.items())
    yield f"pod {pod.namespace}/{pod.name} has been waiting {since(pod.since, at)} for {asks or 'no GPU'}"
    if pod.gang is not None:
        least = f", at least {pod.gang.least} must run together" if pod.gang.least else ""
        bound = f"{pod.gang.bound} already on a node"
        yield f"gang: {pod.workload}: {some(pod.gang.waiting, 'pod')} waiting, {bound}{least}"
    fits = [f"{fit.name}: {fit.why_not}" if fit.why_not else f"{fit.name} fits" for fit in pod.fits]
    pools = listed("pools: ", fits)
    yield f"state: {pod_word(pod.state)} - {pod.detail}"
    if pod.state == State.FITS_NOWHERE:
        yield from pools
    yield f"what to do: {pod.what_to_do or 'unknown to this server'}"
    if pod.scheduler_says:
        yield f"the scheduler says: {pod.scheduler_says}"
    yield from pools  # has nothing left where they stand above
    if pod.decision:
        yield f"decision: {pod.decision} of GPU pool {pod.pool_name}, priority {pod.priority}"
    yield as_of(at, now)


def about_pool(
    pool: PoolDocument, decision: DecisionDocument | None, at: datetime | None, now: datetime
) -> Iterator[str]:
    """Lines on a pool and its latest decision."""
    yield f"GPU pool {pool.name} ({pool.pool}), size {pool.size or None}, mode {pool.mode}"
    yield from _state(pool, at)
    late = f" (Civo still counts {some(pool.uncounted, 'removed node')})" if pool.uncounted else ""
    moved = f"; others changed the count {some(pool.drifts, 'time')} in the last day" if pool.drifts else ""
    yield f"nodes: {', '.join(f'{known(getattr(pool, name))} {name}' for name in COUNTED)}{late}{moved}"
    window = f" (window {', '.join(pool.windows)})" if pool.windows else ""
    pending = "pending GPUs unknown" if pool.pending_gpus is None else some(pool.pending_gpus, "pending GPU")
    allowed = f"allowed {known(pool.min_nodes)} to {known(pool.max_nodes)}{window}"
    yield f"wanted: {known(pool.wanted)}, {allowed}; {pending}"
    if decision is None:
        yield f"why: {pool.because or 'no step has finished yet'}"
    else:
        change = f"{decision.from_count} -> {decision.to_count} nodes"
        yield f"why: decision {decision.id} ({_way(decision)}, {change}); {IN_ORDER}"
        yield from _spoken(pool.reasons or decision.reasons, decision.reasons)  # those of the last step, where known
    yield from listed("to change it: ", [remedy.text for remedy in pool.what_would_change])
    yield from _in_the_way(pool, at)
    action = pool.open_action
    if action is not None:
        failed = f"; last error: {action.last_error}" if action.last_error else ""
        change = f"{action.kind} {action.from_count} -> {action.to_count} nodes"
        yield f"open action: {change} {since(action.opened_at, at)}{failed}"
    if pool.nodes:
        rows = [_row(node, at) for node in pool.nodes[:NODES_SHOWN]]
        yield from aligned([("NODE", "STAGE", "PAID UNTIL", "GPU PODS"), *rows])
    if len(pool.nodes) > NODES_SHOWN:
        yield f"and {len(pool.nodes) - NODES_SHOWN} more"
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


def _state(pool: PoolDocument, at: datetime | None) -> Iterator[str]:
    """What the last step came to, and the nodes that are not usable yet."""
    by = f" [{', '.join(pool.held_by)}]" if pool.held_by else ""
    if pool.because and pool.state.cause:
        yield f"{pool.state}{by}"
        yield from listed("for: ", [pool.wants] if pool.wants else [])
    elif pool.because:
        yield f"{pool.state}: {pool.because}{by}"
    if pool.silenced_by:
        yield f"paused: {pool.silenced_by}"
    for question in pool.questions:
        if question.state == Standing.OPEN:
            yield f"{question.said}: gpu-autoscaler approvals approve {question.id} --who YOU"
    doing = {stage.value: words for stage, words in STAGES.items()}
    coming = [node for node in pool.nodes if node.stage in ON_ITS_WAY]
    usual = "" if pool.ready_in_seconds is None else f"; a node usually takes {span(pool.ready_in_seconds)}"
    for node in coming[:FEW]:
        yield f"on the way {since(node.created_at, at)}: node {node.name} {node.note or doing.get(node.stage)}{usual}"
    if len(coming) > FEW:
        yield f"on the way: {len(coming) - FEW} more"
    for unfit in pool.fits_nowhere:
        yield f"fits no pool: {unfit.pod}: {unfit.why_not or unfit.detail}"


def _way(decision: DecisionDocument) -> str:
    """What *decision* does to the size: "hold" is a stage of a budget."""
    return "no change" if decision.verdict == Change.HOLD else decision.verdict


def _spoken(reasons: Sequence[ReasonDocument], all_of_them: Sequence[ReasonDocument]) -> Iterator[str]:
    """Lines on the rules that had an effect, in order, and how many of *all_of_them* passed."""
    for reason in reasons:
        if reason.verdict != Verdict.ALLOWS:
            verdict = "blocks" if reason.verdict == Verdict.HOLDS else reason.verdict
            yield f"  {verdict:<6} {reason.target:>3}  {reason.rule}: {reason.detail}"
    passed = sum(reason.verdict == Verdict.ALLOWS for reason in all_of_them)
    yield f"  and {some(passed, 'guardrail')} passed"


def _in_the_way(pool: PoolDocument, at: datetime | None) -> Iterator[str]:
    """What keeps the pool from changing for a while, and how long a node of it takes."""
    for override in pool.overrides:
        yield f"override: {override_line(override)} ({override.id})"
    for wait in pool.waits:
        way = {"grow": "no growth", "shrink": "no removal"}.get(wait.direction, "no change")
        nodes = f" of {', '.join(wait.nodes)}" if wait.nodes else ""
        after = f" after {some(wait.failures, 'failure')}" if wait.failures else ""
        yield f"{way}{nodes}: {wait.kind}{after}, ends {until(wait.until, at)}: {wait.reason}"
    failed = pool.provisioning
    if failed is not None and not any(wait.kind == "provisioning" for wait in pool.waits):
        failures = some(failed.failures, "failure")
        yield f"one node at a time is tried until one works, after {failures}: {failed.reason}"
    if pool.reconsider_at is not None and pool.reconsider_at not in [wait.until for wait in pool.waits]:
        yield f"can change by itself {until(pool.reconsider_at, at)}, earlier if the facts change"
    if pool.ready_in_seconds is not None and not any(node.stage in ON_ITS_WAY for node in pool.nodes):
        yield f"a node usually takes {span(pool.ready_in_seconds)} until its GPUs are allocatable"


def _row(node: NodeDocument, at: datetime | None) -> tuple[str, ...]:
    idle = f"idle {since(node.idle_since, at)}" if node.idle_since is not None else "none"
    if node.kept_until is not None:
        idle += f", kept until {clock_time(node.kept_until, at)} for {node.kept_for}"
    if node.kept_by:
        idle += f", kept: {'; '.join(node.kept_by)}"
    noted = f", {node.note}" if node.note else ""
    cordoned = f", cordoned by {node.cordoned_by}" if node.cordoned_by else ""
    paid = f"{node.paid_until:%H:%M:%S}" if node.paid_until is not None else "unknown"
    return str(node.name or node.instance), f"{node.stage}{noted}{cordoned}", paid, " ".join(node.pods) or idle


def about_decision(decision: ExplainedDecision, now: datetime) -> Iterator[str]:
    """Lines on a decision."""
    at = decision.at

    def when(event_at: datetime | None) -> str:
        return "" if event_at is None else f" at {clock_time(event_at, at)}"

    change = f"{_way(decision)}, {decision.from_count} -> {decision.to_count} nodes"
    yield f"decision {decision.id} of GPU pool {decision.pool_name} ({decision.pool}): {change}"
    yield f"because: {decision.because}"
    if at is not None:
        by = f", by version {decision.version} in mode {decision.mode}" if decision.mode else ""
        yield f"made: {clock_time(at, None)} ({span((now - at).total_seconds())} ago){by}"
    yield from listed("what would change it: ", [f"{r.rule}: {r.text}" for r in decision.what_would_change])
    if decision.reconsider_at is not None:
        yield f"could change by itself at {clock_time(decision.reconsider_at, at)}, earlier if the facts change"
    yield IN_ORDER
    yield from _spoken(decision.reasons, decision.reasons)
    yield from _evidence(decision.evidence, at)
    for action in decision.actions[:SHOWN]:
        change = f"{action.kind} {action.from_count} -> {action.to_count} nodes"
        yield f"action: {change}, opened{when(action.opened_at)}"
        for victim in action.victims:
            reason = f": {victim.why}" if victim.why else ""
            yield f"        {victim.node or victim.instance}: {victim.stage}{when(victim.since)}{reason}"
        if action.last_error:
            yield f"        last error: {action.last_error}"
        ended = action.outcome
        yield f"        {ended.kind}{when(ended.at)}: {ended.detail}" if ended is not None else "        still open"
    beside = [(word, getattr(decision, word)) for word in ("previous", "next")]
    neighbours = [f"{word} {number}" for word, number in beside if number is not None]
    if neighbours:
        yield f"adjacent decisions of this pool: {', '.join(neighbours)}"


def _evidence(evidence: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    """What was known then, with its age at that time. An older version may have stored other parts."""
    left_out = evidence.get("left_out") or {}
    requests = []
    for work in evidence.get("workloads") or ():
        team = f"team {work['team']}" if work.get("team") else ""
        owner_and_team = ", ".join(filter(None, (work.get("owner"), team))) or "no owner"
        gpus = some(work.get("gpus") or 0, "GPU")
        requests.append(f"{work.get('workload')} ({owner_and_team}), {gpus}, {since(moment(work.get('since')), at)}")
    yield from _some("requested by: ", requests, left_out.get("asking"))
    alerts = []
    for alert in evidence.get("signals") or ():
        brought = f", delivery {alert['delivery']}" if alert.get("delivery") is not None else ""
        alert_line = f"{alert.get('alertname')} ({alert.get('action')}), {alert.get('fingerprint')}"
        alerts.append(f"{alert_line}, {since(moment(alert.get('starts_at')), at)}{brought}")
    yield from _some("alerts: ", alerts, left_out.get("signals"))
    silent = [
        f"{name} {since(moment(source.get('since')), at)}: {source.get('detail') or 'no answer'}"
        for name, source in (evidence.get("sources") or {}).items()
        if not source.get("up") and source.get("configured", True)
    ]
    yield from listed("silent sources: ", silent)
    if evidence.get("silence"):
        yield f"silence: {evidence['silence'].get('said')}"
    for override in evidence.get("overrides") or ():
        nodes = f" of {some(override['nodes'], 'node')}" if isinstance(override.get("nodes"), int) else ""
        author = f"{override.get('who')}: {override.get('why')}"
        yield f"override {override.get('id')}: {override.get('kind')}{nodes} by {author}"
    bounds, pool = evidence.get("bounds"), evidence.get("pool")
    if bounds and pool:
        price = pool.get("price_usd_per_hour")
        cost = f"{dollars(price)} an hour" if price else "price unknown"
        yield f"bounds: {bounds.get('min_nodes')} to {bounds.get('max_nodes')} nodes of {pool.get('size')}, {cost} each"
    for budget in evidence.get("uncovered") or [b for b in [evidence.get("budget")] if b]:
        spent = f"{dollars(budget.get('spent_usd'))} of {dollars(budget.get('monthly_usd'))} spent"
        reserved = f"{dollars(budget.get('reserved_usd'))} reserved"
        title = f"{budget.get('title') or 'budget'} of {budget.get('month')}"
        yield f"{title}: {spent}, {reserved}, stage {budget.get('stage')}"


def _some(title: str, lines: Sequence[str], left_out: int | None) -> Iterator[str]:
    """The first of *lines* behind *title*, and how many more there were."""
    hidden_count = max(0, len(lines) - SHOWN) + int(left_out or 0)
    yield from listed(title, [*lines[:SHOWN], *([f"and {hidden_count} more"] if hidden_count else [])])
