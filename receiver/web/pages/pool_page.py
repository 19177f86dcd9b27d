"""GET /pools/{pool}: one pool now, its nodes over time, and everything that happened in it in one order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, render_template, request

from receiver.core.explain.rules import why
from receiver.core.model.policy import Pool
from receiver.core.model.signals import Alert
from receiver.core.model.text import some
from receiver.core.notices.grouping import OVER
from receiver.ports import Arrival, StoredAction, StoredDecision, StoredOverride, Told
from receiver.reports.picture import PoolDocument
from receiver.web.api.documents import DecisionDocument
from receiver.web.api.request_parts import pool_called
from receiver.web.errors import Problem
from receiver.web.pages.attention import concerns
from receiver.web.pages.overview import page_of, scene_of, usable_in
from receiver.web.pages.pictures import BAR, LOOKS, lanes
from receiver.web.parts import WebParts

SHOWN = 100
LATE = timedelta(minutes=15)  # an alert that has fired for longer when it first came was only repeated
EVERYWHERE = frozenset({"", "unassigned"})
NO_NEWS = frozenset({"heartbeat"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """At *at* something happened: *kind* says what sort of thing, *what* tells it, *decision* is its number if any."""

    at: datetime
    kind: str
    what: str
    detail: str = ""
    look: str = ""
    decision: int | None = None


def timeline(
    pool: Pool,
    since: datetime,
    *,
    arrivals: Iterable[Arrival] = (),
    decisions: Iterable[StoredDecision] = (),
    actions: Iterable[StoredAction] = (),
    messages: Iterable[Told] = (),
    overrides: Iterable[StoredOverride] = (),
) -> list[Event]:
    """Return what happened in *pool* after *since*, newest first."""
    found = [
        *(event for arrival in arrivals for event in _alert(arrival, pool)),
        *(_decision(stored) for stored in decisions),
        *(event for stored in actions for event in _action(stored)),
        *(_message(told) for told in messages),
        *(event for stored in overrides if stored.override.concerns(pool.id) for event in _override(stored)),
    ]
    return sorted((event for event in found if event.at >= since), key=lambda event: event.at, reverse=True)


def _alert(arrival: Arrival, pool: Pool) -> Iterator[Event]:
    alert = arrival.alert
    if not _concerns(alert, pool) or alert.labels.get("action") in NO_NEWS:
        return
    if alert.firing and arrival.at - alert.starts_at > LATE:
        return
    name = alert.labels.get("alertname", "an alert")
    words = alert.annotations.get("summary") or alert.annotations.get("description") or ""
    if alert.firing:
        asks = f" and asks for {alert.labels['action']}" if alert.labels.get("action") else ""
        yield Event(at=arrival.at, kind="alert", what=f"{name} fires{asks}", detail=words, look="limits")
    else:
        yield Event(at=arrival.at, kind="alert", what=f"{name} is resolved", look="notes")


def _concerns(alert: Alert, pool: Pool) -> bool:
    named = alert.labels.get("pool", "")
    return named in (pool.id, pool.name) or named in EVERYWHERE


def _decision(stored: StoredDecision) -> Event:
    decision = stored.decision
    change = f"{decision.present} → {decision.target}" if decision.present != decision.target else decision.present
    return Event(
        at=decision.at,
        kind="decision",
        what=f"{decision.change.value}: {change} {'node' if change == 1 else 'nodes'}",
        detail=why(decision),
        look=decision.change.value,
        decision=stored.id,
    )


def _action(stored: StoredAction) -> Iterator[Event]:
    action, outcome = stored.action, stored.outcome
    nodes = ", ".join(victim.node or victim.instance for victim in action.victims[:5])
    more = f" and {len(action.victims) - 5} more" if len(action.victims) > 5 else ""
    what = f"{action.kind.value} {action.from_count} → {action.to_count} nodes"
    yield Event(
        at=action.opened_at, kind="action", what=f"{what}: begun", detail=f"{nodes}{more}", decision=action.decision
    )
    if outcome is not None:
        looks = {"confirmed": "ok", "observed": "wants", "failed": "bad"}
        yield Event(
            at=outcome.at,
            kind="action",
            what=f"{what}: {outcome.kind.value}",
            detail=outcome.detail,
            look=looks.get(outcome.kind.value, "notes"),
            decision=action.decision,
        )


def _message(told: Told) -> Event:
    if told.sent_at is not None:
        state = ""
    elif told.last_error == OVER:
        state = f"not sent: {OVER}"
    elif told.given_up_at is not None:
        state = f"not delivered: {told.last_error}"
    else:
        state = f"waits after {some(told.attempts, 'try').replace('trys', 'tries')}" if told.attempts else "on its way"
    look = "bad" if told.given_up_at is not None and told.last_error != OVER else "notes"
    return Event(
        at=told.at, kind="message", what=told.notice.title, detail=state, look=look, decision=told.notice.decision
    )


def _override(stored: StoredOverride) -> Iterator[Event]:
    override = stored.override
    yield Event(at=override.at, kind="override", what=str(override), look="wants")
    if stored.ended_at is not None:
        by = f"ended by {stored.ended_by}" if stored.ended_by else "ran out"
        yield Event(
            at=stored.ended_at, kind="override", what=f"{override.kind.value} by {override.who} {by}", look="notes"
        )


SPANS = {"6h": timedelta(hours=6), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
USUAL = "24h"
READ = 150  # decisions, actions and messages of one pool that are read at most
NODES = 60


def add_pool_page(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /pools/{pool} to *routes*."""

    @routes.get("/pools/<name>")
    def pool(name: str) -> str:
        """Show one pool, by its id or its name."""
        wanted, asked = pool_called(parts, name), span_asked()
        scene = scene_of(parts)
        now, since = scene.now, scene.now - SPANS[asked]
        page = page_of(scene, parts)
        entry: PoolDocument | None = page["picture"].pool(wanted.id)
        sampled = parts.store.samples(since, now, pool=wanted.id)
        decisions = parts.store.decisions(pool=wanted.id, limit=READ)
        happened, cut = _happened(parts, wanted, since, now, decisions)
        lives = [life for life in parts.store.node_lives(since) if life.pool == wanted.id]
        nodes = entry.nodes if entry else ()
        return render_template(
            "pool.html",
            **page,
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


def span_asked() -> str:
    """Return the query's *span*; Problem 400 unless it is one that is offered."""
    asked = request.args.get("span", USUAL)
    if asked not in SPANS:
        raise Problem(400, "nodes are not shown over this span", f"use one of: {', '.join(SPANS)}", field="span")
    return asked


def _happened(
    parts: WebParts, pool: Pool, since: datetime, now: datetime, decisions: Sequence[StoredDecision]
) -> tuple[list[Any], bool]:
    """What happened, newest first, and whether there is more of it than was read."""
    actions = parts.store.actions(pool=pool.id, limit=READ)
    messages = parts.store.messages(since, now, pool=pool.id, limit=READ)
    found = timeline(
        pool,
        since,
        arrivals=parts.store.arrivals(since, now),
        decisions=decisions,
        actions=actions,
        messages=messages,
        overrides=parts.store.overrides_between(since, now),
    )
    oldest = [d.decision.at for d in decisions[READ - 1 :]] + [a.action.opened_at for a in actions[READ - 1 :]]
    return found, any(at > since for at in oldest) or len(messages) == READ
