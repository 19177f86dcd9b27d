"""GET /pools and /pools/{pool}: one pool now, its nodes over time, and what happened in it."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from typing import NamedTuple
from zoneinfo import ZoneInfo

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from receiver.core.explain.rules import why
from receiver.core.explain.samples import Doing, NodeTurn, PoolSample
from receiver.core.model.memory import IN_A_ROW, NodeLife
from receiver.core.model.policy import Pool
from receiver.core.model.text import some, span
from receiver.core.notices.grouping import OVER
from receiver.ports import Arrival, DecisionFilter, StoredAction, StoredDecision, StoredNotice, StoredOverride
from receiver.reports.state import scaling_state, unseen
from receiver.web.api.documents import DecisionDocument
from receiver.web.api.request_parts import invalid, pool_called
from receiver.web.api.summary import totals
from receiver.web.pages.decisions import steps
from receiver.web.pages.overview import concerns, page_of, scene_of, usable_in
from receiver.web.pages.show import node_name
from receiver.web.parts import WebParts

LANES = 40
SLOTS = 288  # of a lane: what a node did halfway through each of them is drawn
TOP, LANE, BAR = 22, 30, 12  # pixels: above the first lane, of each lane, of its bar
NOW_AT = 97.0  # percent: to the right of it the end of a node that has just gone is marked
TICKS = [timedelta(minutes=10), timedelta(hours=1), timedelta(hours=2), timedelta(hours=6), timedelta(days=1)]
# What it is called, and how much of the bar it fills: higher the further it has come, as colour is not the only sign.
LOOKS = {
    Doing.BUILDING: ("building", 0.3),
    Doing.BOOTING: ("booting", 0.45),
    Doing.INSTALLING: ("driver", 0.6),
    Doing.BUSY: ("busy", 1.0),
    Doing.IDLE: ("idle", 1.0),
    Doing.UNKNOWN: ("unknown", 1.0),
    Doing.BROKEN: ("broken", 1.0),
    Doing.DELETING: ("deleting", 0.3),
}


class Piece(NamedTuple):
    """A time in which a node did one thing, as it is drawn from *x* on."""

    doing: Doing
    x: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A node's life in the time that is shown; *end* is where it ended (percent), None while it lives."""

    life: NodeLife
    pieces: tuple[Piece, ...]
    summed: tuple[tuple[str, str], ...]  # about how long it did what
    y: float
    end: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """The geometry; *more* lives were left out, the oldest ones."""

    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float
    described: str
    more: int


def lanes(
    lives: Sequence[NodeLife],
    turns: Iterable[NodeTurn],
    samples: Iterable[PoolSample],
    since: datetime,
    now: datetime,
    zone: tzinfo = UTC,
) -> Lanes:
    """Return the picture of *lives* from *since* to *now*, by the clocks of *zone*. Without samples it is not known
    what a node did."""
    lives_in_span = sorted(
        (life for life in lives if life.created_at < now and (life.gone_at or now) > since),
        key=lambda life: (life.gone_at is None, life.created_at),
        reverse=True,
    )
    by_node: dict[str, list[NodeTurn]] = {}
    for turn in turns:
        by_node.setdefault(turn.instance, []).append(turn)
    watched = [since] if any(turn.at < since for of_node in by_node.values() for turn in of_node) else []
    watched += [sample.at for sample in samples]
    node_lanes = []
    for n, life in enumerate(lives_in_span[:LANES]):
        begin, end = max(life.created_at, since), min(life.gone_at or now, now)
        slots = max(1, round(SLOTS * ((end - begin) / (now - since))))
        slot = (end - begin) / slots
        moments = [begin + (number + 0.5) * slot for number in range(slots)]
        doings = [_doing(life, by_node.get(life.instance, []), watched, at, now) for at in moments]
        pieces, first = [], begin
        for doing, grouped in groupby(doings):
            last = first + len(list(grouped)) * slot
            name, height = LOOKS[doing]
            between = f"{first.astimezone(zone):%d %b %H:%M} to {last.astimezone(zone):%d %b %H:%M %Z}"
            title = f"{name} for {span((last - first).total_seconds())}, {between}"
            x = _x(first, since, now)
            pieces.append(Piece(doing, x, round(_x(last, since, now) - x, 3), round(BAR * height, 1), title))
            first = last
        node_lanes.append(
            Lane(
                life=life,
                pieces=tuple(pieces),
                summed=tuple(
                    (LOOKS[d][0], span((count * slot).total_seconds())) for d, count in Counter(doings).items()
                ),
                y=TOP + n * LANE + LANE - BAR - 3,
                end=_x(life.gone_at, since, now) if life.gone_at else None,
            )
        )
    living = sum(life.gone_at is None for life in lives_in_span)
    return Lanes(
        lanes=tuple(node_lanes),
        ticks=tuple(_ticks(since, now, zone)),
        height=TOP + len(node_lanes) * LANE + 4,
        described=f"{some(len(lives_in_span), 'node')} in the last {span((now - since).total_seconds())}, {living} "
        "of them still exist. The table below has the same data.",
        more=max(0, len(lives_in_span) - LANES),
    )


