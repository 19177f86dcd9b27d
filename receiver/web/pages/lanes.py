"""The picture of a pool's nodes over time: a lane per node life. Across in percent of the width, down in pixels."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from receiver.core.explain.samples import Doing, NodeTurn, PoolSample
from receiver.core.model.memory import IN_A_ROW, NodeLife
from receiver.core.model.text import some, span
from receiver.web.pages.show import percent

LANES = 40
PIECES = 2400  # of all lanes together: a week of short jobs on many nodes is a hundred thousand spans
TOP, LANE, BAR = 22, 30, 12  # pixels: above the first lane, of each lane, of its bar
A_MOMENT = timedelta(microseconds=1)
NOW_AT = 97.0  # percent: to the right of it the end of a node that has just gone is marked
WORDS = {
    Doing.BUILDING: "building",
    Doing.BOOTING: "booting",
    Doing.INSTALLING: "driver",
    Doing.BUSY: "busy",
    Doing.IDLE: "idle",
    Doing.UNKNOWN: "unknown",
    Doing.BROKEN: "broken",
    Doing.DELETING: "going",
}
# Higher the further it has come, so that colour is not the only sign: how much of the bar each fills.
FILLS = {Doing.BUILDING: 0.3, Doing.BOOTING: 0.45, Doing.INSTALLING: 0.6, Doing.DELETING: 0.3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From *since* until *until* the node was *doing* this."""

    doing: Doing
    since: datetime
    until: datetime

    @property
    def lasted(self) -> timedelta:
        """How long."""
        return self.until - self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A span as it is drawn: *x* and *width* in percent, *y* and *height* in pixels."""

    doing: str
    x: float
    width: float
    y: float
    height: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A node's life in the time that is shown; *end* is where it ended (percent), None while it lives."""

    name: str
    life: NodeLife
    spans: tuple[Span, ...]
    pieces: tuple[Piece, ...]
    y: float
    end: float | None

    @property
    def summed(self) -> Sequence[tuple[str, str]]:
        """How long it did what, in the time shown."""
        total: dict[Doing, timedelta] = {}
        for part in self.spans:
            total[part.doing] = total.get(part.doing, timedelta(0)) + part.lasted
        return [(WORDS[doing], span(lasted.total_seconds())) for doing, lasted in total.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment on the axis, *x* in percent; *anchor* keeps its label inside."""

    x: float
    label: str
    anchor: str = "middle"


class Key(NamedTuple):
    """A line of the legend: the look of *doing*, and what it means."""

    doing: str
    words: str
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """The geometry, and what a person who cannot see it is told."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    height: float
    described: str
    more: int  # lives that were left out, the oldest ones


def lanes(
    lives: Sequence[NodeLife], turns: Iterable[NodeTurn], samples: Iterable[PoolSample], since: datetime, now: datetime
) -> Lanes:
    """Return the picture of *lives* from *since* to *now*. Without samples it is not known what a node did."""
    shown = sorted(
        (x for x in lives if x.created_at < now and (x.gone_at or now) > since),
        key=lambda life: (life.gone_at is None, life.created_at),
        reverse=True,
    )
    by_node: dict[str, list[NodeTurn]] = {}
    for turn in turns:
        by_node.setdefault(turn.instance, []).append(turn)
    watched = [since] if any(turn.at < since for of_node in by_node.values() for turn in of_node) else []
    unwatched = _unwatched([*watched, *(sample.at for sample in samples)], now)
    found = []
    most = PIECES // max(1, len(shown[:LANES]))
    for n, life in enumerate(shown[:LANES]):
        spans = tuple(_spans(life, by_node.get(life.instance, []), unwatched, since, now))
        y = TOP + n * LANE + LANE - BAR - 3
        found.append(
            Lane(
                name=life.name or life.instance,
                life=life,
                spans=spans,
                pieces=tuple(_pieces(spans, most, y, since, now)),
                y=y,
                end=_x(life.gone_at, since, now) if life.gone_at else None,
            )
        )
    living = sum(life.gone_at is None for life in shown)
    return Lanes(
        lanes=tuple(found),
        ticks=tuple(_ticks(since, now)),
        height=TOP + len(found) * LANE + 4,
        described=f"{some(len(shown), 'node')} in the last {span((now - since).total_seconds())}, {living} of them "
        "living. The table below says the same.",
        more=max(0, len(shown) - LANES),
    )


def _spans(
    life: NodeLife,
    turns: Sequence[NodeTurn],
    unwatched: Sequence[tuple[datetime, datetime]],
    since: datetime,
    now: datetime,
) -> Iterator[Span]:
    """What *life* did between *since* and *now*, without gaps."""
    begin, end = max(life.created_at, since), min(life.gone_at or now, now)
    marks = _marks(life, turns)
    changes = [(begin, _at(marks, begin))] + [(at, doing) for at, doing in marks if begin < at < end]
    for (at, doing), (until, _) in pairwise([*changes, (end, Doing.GONE)]):
        yield from _seen(Span(doing=doing, since=at, until=until), unwatched)


def _marks(life: NodeLife, turns: Sequence[NodeTurn]) -> list[tuple[datetime, Doing]]:
    """What was seen, and before it what the life tells by itself."""
    seen = [(turn.at, turn.doing) for turn in turns if turn.doing is not Doing.GONE]
    return [mark for mark in _stages(life) if not seen or mark[0] < seen[0][0]] + seen


def _at(marks: Sequence[tuple[datetime, Doing]], at: datetime) -> Doing:
    """What was done at *at*: before the first sample, it was built."""
    return next((doing for since, doing in reversed(marks) if since <= at), Doing.BUILDING)


def _stages(life: NodeLife) -> Iterator[tuple[datetime, Doing]]:
    """What a life tells by itself: whether a usable node was busy is known only until its first pod, and since its
    last one."""
    yield life.created_at, Doing.BUILDING
    known = (
        (life.active_at, Doing.BOOTING),
        (life.ready_at, Doing.INSTALLING),
        (life.usable_at, Doing.IDLE),
        (life.bound_at, Doing.UNKNOWN),
        (life.idle_since, Doing.IDLE),
    )
    last = life.created_at
    for at, doing in known:
        if at is not None and at >= last:
            last = at
            yield at, doing


def _unwatched(sampled: Sequence[datetime], now: datetime) -> list[tuple[datetime, datetime]]:
    """Gaps between samples that are far apart. Before the first sample each node's own times are used."""
    return [(a, b) for a, b in pairwise([*sampled, now]) if b - a > IN_A_ROW]


def _seen(part: Span, unwatched: Sequence[tuple[datetime, datetime]]) -> Iterator[Span]:
    """*part* with those pieces unknown that lie in a gap."""
    at = part.since
    first = bisect_right(unwatched, part.since, key=lambda hole: hole[1])
    for n in range(first, len(unwatched)):
        begin, end = max(unwatched[n][0], part.since), min(unwatched[n][1], part.until)
        if begin >= end:
            break
        if at < begin:
            yield Span(doing=part.doing, since=at, until=begin)
        yield Span(doing=Doing.UNKNOWN, since=begin, until=end)
        at = end
    if at < part.until:
        yield Span(doing=part.doing, since=at, until=part.until)


def _pieces(spans: Sequence[Span], most: int, y: float, since: datetime, now: datetime) -> Iterator[Piece]:
    """The spans of a lane as they are drawn; of more than *most*, what lasted longest in each of so many columns."""
    if len(spans) <= most:
        yield from (_piece(part, y, since, now) for part in spans)
        return
    for part in _longest(spans, most):
        yield _piece(part, y, since, now, "mostly ")


def _longest(spans: Sequence[Span], columns: int) -> Iterator[Span]:
    begin, each = spans[0].since, (spans[-1].until - spans[0].since) / columns
    lasted = [Counter[Doing]() for _ in range(columns)]
    for part in spans:
        at = part.since
        while at < part.until:
            n = min((at - begin) // each, columns - 1)
            until = part.until if n == columns - 1 else min(part.until, begin + (n + 1) * each)
            lasted[n][part.doing] += (until - at) // A_MOMENT
            at = until
    doings = [of_column.most_common(1)[0][0] for of_column in lasted]
    first = 0
    for n in range(1, columns + 1):
        if n == columns or doings[n] is not doings[first]:
            yield Span(doing=doings[first], since=begin + first * each, until=begin + n * each)
            first = n


def _piece(part: Span, y: float, since: datetime, now: datetime, roughly: str = "") -> Piece:
    x, end = _x(part.since, since, now), _x(part.until, since, now)
    height = round(BAR * FILLS.get(part.doing, 1.0), 1)
    times = f"{part.since:%d %b %H:%M} to {part.until:%d %b %H:%M} UTC"
    return Piece(
        doing=part.doing.value,
        x=x,
        width=round(max(end - x, 0.15), 3),
        y=y + BAR - height,
        height=height,
        title=f"{roughly}{WORDS[part.doing]} for {span(part.lasted.total_seconds())}, {times}",
    )


def _x(at: datetime, since: datetime, now: datetime) -> float:
    return round(min(max(NOW_AT * ((at - since) / (now - since)), 0.0), NOW_AT), 3)


def _ticks(since: datetime, now: datetime) -> Iterator[Tick]:
    """Round hours, or days where it is long: at most seven, so that they fit on a phone."""
    length = now - since
    steps = (timedelta(hours=1), timedelta(hours=2), timedelta(hours=6), timedelta(days=1), timedelta(days=2))
    each = next((step for step in steps if length / step <= 7), steps[-1])
    midnight = since.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + ((since - midnight) // each + 1) * each
    while at < now:
        x = _x(at, since, now)
        days = each >= timedelta(days=1) or (at.hour == 0 and at.minute == 0)
        yield Tick(x=x, label=f"{at:%d %b}" if days else f"{at:%H:%M}", anchor=_anchor(x))
        at += each


def _anchor(x: float) -> str:
    return "start" if x < 6 else "middle"


def legend() -> Sequence[Key]:
    """Return what each look means, in the order of a life."""
    heights = {doing: round(BAR * FILLS.get(doing, 1.0), 1) for doing in WORDS}
    return [Key(doing.value, words, BAR - heights[doing], heights[doing]) for doing, words in WORDS.items()]


LASTS = timedelta(hours=3)
EACH = timedelta(minutes=5)
WIDTH, HEIGHT, EDGE = 108, 24, 2
SLOTS = LASTS // EACH


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """*lines* are the paths of an SVG of WIDTH x HEIGHT; *described* says the same in words."""

    lines: tuple[str, ...]
    described: str
    width: int = WIDTH
    height: int = HEIGHT


def sparklines(found: Iterable[tuple[str, datetime, float | None]], now: datetime) -> dict[str, Sparkline]:
    """Return a line per pool that was measured in the last LASTS before *now*; *found* are pool, time and ratio."""
    slot_of: dict[datetime, int] = {}
    slots: dict[str, list[list[float]]] = {}
    blind: set[tuple[str, int]] = set()
    for pool, at, ratio in found:
        slot = slot_of.get(at)
        if slot is None:
            slot = slot_of[at] = SLOTS - 1 - (now - at) // EACH
        if not 0 <= slot < SLOTS:
            continue
        if ratio is None:
            blind.add((pool, slot))
        else:
            slots.setdefault(pool, [[] for _ in range(SLOTS)])[slot].append(ratio)
    return {
        pool: sparkline(_bridged([sum(s) / len(s) if s else None for s in of_pool], {n for p, n in blind if p == pool}))
        for pool, of_pool in slots.items()
    }


def _bridged(values: list[float | None], blind: Collection[int]) -> list[float | None]:
    """*values* without holes of one slot in which no step fell: ticks may be as long as a slot. One in which a step
    ran and could not tell (*blind*) stays."""
    for n in range(1, len(values) - 1):
        before, after = values[n - 1], values[n + 1]
        if values[n] is None and n not in blind and before is not None and after is not None:
            values[n] = (before + after) / 2
    return values


def sparkline(values: Sequence[float | None]) -> Sparkline:
    """Return the line through *values* (ratios, the newest last); None is where it breaks."""
    each = WIDTH / max(1, len(values) - 1)
    lines: list[list[str]] = [[]]
    for n, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            y = HEIGHT - EDGE - min(max(value, 0.0), 1.0) * (HEIGHT - 2 * EDGE)
            lines[-1].append(f"{n * each:.1f} {y:.1f}")
    # A moment alone is a dot: a line of no length with round ends.
    paths = tuple(f"M{' L'.join(points if len(points) > 1 else points * 2)}" for points in lines if points)
    return Sparkline(lines=paths, described=_described(values))


def _described(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    hours = span(LASTS.total_seconds())
    if not known:
        return f"Utilization of the last {hours}: unknown."
    missing = span((len(values) - len(known)) * EACH.total_seconds())
    last = "unknown" if values[-1] is None else percent(values[-1])
    gaps = f"; unknown for {missing}" if len(known) < len(values) else ""
    return f"Utilization of the last {hours}: {percent(min(known))} to {percent(max(known))}, last {last}{gaps}."
