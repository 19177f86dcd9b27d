"""The geometry of the picture of a pool's nodes over time.

Across in percent of the width, down in pixels: so it needs no script and no style, and text keeps its size on a phone.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from receiver.core.explain.samples import Doing, NodeTurn, PoolSample
from receiver.core.model.memory import IN_A_ROW, NodeLife
from receiver.core.model.text import some, span

LANES = 40
SLOTS = 288  # of a lane: what a node did halfway through each of them is drawn
TOP, LANE, BAR = 22, 30, 12  # pixels: above the first lane, of each lane, of its bar
NOW_AT = 97.0  # percent: to the right of it the end of a node that has just gone is marked
TICKS = [timedelta(hours=1), timedelta(hours=2), timedelta(hours=6), timedelta(days=1)]
# What it is called, and how much of the bar it fills: higher the further it has come, as colour is not the only sign.
LOOKS = {
    Doing.BUILDING: ("building", 0.3),
    Doing.BOOTING: ("booting", 0.45),
    Doing.INSTALLING: ("driver", 0.6),
    Doing.BUSY: ("busy", 1.0),
    Doing.IDLE: ("idle", 1.0),
    Doing.UNKNOWN: ("unknown", 1.0),
    Doing.BROKEN: ("broken", 1.0),
    Doing.DELETING: ("going", 0.3),
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
    lives: Sequence[NodeLife], turns: Iterable[NodeTurn], samples: Iterable[PoolSample], since: datetime, now: datetime
) -> Lanes:
    """Return the picture of *lives* from *since* to *now*. Without samples it is not known what a node did."""
    shown = sorted(
        (life for life in lives if life.created_at < now and (life.gone_at or now) > since),
        key=lambda life: (life.gone_at is None, life.created_at),
        reverse=True,
    )
    by_node: dict[str, list[NodeTurn]] = {}
    for turn in turns:
        by_node.setdefault(turn.instance, []).append(turn)
    watched = [since] if any(turn.at < since for of_node in by_node.values() for turn in of_node) else []
    watched += [sample.at for sample in samples]
    found = []
    for n, life in enumerate(shown[:LANES]):
        begin, end = max(life.created_at, since), min(life.gone_at or now, now)
        slots = max(1, round(SLOTS * ((end - begin) / (now - since))))
        slot = (end - begin) / slots
        moments = [begin + (number + 0.5) * slot for number in range(slots)]
        doings = [_doing(life, by_node.get(life.instance, []), watched, at, now) for at in moments]
        pieces, first = [], begin
        for doing, grouped in groupby(doings):
            last = first + len(list(grouped)) * slot
            name, height = LOOKS[doing]
            title = f"{name} for {span((last - first).total_seconds())}, {first:%d %b %H:%M} to {last:%d %b %H:%M} UTC"
            x = _x(first, since, now)
            pieces.append(Piece(doing, x, round(_x(last, since, now) - x, 3), round(BAR * height, 1), title))
            first = last
        found.append(
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
    living = sum(life.gone_at is None for life in shown)
    return Lanes(
        lanes=tuple(found),
        ticks=tuple(_ticks(since, now)),
        height=TOP + len(found) * LANE + 4,
        described=f"{some(len(shown), 'node')} in the last {span((now - since).total_seconds())}, {living} of them "
        "living. The table below says the same.",
        more=max(0, len(shown) - LANES),
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


def _ticks(since: datetime, now: datetime) -> Iterator[tuple[float, str]]:
    """Round hours, or days where it is long: at most seven, so that they fit on a phone."""
    each = next((step for step in TICKS if (now - since) / step <= 7), TICKS[-1])
    midnight = since.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + ((since - midnight) // each + 1) * each
    while at < now:
        yield _x(at, since, now), f"{at:%d %b}" if at.hour == 0 else f"{at:%H:%M}"
        at += each
