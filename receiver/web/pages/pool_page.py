"""GET /pools/{pool}: one pool now, its nodes over time, and everything that happened in it in one order."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, render_template, request

from receiver.core.explain.rules import RULES, why
from receiver.core.model.policy import Pool
from receiver.core.model.text import some
from receiver.core.notices.grouping import OVER
from receiver.ports import Arrival, StoredAction, StoredDecision, StoredNotice, StoredOverride
from receiver.web.api.documents import DecisionDocument, explained
from receiver.web.api.request_parts import invalid, pool_called
from receiver.web.api.routes import decision_asked
from receiver.web.pages.attention import concerns, scene_of
from receiver.web.pages.overview import page_of, usable_in
from receiver.web.pages.pictures import BAR, LOOKS, lanes
from receiver.web.parts import WebParts

SHOWN = 100
LATE = timedelta(minutes=15)  # an alert that has fired for longer when it first came was only repeated
EVERYWHERE = ("", "unassigned")
HEARTBEAT = "heartbeat"
LOOKS_OF_OUTCOMES = {"confirmed": "ok", "observed": "wants", "failed": "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """At *at* something happened: *kind* says what sort of thing, *what* tells it, *decision* is its number if any."""

    at: datetime
    kind: str
    what: str
    detail: str = ""
    look: str = ""
    decision: int | None = None


def _alert(arrival: Arrival, pool: Pool) -> Iterator[Event]:
    alert = arrival.alert
    repeated = alert.firing and arrival.at - alert.starts_at > LATE
    if alert.labels.get("pool", "") not in (pool.id, pool.name, *EVERYWHERE) or repeated:
        return
    name, action = alert.labels.get("alertname", "an alert"), alert.labels.get("action")
    if action == HEARTBEAT:
        return
    if not alert.firing:
        yield Event(at=arrival.at, kind="alert", what=f"{name} is resolved", look="notes")
        return
    words = alert.annotations.get("summary") or alert.annotations.get("description") or ""
    asks = f" and asks for {action}" if action else ""
    yield Event(at=arrival.at, kind="alert", what=f"{name} fires{asks}", detail=words, look="limits")


def _decision(stored: StoredDecision) -> Event:
    decision = stored.decision
    size = some(decision.target, "node")
    if decision.present != decision.target:
        size = f"{decision.present} → {decision.target} nodes"
    return Event(
        at=decision.at,
        kind="decision",
        what=f"{decision.change}: {size}",
        detail=why(decision),
        look=decision.change.value,
        decision=stored.id,
    )


def _action(stored: StoredAction) -> Iterator[Event]:
    action, outcome = stored.action, stored.outcome
    nodes = ", ".join(victim.node or victim.instance for victim in action.victims[:5])
    more = f" and {len(action.victims) - 5} more" if len(action.victims) > 5 else ""
    what, number = f"{action.kind} {action.from_count} → {action.to_count} nodes", action.decision
    yield Event(at=action.opened_at, kind="action", what=f"{what}: begun", detail=f"{nodes}{more}", decision=number)
    if outcome is not None:
        what = f"{what}: {outcome.kind}"
        look = LOOKS_OF_OUTCOMES.get(outcome.kind.value, "notes")
        yield Event(at=outcome.at, kind="action", what=what, detail=outcome.detail, look=look, decision=number)


def _message(told: StoredNotice) -> Event:
    state, look = "", "notes"
    if told.sent_at is None and told.last_error == OVER:
        state = f"not sent: {OVER}"
    elif told.sent_at is None and told.given_up_at is not None:
        state, look = f"not delivered: {told.last_error}", "bad"
    elif told.sent_at is None:
        tries = "1 try" if told.attempts == 1 else f"{told.attempts} tries"
        state = f"waits after {tries}" if told.attempts else "on its way"
    return Event(
        at=told.at, kind="message", what=told.notice.title, detail=state, look=look, decision=told.notice.decision
    )


def _override(stored: StoredOverride) -> Iterator[Event]:
    override = stored.override
    yield Event(at=override.at, kind="override", what=str(override), look="wants")
    if stored.ended_at is not None:
        by = f"ended by {stored.ended_by}" if stored.ended_by else "ran out"
        what = f"{override.kind} by {override.who} {by}"
        yield Event(at=stored.ended_at, kind="override", what=what, look="notes")


SPANS = {"6h": timedelta(hours=6), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
USUAL = "24h"
READ = 150  # decisions, actions and messages of one pool that are read at most
NODES = 60


def add_pool_page(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /pools/{pool} to *routes*."""

    @routes.get("/pools/<name>")
    def pool(name: str) -> str:
        wanted, asked = pool_called(parts, name), request.args.get("span", USUAL)
        if asked not in SPANS:
            raise invalid("span", "nodes are not shown over this span", f"use one of: {', '.join(SPANS)}")
        scene = scene_of(parts)
        now, since = scene.now, scene.now - SPANS[asked]
        entry = scene.found.pool(wanted.id)
        sampled = parts.store.samples(since, now, pool=wanted.id)
        decisions = parts.store.decisions(pool=wanted.id, limit=READ)
        happened, cut = _happened(parts, wanted, since, now, decisions)
        lives = [life for life in parts.store.node_lives(since) if life.pool == wanted.id]
        nodes = entry.nodes if entry else ()
        return render_template(
            "pool.html",
            **page_of(scene, parts),
            pool=wanted,
            entry=entry,
            concerns=[c for c in concerns(scene) if any(pool_id == wanted.id for pool_id, _ in c.pools)],
            usable_in=usable_in(entry, now),
            latest=DecisionDocument.of_stored(decisions[0], parts) if decisions else None,
            nodes=nodes[:NODES],
            more_nodes=len(nodes) - NODES,
            spans=list(SPANS),
            asked=asked,
            since=since,
            lanes=lanes(lives, parts.store.turns(wanted.id, since, now), sampled, since, now),
            legend=[(doing, name, round(BAR * height, 1)) for doing, (name, height) in LOOKS.items()],
            events=happened[:SHOWN],
            more_events=len(happened) - SHOWN,
            cut=cut,
        )


