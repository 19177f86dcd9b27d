"""What `gpu-autoscaler explain` prints: documents on pods, pools and decisions as lines, at most a screen of them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from receiver.core.explain.explain import STAGES, State
from receiver.core.model.model import ON_ITS_WAY
from receiver.core.model.text import some, span
from receiver.reports.screen import aligned, as_of, clock_time, known, listed, moment, since, until, usd

QUIET = "allows"  # the verdict of a rule that had nothing to object
NODES_SHOWN = 20
FEW = 3  # nodes on their way that are told one by one
ALERTS, ASKING, ACTIONS = 5, 5, 5  # how many a decision shows; --json has all


def about_pod(pod: Mapping[str, Any], at: datetime | None, now: datetime) -> Iterator[str]:
    """Lines on a waiting pod, from GET /api/v1/waiting/NAMESPACE/NAME; *at* is when the step looked."""
    asks = ", ".join(f"{count} {resource}" for resource, count in (pod.get("resources") or {}).items())
    yield f"pod {pod.get('namespace')}/{pod.get('name')} waits {since(pod.get('since'), at)} for {asks or 'no GPU'}"
    gang = pod.get("gang")
    if gang:
        least = f", at least {gang.get('least')} must run together" if gang.get("least") else ""
        bound = f"{some(gang.get('bound') or 0, 'pod')} of it already on a node"
        yield f"gang: {pod.get('workload')}: {some(gang.get('waiting') or 0, 'pod')} waiting, {bound}{least}"
    yield f"state: {pod.get('state')} - {pod.get('detail')}"
    if pod.get("state") == State.FITS_NOWHERE:
        yield from _pools(pod)
    yield f"what to do: {pod.get('what_to_do') or 'not known to this server'}"
    if pod.get("scheduler_says"):
        yield f"the scheduler says: {pod.get('scheduler_says')}"
    if pod.get("state") != State.FITS_NOWHERE:
        yield from _pools(pod)
    if pod.get("decision"):
        yield f"decision: {pod.get('decision')} of GPU pool {pod.get('pool_name')}, priority {pod.get('priority')}"
    yield as_of(at, now)


def _pools(pod: Mapping[str, Any]) -> Iterator[str]:
    yield from listed("pools: ", [_fit(fit) for fit in pod.get("fits") or ()])


def about_pool(
    pool: Mapping[str, Any], decision: Mapping[str, Any] | None, at: datetime | None, now: datetime
) -> Iterator[str]:
    """Lines on a pool and its latest decision, from GET /api/v1/pools/NAME and /decisions/ID."""
    yield f"GPU pool {pool.get('name')} ({pool.get('pool')}), size {pool.get('size')}, mode {pool.get('mode')}"
    yield from _answer(pool)
    yield from _on_the_way(pool, at)
    yield from _fits_nowhere(pool)
    yield _counts(pool)
    yield f"wanted: {known(pool.get('wanted'))}, allowed {_bounds(pool)}; {_waiting(pool)}"
    yield from _why(pool, decision)
    yield from listed("to change it: ", [str(r.get("text")) for r in pool.get("what_would_change") or ()])
    yield from _in_the_way(pool, at)
    action = pool.get("open_action")
    if action:
        failed = f"; last error: {action.get('last_error')}" if action.get("last_error") else ""
        change = f"{action.get('kind')} {action.get('from')} -> {action.get('to')} nodes"
        yield f"open action: {change} {since(action.get('opened_at'), at)}{failed}"
    yield from _nodes(pool.get("nodes") or (), at)
    if pool.get("messages_to"):
        yield f"messages about it go to {', '.join(pool['messages_to'])}"
    yield as_of(at, now)


def override_line(override: Mapping[str, Any]) -> str:
    """``pin of 3 nodes of l40s by alice until 2026-11-21 18:00:00 UTC: load test``."""
    nodes = override.get("nodes")
    size = f" of {some(nodes, 'node')}" if isinstance(nodes, int) else ""
    named = override.get("pool_name")
    of_all = override.get("every_pool", "pool" in override and override.get("pool") is None)
    where = f" of {named}" if named else " of every pool" if of_all else ""
    ends = moment(override.get("until"))
    when = clock_time(ends, None) if ends is not None else "an unknown time"
    return f"{override.get('kind')}{size}{where} by {override.get('who')} until {when}: {override.get('why')}"


def _answer(pool: Mapping[str, Any]) -> Iterator[str]:
    """What the last step came to, in a sentence: it is what most people want to know."""
    if pool.get("because"):
        change = {"grow": "it grows", "shrink": "it shrinks", "hold": "it stays"}.get(str(pool.get("verdict")), "now")
        held = pool.get("held_by") or ()
        by = f" [{', '.join(held)}]" if held else ""
        yield f"{change}: {pool.get('because')}{by}"
    if pool.get("silenced_by"):
        yield f"paused: {pool.get('silenced_by')}"
    for asked in pool.get("questions") or ():
        if asked.get("state") == "open":
            yield f"{asked.get('said')}: gpu-autoscaler answer {asked.get('id')} approve"


def _on_the_way(pool: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    """The nodes that are not usable yet, each with what it is doing."""
    doing = {stage.value: words for stage, words in STAGES.items()}
    coming = [n for n in pool.get("nodes") or () if n.get("stage") in ON_ITS_WAY]
    seconds = pool.get("ready_in_seconds")
    usual = f"; a node usually takes {span(seconds)}" if isinstance(seconds, int | float) else ""
    for node in coming[:FEW]:
        began = since(node.get("created_at"), at)
        doing_now = node.get("note") or doing.get(str(node.get("stage")))
        yield f"on the way {began}: node {node.get('name')} {doing_now}{usual}"
    if len(coming) > FEW:
        yield f"on the way: {len(coming) - FEW} more"


def _fits_nowhere(pool: Mapping[str, Any]) -> Iterator[str]:
    """The waiting pods that no pool can hold, with why not this one."""
    for lost in pool.get("fits_nowhere") or ():
        yield f"fits no pool: {lost.get('pod')}: {lost.get('why_not') or lost.get('detail')}"


def _counts(pool: Mapping[str, Any]) -> str:
    names = ("required", "ready", "building", "busy", "idle", "unknown")
    said = ", ".join(f"{known(pool.get(name))} {name}" for name in names)
    uncounted = pool.get("uncounted")
    late = f" (Civo still counts {some(uncounted, 'removed node')} more)" if uncounted else ""
    drifts = pool.get("drifts")
    moved = f"; somebody else changed the count {some(drifts, 'time')} in the last day" if drifts else ""
    return f"nodes: {said}{late}{moved}"


def _bounds(pool: Mapping[str, Any]) -> str:
    windows = pool.get("windows") or ()
    named = f" (window {', '.join(windows)})" if windows else ""
    return f"{known(pool.get('min_nodes'))} to {known(pool.get('max_nodes'))}{named}"


def _waiting(pool: Mapping[str, Any]) -> str:
    gpus = pool.get("pending_gpus")
    return f"{some(gpus, 'GPU')} waited for" if isinstance(gpus, int) else "how many GPUs are waited for is unknown"


def _why(pool: Mapping[str, Any], decision: Mapping[str, Any] | None) -> Iterator[str]:
    if decision is None:
        yield f"why: {pool.get('because') or 'no step has finished yet'}"
        return
    change = f"{decision.get('from')} -> {decision.get('to')} nodes"
    yield f"why: decision {decision.get('id')} ({decision.get('verdict')}, {change}); the rules that spoke, in order:"
    yield from spoken(pool.get("reasons") or decision.get("reasons") or ())  # those of the last step, where known
    quiet = sum(1 for reason in decision.get("reasons") or () if reason.get("verdict") == QUIET)
    yield f"  and {some(quiet, 'rule')} with nothing to object"


def spoken(reasons: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines on the rules that spoke, in order."""
    for reason in reasons:
        if reason.get("verdict") != QUIET:
            said = f"{reason.get('rule')}: {reason.get('detail')}"
            yield f"  {reason.get('verdict'):<6} {reason.get('target'):>3}  {said}"