def _doing(
    life: NodeLife, turns: Sequence[NodeTurn], watched: Sequence[datetime], at: datetime, now: datetime
) -> Doing:
    """What *life* did at *at*: unknown in a gap between the moments in which it was *watched*."""
    n = bisect_left(watched, at)
    if n and (watched[n] if n < len(watched) else now) - watched[n - 1] > IN_A_ROW:
        return Doing.UNKNOWN
    n = bisect_right(turns, at, key=lambda turn: turn.at)
    if n and turns[n - 1].doing is not Doing.GONE:
        return turns[n - 1].doing
    # Before its first turn a life tells by itself how far it had come. Between its first and last pod it was busy or
    # idle, which is not known.
    stages = (
        (life.idle_since, Doing.IDLE),
        (life.bound_at, Doing.UNKNOWN),
        (life.usable_at, Doing.IDLE),
        (life.ready_at, Doing.INSTALLING),
        (life.active_at, Doing.BOOTING),
    )
    return next((doing for since, doing in stages if since is not None and since <= at), Doing.BUILDING)


def _x(at: datetime, since: datetime, now: datetime) -> float:
    return round(NOW_AT * ((at - since) / (now - since)), 3)


def _ticks(since: datetime, now: datetime, zone: tzinfo) -> Iterator[tuple[float, str]]:
    """Round times, hours or days by the length: at most seven, so that they fit on a phone."""
    interval = next((step for step in TICKS if (now - since) / step <= 7), TICKS[-1])
    midnight = since.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
    at = midnight + ((since - midnight) // interval + 1) * interval
    while at < now:
        local = at.astimezone(zone)
        yield _x(at, since, now), f"{local:%d %b}" if local.hour == 0 else f"{local:%H:%M}"
        at += interval


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
        yield Event(at=arrival.at, kind="alert", what=f"{name} resolved", look="notes")
        return
    words = alert.annotations.get("summary") or alert.annotations.get("description") or ""
    asks = f" (action: {action})" if action else ""
    yield Event(at=arrival.at, kind="alert", what=f"{name} is firing{asks}", detail=words, look="limits")


def _decision(stored: StoredDecision) -> Event:
    decision = stored.decision
    evidence = decision.evidence
    present, mode = decision.present, evidence.get("mode")
    state = scaling_state(decision.change, decision.reasons, mode, present=present, unseen=unseen(evidence))
    size = some(decision.target, "node")
    if decision.present != decision.target and not state.would:
        size = f"{decision.present} → {size}"
    return Event(
        at=decision.at,
        kind="decision",
        what=f"{state}: {size}".replace("->", "→"),
        detail=why(decision),
        look=state.word,
        decision=stored.id,
    )


def _action(stored: StoredAction) -> Iterator[Event]:
    action, outcome = stored.action, stored.outcome
    nodes = ", ".join(node_name(victim.node, victim.instance) for victim in action.victims[:5])
    overflow = f" and {len(action.victims) - 5} more" if len(action.victims) > 5 else ""
    title, number = f"{action.kind} {action.from_count} → {action.to_count} nodes", action.decision
    yield Event(
        at=action.opened_at, kind="action", what=f"{title}: started", detail=f"{nodes}{overflow}", decision=number
    )
    if outcome is not None:
        title = f"{title}: {outcome.kind}"
        look = LOOKS_OF_OUTCOMES.get(outcome.kind.value, "notes")
        yield Event(at=outcome.at, kind="action", what=title, detail=outcome.detail, look=look, decision=number)


def _message(stored: StoredNotice) -> Event:
    state, look = "", "notes"
    if stored.sent_at is None and stored.last_error == OVER:
        state = f"not sent: {OVER}"
    elif stored.sent_at is None and stored.given_up_at is not None:
        state, look = f"not delivered: {stored.last_error}", "bad"
    elif stored.sent_at is None:
        state = f"retrying after {some(stored.attempts, 'attempt')}" if stored.attempts else "on its way"
    return Event(
        at=stored.at, kind="message", what=stored.notice.title, detail=state, look=look, decision=stored.notice.decision
    )


def _override(stored: StoredOverride) -> Iterator[Event]:
    override = stored.override
    yield Event(at=override.at, kind="override", what=str(override), look="wants")
    if stored.ended_at is not None:
        by = f"ended by {stored.ended_by}" if stored.ended_by else "expired"
        title = f"{override.kind} by {override.who} {by}"
        yield Event(at=stored.ended_at, kind="override", what=title, look="notes")


SPANS = {"1h": timedelta(hours=1), "6h": timedelta(hours=6), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
USUAL = "24h"
SHORT_UNIT = timedelta(minutes=5)  # with paid units up to this, nodes live for minutes: a day of them is a blur
READ = 150  # decisions, actions and messages of one pool that are read at most
NODES = 60


def add_pool_page(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /pools, which leads to the pool with the worst problem, and GET /pools/{pool} to *routes*."""

    @routes.get("/pools")
    def pools() -> ResponseReturnValue:
        troubled = [pool_id for concern in concerns(scene_of(parts)) for pool_id, _ in concern.pools]
        shown = [*filter(None, map(parts.policy.pool, troubled)), *parts.policy.pools]
        return redirect(url_for("pages.pool", name=shown[0].name) if shown else url_for("pages.status"))

    @routes.get("/pools/<name>")
    def pool(name: str) -> str:
        configured, billing = pool_called(parts, name), parts.policy.billing
        usual = next(iter(SPANS)) if billing.by_the_hour and billing.granularity <= SHORT_UNIT else USUAL
        span_name = request.args.get("span", usual)
        if span_name not in SPANS:
            raise invalid("span", "nodes are not shown over this span", f"use one of: {', '.join(SPANS)}")
        scene, zone = scene_of(parts), ZoneInfo(parts.policy.timezone)
        now, since = scene.now, scene.now - SPANS[span_name]
        entry = scene.found.pool(configured.id)
        sampled = parts.store.samples(since, now, pool=configured.id)
        decisions = parts.store.decisions(DecisionFilter(pool=configured.id), limit=READ)
        happened, cut = _happened(parts, configured, since, now, decisions)
        latest = DecisionDocument.of_stored(decisions[0], parts) if decisions else None
        lives = [life for life in parts.store.node_lives(since) if life.pool == configured.id]
        nodes = entry.nodes if entry else ()
        pods = [pod for pod in scene.found.waiting if pod.pool == configured.id]
        return render_template(
            "pool.html",
            **page_of(scene, parts),
            pool=configured,
            pools=[pool.name for pool in parts.policy.pools],
            entry=entry,
            concerns=concerns(scene, configured.id),
            usable_in=usable_in(entry, now),
            sums=totals([entry], pods, len(pods))._replace(gpus_waiting=entry.pending_gpus) if entry else None,
            latest=latest,
            steps=list(steps(latest, parts.guide)) if latest else [],
            nodes=nodes[:NODES],
            more_nodes=len(nodes) - NODES,
            spans=list(SPANS),
            asked=span_name,
            span_chosen="span" in request.args,
            since=since,
            lanes=lanes(lives, parts.store.turns(configured.id, since, now), sampled, since, now, zone),
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
    events = [
        *(event for arrival in parts.store.arrivals(since, now) for event in _alert(arrival, pool)),
        *(_decision(stored) for stored in decisions),
        *(event for stored in actions for event in _action(stored)),
        *(_message(message) for message in messages),
        *(event for stored in overrides for event in _override(stored)),
    ]
    oldest = [d.decision.at for d in decisions[READ - 1 :]] + [a.action.opened_at for a in actions[READ - 1 :]]
    cut = any(at > since for at in oldest) or len(messages) == READ
    return sorted((event for event in events if event.at >= since), key=lambda event: event.at, reverse=True), cut
