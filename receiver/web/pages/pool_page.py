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

from receiver.core.explain.samples import Doing, NodeTurn, PoolSample
from receiver.core.model.memory import IN_A_ROW, NodeLife
from receiver.core.model.text import some, span
from receiver.core.notices.notice import Level
from receiver.ports import DecisionFilter
from receiver.web.api.documents import DecisionDocument
from receiver.web.api.request_parts import invalid, pool_called
from receiver.web.api.summary import totals
from receiver.web.pages.decisions import steps
from receiver.web.pages.events import READ, by_episode, happened
from receiver.web.pages.events import steps as steps_of
from receiver.web.pages.overview import concerns, page_of, progress, scene_of
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
SPANS = {"1h": timedelta(hours=1), "6h": timedelta(hours=6), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
USUAL = "24h"
SHORT_UNIT = timedelta(minutes=5)  # with paid units up to this, nodes live for minutes: a day of them is a blur
NODES = 60


def add_pool_page(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /pools, which leads to the pool with the worst problem, and GET /pools/{pool} to *routes*."""

    @routes.get("/pools")
    def pools() -> ResponseReturnValue:
        troubled = [pool_id for concern in concerns(scene_of(parts)) for pool_id, _ in concern.pools]
        in_order = [*filter(None, map(parts.policy.pool, troubled)), *parts.policy.pools]
        return redirect(url_for("pages.pool", name=in_order[0].name) if in_order else url_for("pages.status"))

    @routes.get("/pools/<name>")
    def pool(name: str) -> str:
        configured, billing = pool_called(parts, name), parts.policy.billing
        usual = next(iter(SPANS)) if billing.by_the_hour and billing.granularity <= SHORT_UNIT else USUAL
        span_name = request.args.get("span", usual)
        if span_name not in SPANS:
            raise invalid("span", "nodes are not shown over this span", f"use one of: {', '.join(SPANS)}")
        scene, zone = scene_of(parts), ZoneInfo(parts.policy.timezone)
        now, since = scene.now, scene.now - SPANS[span_name]
        entry, shown_concerns = scene.found.pool(configured.id), concerns(scene, configured.id)
        sampled = parts.store.samples(since, now, pool=configured.id)
        decisions = parts.store.decisions(DecisionFilter(pool=configured.id), limit=READ)
        found, every_step = happened(parts, configured, since, now, decisions), "steps" in request.args
        events = steps_of(found, since) if every_step else by_episode(found, since)
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
            concerns=shown_concerns,
            problem=any(concern.level is Level.BAD and concern.rule for concern in shown_concerns),
            progress=progress(entry, now) if entry is not None and (entry.open_action or entry.building) else "",
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
            events=events[:SHOWN],
            more_events=len(events) - SHOWN,
            every_step=every_step,
            cut=found.cut,
        )