def _in_the_way(pool: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    """What keeps the pool from changing for a while, and how long a node of it takes."""
    for override in pool.get("overrides") or ():
        yield f"override: {override_line(override)} ({override.get('id')})"
    for wait in pool.get("waits") or ():
        yield _wait(wait, at)
    failed = pool.get("provisioning")
    if failed and not any(w.get("kind") == "provisioning" for w in pool.get("waits") or ()):
        failures = some(failed.get("failures") or 0, "failure")
        yield f"one node on trial until one becomes usable, after {failures}: {failed.get('reason')}"
    if pool.get("reconsider_at"):
        yield f"can change unaided {until(pool.get('reconsider_at'), at)}"
    seconds = pool.get("ready_in_seconds")
    if isinstance(seconds, int | float):
        yield f"a node usually takes {span(seconds)} until its GPUs are allocatable"


def _wait(wait: Mapping[str, Any], at: datetime | None) -> str:
    """One line on what holds one direction for a while: which, why, and when it ends."""
    way = {"grow": "no growth", "shrink": "no removal"}.get(str(wait.get("direction")), "no change")
    nodes = f" of {', '.join(wait.get('nodes') or ())}" if wait.get("nodes") else ""
    failures = wait.get("failures")
    after = f" after {some(failures, 'failure')}" if isinstance(failures, int) and failures else ""
    ends = f"ends {until(wait.get('until'), at)}"
    return f"{way}{nodes}: {wait.get('kind')}{after}, {ends}: {wait.get('reason')}"


def _nodes(nodes: Sequence[Mapping[str, Any]], at: datetime | None) -> Iterator[str]:
    if not nodes:
        return
    rows = [("NODE", "STAGE", "PAID UNTIL", "GPU PODS")]
    for node in nodes[:NODES_SHOWN]:
        paid = moment(node.get("paid_until"))
        idle = f"idle {since(node.get('idle_since'), at)}" if node.get("idle_since") else "none"
        kept = moment(node.get("kept_until"))
        if kept is not None and not node.get("pods"):
            idle += f", kept until {clock_time(kept, at)} for {node.get('kept_for')}"
        keepers = node.get("kept_by") or ()
        if keepers and not node.get("pods"):
            idle += f", kept: {'; '.join(keepers)}"
        cordoned = f", cordoned by {node.get('cordoned_by')}" if node.get("cordoned_by") else ""
        noted = f", {node.get('note')}" if node.get("note") else ""
        rows.append(
            (
                str(node.get("name") or node.get("instance")),
                f"{node.get('stage')}{noted}{cordoned}",
                f"{paid:%H:%M:%S}" if paid else "unknown",
                " ".join(node.get("pods") or ()) or idle,
            )
        )
    yield from aligned(rows)
    if len(nodes) > NODES_SHOWN:
        yield f"and {len(nodes) - NODES_SHOWN} more"


def _fit(fit: Mapping[str, Any]) -> str:
    why = fit.get("why_not")
    return f"{fit.get('name')}: {why}" if why else f"{fit.get('name')} fits"


def about_decision(decision: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """Lines on a decision, from GET /api/v1/decisions/ID."""
    at, evidence = moment(decision.get("at")), decision.get("evidence") or {}
    change = f"{decision.get('verdict')}, {decision.get('from')} -> {decision.get('to')} nodes"
    yield f"decision {decision.get('id')} of GPU pool {decision.get('pool_name')} ({decision.get('pool')}): {change}"
    yield f"because: {decision.get('because')}"
    if at is not None:
        by = f", by version {decision.get('version')} in mode {decision.get('mode')}" if decision.get("mode") else ""
        yield f"made: {clock_time(at, None)} ({span((now - at).total_seconds())} ago){by}"
    yield from _change(decision, at)
    yield "the rules that spoke, in order:"
    reasons = decision.get("reasons") or ()
    yield from spoken(reasons)
    quiet = sum(reason.get("verdict") == "allows" for reason in reasons)
    yield f"  and {some(quiet, 'rule')} with nothing to object"
    yield from _evidence(evidence, at)
    yield from _followed(decision.get("actions") or (), at)
    beside = [f"{word} {decision.get(word)}" for word in ("previous", "next") if decision.get(word) is not None]
    if beside:
        yield f"decisions of this pool beside it: {', '.join(beside)}"


def _change(decision: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    said = [f"{r.get('rule')}: {r.get('text')}" for r in decision.get("what_would_change") or ()]
    yield from listed("what would change it: ", said)
    alone = moment(decision.get("reconsider_at"))
    if alone is not None:
        yield f"could change unaided at {clock_time(alone, at)}"


def _evidence(evidence: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    """What was known then, with its age at that time."""
    yield from _asked(evidence, at)
    yield from _alerts(evidence, at)
    silent = [
        f"{name} {since(source.get('since'), at)}: {source.get('detail') or 'no answer'}"
        for name, source in (evidence.get("sources") or {}).items()
        if not source.get("up") and source.get("configured", True)
    ]
    yield from listed("silent then: ", silent)
    silence = evidence.get("silence")
    if silence:
        yield f"silence: {silence.get('said')}"
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
        title, stage = budget.get("title") or "budget", budget.get("stage")
        yield f"{title} of {budget.get('month')}: {spent}, {kept}, stage {stage}"


def _asked(evidence: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    asking = evidence.get("workloads") or ()
    said = []
    for work in asking[:ASKING]:
        whose = ", ".join(x for x in (work.get("owner"), f"team {work['team']}" if work.get("team") else "") if x)
        said.append(f"{work.get('workload')} ({whose or 'no owner'}), {some(work.get('gpus') or 0, 'GPU')}, "
                    f"{since(work.get('since'), at)}")  # fmt: skip
    more = max(0, len(asking) - ASKING) + int((evidence.get("left_out") or {}).get("asking", 0))
    yield from listed("who asked: ", [*said, *([f"and {more} more"] if more > 0 else [])])


def _alerts(evidence: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    signals = evidence.get("signals") or ()
    said = []
    for alert in signals[:ALERTS]:
        brought = f", delivery {alert['delivery']}" if alert.get("delivery") is not None else ""
        fires = since(alert.get("starts_at"), at)
        said.append(f"{alert.get('alertname')} ({alert.get('action')}), {alert.get('fingerprint')}, {fires}{brought}")
    more = max(0, len(signals) - ALERTS) + int((evidence.get("left_out") or {}).get("signals", 0))
    yield from listed("alerts: ", [*said, *([f"and {more} more"] if more > 0 else [])])


def _followed(actions: Sequence[Mapping[str, Any]], at: datetime | None) -> Iterator[str]:
    for action in actions[:ACTIONS]:
        opened, outcome = moment(action.get("opened_at")), action.get("outcome")
        when = f" at {clock_time(opened, at)}" if opened is not None else ""
        yield f"then: {action.get('kind')} {action.get('from')} -> {action.get('to')} nodes, opened{when}"
        for victim in action.get("victims") or ():
            reached = moment(victim.get("since"))
            time = f" at {clock_time(reached, at)}" if reached is not None else ""
            why = f": {victim['why']}" if victim.get("why") else ""
            yield f"      {victim.get('node') or victim.get('instance')}: {victim.get('stage')}{time}{why}"
        if action.get("last_error"):
            yield f"      last error: {action.get('last_error')}"
        if not outcome:
            yield "      still open"
            continue
        ended = moment(outcome.get("at"))
        when = f" at {clock_time(ended, at)}" if ended is not None else ""
        yield f"      {outcome.get('kind')}{when}: {outcome.get('detail')}"
