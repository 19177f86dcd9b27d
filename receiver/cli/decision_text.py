"""What `gpu-autoscaler explain decision` prints: a decision as it was made, from what was stored with it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from receiver.cli.explain_text import spoken
from receiver.core.model.text import some, span
from receiver.reports.screen_words import clock, listed, moment, since, usd

ALERTS, ASKING, ACTIONS = 5, 5, 5  # how many are shown; --json has all


def about_decision(decision: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """Lines on a decision, from GET /api/v1/decisions/ID."""
    at, known = moment(decision.get("at")), decision.get("evidence") or {}
    change = f"{decision.get('verdict')}, {decision.get('from')} -> {decision.get('to')} nodes"
    yield f"decision {decision.get('id')} of GPU pool {decision.get('pool_name')} ({decision.get('pool')}): {change}"
    yield f"because: {decision.get('because')}"
    if at is not None:
        by = f", by version {decision.get('version')} in mode {decision.get('mode')}" if decision.get("mode") else ""
        yield f"made: {clock(at, None)} ({span((now - at).total_seconds())} ago){by}"
    yield from _change(decision, at)
    yield "the rules that spoke, in order:"
    reasons = decision.get("reasons") or ()
    yield from spoken(reasons)
    quiet = sum(reason.get("verdict") == "allows" for reason in reasons)
    yield f"  and {some(quiet, 'rule')} with nothing to object"
    yield from _known(known, at)
    yield from _followed(decision.get("actions") or (), at)
    beside = [f"{word} {decision.get(word)}" for word in ("previous", "next") if decision.get(word) is not None]
    if beside:
        yield f"decisions of this pool beside it: {', '.join(beside)}"


def _change(decision: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    said = [f"{r.get('rule')}: {r.get('text')}" for r in decision.get("what_would_change") or ()]
    yield from listed("what would change it: ", said)
    alone = moment(decision.get("reconsider_at"))
    if alone is not None:
        yield f"could change unaided at {clock(alone, at)}"


def _known(known: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    """What was known then, with its age at that time."""
    yield from _asked(known, at)
    yield from _alerts(known, at)
    silent = [
        f"{name} {since(source.get('since'), at)}: {source.get('detail') or 'no answer'}"
        for name, source in (known.get("sources") or {}).items()
        if not source.get("up") and source.get("configured", True)
    ]
    yield from listed("silent then: ", silent)
    silence = known.get("silence")
    if silence:
        yield f"silence: {silence.get('said')}"
    for said in known.get("overrides") or ():
        nodes = f" of {some(said['nodes'], 'node')}" if isinstance(said.get("nodes"), int) else ""
        yield f"override {said.get('id')}: {said.get('kind')}{nodes} by {said.get('who')}: {said.get('why')}"
    bounds, pool = known.get("bounds"), known.get("pool")
    if bounds and pool:
        price = pool.get("price_usd_per_hour")
        cost = f"USD {price} an hour" if price else "price unknown"
        yield f"bounds: {bounds.get('min_nodes')} to {bounds.get('max_nodes')} nodes of {pool.get('size')}, {cost} each"
    for budget in known.get("uncovered") or [b for b in [known.get("budget")] if b]:
        spent = f"USD {usd(budget.get('spent_usd'))} of {usd(budget.get('monthly_usd'))} spent"
        kept = f"{usd(budget.get('reserved_usd'))} reserved"
        title, stage = budget.get("title") or "budget", budget.get("stage")
        yield f"{title} of {budget.get('month')}: {spent}, {kept}, stage {stage}"


def _asked(known: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    asking = known.get("workloads") or ()
    said = []
    for work in asking[:ASKING]:
        whose = ", ".join(x for x in (work.get("owner"), f"team {work['team']}" if work.get("team") else "") if x)
        said.append(f"{work.get('workload')} ({whose or 'no owner'}), {some(work.get('gpus') or 0, 'GPU')}, "
                    f"{since(work.get('since'), at)}")  # fmt: skip
    more = max(0, len(asking) - ASKING) + int((known.get("left_out") or {}).get("asking", 0))
    yield from listed("who asked: ", [*said, *([f"and {more} more"] if more > 0 else [])])


def _alerts(known: Mapping[str, Any], at: datetime | None) -> Iterator[str]:
    signals = known.get("signals") or ()
    said = []
    for alert in signals[:ALERTS]:
        brought = f", delivery {alert['delivery']}" if alert.get("delivery") is not None else ""
        fires = since(alert.get("starts_at"), at)
        said.append(f"{alert.get('alertname')} ({alert.get('action')}), {alert.get('fingerprint')}, {fires}{brought}")
    more = max(0, len(signals) - ALERTS) + int((known.get("left_out") or {}).get("signals", 0))
    yield from listed("alerts: ", [*said, *([f"and {more} more"] if more > 0 else [])])


def _followed(actions: Sequence[Mapping[str, Any]], at: datetime | None) -> Iterator[str]:
    for action in actions[:ACTIONS]:
        opened, outcome = moment(action.get("opened_at")), action.get("outcome")
        when = f" at {clock(opened, at)}" if opened is not None else ""
        yield f"then: {action.get('kind')} {action.get('from')} -> {action.get('to')} nodes, opened{when}"
        for victim in action.get("victims") or ():
            reached = moment(victim.get("since"))
            time = f" at {clock(reached, at)}" if reached is not None else ""
            why = f": {victim['why']}" if victim.get("why") else ""
            yield f"      {victim.get('node') or victim.get('instance')}: {victim.get('stage')}{time}{why}"
        if action.get("last_error"):
            yield f"      last error: {action.get('last_error')}"
        if not outcome:
            yield "      still open"
            continue
        ended = moment(outcome.get("at"))
        when = f" at {clock(ended, at)}" if ended is not None else ""
        yield f"      {outcome.get('kind')}{when}: {outcome.get('detail')}"