def _happened(
    parts: WebParts, pool: Pool, since: datetime, now: datetime, decisions: Sequence[StoredDecision]
) -> tuple[list[Event], bool]:
    """What happened, newest first, and whether there is more of it than was read."""
    actions = parts.store.actions(pool=pool.id, limit=READ)
    messages = parts.store.messages(since, now, pool=pool.id, limit=READ)
    overrides = [s for s in parts.store.overrides_between(since, now) if s.override.concerns(pool.id)]
    found = [
        *(event for arrival in parts.store.arrivals(since, now) for event in _alert(arrival, pool)),
        *(_decision(stored) for stored in decisions),
        *(event for stored in actions for event in _action(stored)),
        *(_message(told) for told in messages),
        *(event for stored in overrides for event in _override(stored)),
    ]
    oldest = [d.decision.at for d in decisions[READ - 1 :]] + [a.action.opened_at for a in actions[READ - 1 :]]
    cut = any(at > since for at in oldest) or len(messages) == READ
    return sorted((event for event in found if event.at >= since), key=lambda event: event.at, reverse=True), cut


QUIET = "allows"


def add_decisions(routes: Blueprint, parts: WebParts) -> None:
    """Add the page to *routes*."""

    @routes.get("/decisions/<number>")
    def decision(number: str) -> str:
        """Show one decision: what would change it, every rule in order, what was known, what followed."""
        document = explained(decision_asked(parts, number), parts)
        known, pool = document.evidence, parts.policy.pool(document.pool)
        return render_template(
            "decision.html",
            now=parts.clock.now(),
            mode=parts.mode,  # of the server now; the decision has its own
            decision=document,
            pool_now=pool.name if pool else None,  # one that left the configuration has no page
            steps=list(steps(document, parts.docs_url)),
            known=known,
            evidence=json.dumps(known, indent=2, ensure_ascii=False),
        )


def steps(decision: DecisionDocument, docs_url: str | None) -> Iterator[dict[str, Any]]:
    """Yield every reason with the target *before* it, what its rule *means* and its *guide*, the address of the whole
    explanation (None without *docs_url*). One that had nothing left to judge was not *asked*."""
    target = decision.from_count
    for reason in decision.reasons:
        rule = RULES.get(reason.rule)  # None for one that this version does not have any more
        yield {
            **dict(reason),
            "before": target,
            "means": rule.meaning if rule else "",
            "guide": f"{docs_url}/guardrails.md#{reason.rule}" if docs_url and rule else None,
            "asked": reason.verdict != QUIET or target != decision.from_count,
        }
        target = reason.target
