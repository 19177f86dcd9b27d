"""The pictures of a replay: where everything stands in them. Across in percent of the width, down in pixels.

Shapes that go on over time are paths in a box of their own that is stretched; text stands beside it and keeps its size.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.text import brief

PANEL = 110  # pixels down, of the picture over time
PLOT = 260  # of the one of cost against wait
BARS = 120  # of the waits by hour
LINE = 15  # pixels down, of one name below another
EDGE = 8.0  # percent that a dot of the plot keeps from its borders


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A word at a place: percent across, or pixels down."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One policy over time: paths in a box of *width* x PANEL, and what a person who cannot see it is told."""

    name: str
    held: str
    waiting: str
    paid: str
    width: int
    top: str
    described: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One policy in the plot: *x* in percent, *y* in pixels; its name stands at *name_y*, left of it where *left*."""

    name: str
    kind: str
    x: float
    y: float
    name_y: float
    left: bool
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Cost against wait, both by powers; *outside* are sentences on policies that would squeeze all others."""

    dots: tuple[Dot, ...]
    outside: tuple[str, ...]
    across: tuple[Tick, ...]
    down: tuple[Tick, ...]
    described: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HourBar:
    """One hour of the day: the bar of the first policy, the mark of the one compared with (None: there is none)."""

    x: float
    width: float
    height: float
    mark: float | None
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Waits by hour of day."""

    bars: tuple[HourBar, ...]
    ticks: tuple[Tick, ...]
    top: str
    described: str


def panel(name: str, found: Mapping[str, Sequence[float]], most: float) -> Panel:
    """Return the picture of one policy over time, drawn so that *most* GPUs are its height."""
    held, waiting, paid = found["held"], found["waiting"], found["paid"]
    wanted = [one + other for one, other in zip(held, waiting, strict=True)]
    return Panel(
        name=name,
        held=_area(held, [0.0] * len(held), most),
        waiting=_area(wanted, held, most),
        paid=_steps(paid, most),
        width=len(held),
        top=f"{most:.0f} GPUs",
        described=(
            f"{name}: GPUs paid {_mean(paid):.0f} on average and {max(paid):.0f} at most, held {_mean(held):.0f} and"
            f" {max(held):.0f}, waited for {_mean(waiting):.1f} and {max(waiting):.0f}."
        ),
    )


def highest(found: Sequence[Mapping[str, Sequence[float]]]) -> float:
    """Return how many GPUs the panels are high, the same for all of them."""
    tops = [max((*each["paid"], *map(sum, zip(each["held"], each["waiting"], strict=True)))) for each in found]
    return max(1.0, *tops)


def days(begins: str, until: str) -> tuple[Tick, ...]:
    """Return at most six dates between two moments, at their midnights; hours within a day."""
    start, end = datetime.fromisoformat(begins), datetime.fromisoformat(until)
    whole = end - start
    step = next(s for s in _STEPS if whole / s <= 6 or s is _STEPS[-1])
    origin = start.replace(hour=0, minute=0, second=0, microsecond=0)
    return tuple(_dates(start, end, origin, step))


_STEPS = (
    *(timedelta(minutes=m) for m in (10, 30)),
    *(timedelta(hours=h) for h in (1, 3, 6, 12)),
    *(timedelta(days=d) for d in (1, 2, 3, 5, 7, 10, 14, 30, 60, 90, 365)),
)


def _dates(start: datetime, end: datetime, at: datetime, step: timedelta) -> Iterator[Tick]:
    while at <= end:
        place = 100 * ((at - start) / (end - start))
        if 0 <= place <= 96:  # a word beyond would stick out
            midnight = not (at.hour or at.minute) and end - start > timedelta(days=1)
            yield Tick(at=round(place, 2), label=f"{at:%b} {at.day}" if midnight else f"{at:%H:%M}")
        at += step


def plot(policies: Sequence[Mapping[str, Any]], *, by_the_hour: bool) -> Plot | None:
    """Return cost against wait of *policies*; None when the first of them paid for nothing."""
    key = "gpu_hours_started" if by_the_hour else "gpu_hours_second"
    found = [_Point(p["name"], p["kind"], float(p[key]), float(p["wait_mean_s"]) + 1) for p in policies if p[key] > 0]
    if not found or found[0].name != policies[0]["name"]:
        return None
    near = [point for point in found if point.is_near(found[0])]
    across, down = _Scale([point.cost for point in near]), _Scale([point.wait for point in near])
    ys = [round(PLOT * (1 - down.place(point.wait) / 100), 1) for point in near]
    return Plot(
        dots=tuple(
            Dot(
                name=point.name,
                kind=point.kind,
                x=round(across.place(point.cost), 2),
                y=y,
                name_y=name_y,
                left=across.place(point.cost) > 60,
                title=str(point),
            )
            for point, y, name_y in zip(near, ys, _apart(ys), strict=True)
        ),
        outside=tuple(str(point) for point in found if point not in near),
        across=tuple(Tick(at=round(across.place(v), 2), label=f"{v:,.0f}") for v in across.marks(ROUND)),
        down=tuple(
            Tick(at=round(PLOT * (1 - down.place(v) / 100), 1), label=brief(v)) for v in down.marks(ROUND_TIMES)
        ),
        described="; ".join(map(str, near)) + ".",
    )


@dataclass(frozen=True, slots=True)
class _Point:
    """GPU-hours paid, and the mean wait in seconds with one added."""

    name: str
    kind: str
    cost: float
    wait: float

    def is_near(self, other: "_Point") -> bool:
        """True when a picture of both shows more than that they are far apart."""
        return 1 / 2 <= self.cost / other.cost <= 2 and 1 / 10 <= self.wait / other.wait <= 10

    def __str__(self) -> str:
        return f"{self.name} {self.cost:,.0f} GPU-hours, mean wait {brief(self.wait - 1)}"


def _apart(ys: Sequence[float]) -> list[float]:
    """Return where names stand that belong to dots at *ys*: as near as lines of text allow."""
    found = list(ys)
    last = -math.inf
    for n in sorted(range(len(ys)), key=lambda n: ys[n]):
        last = found[n] = max(ys[n], last + LINE)
    return found


class _Scale:
    """Places in percent on an axis by powers, on which all *values* (above 0) have room."""

    def __init__(self, values: Sequence[float]) -> None:
        low, high = math.log(min(values)), math.log(max(values))
        spread = max(high - low, math.log(1.2))  # what hardly differs must not look far apart
        middle = (low + high) / 2
        room = spread / (1 - 2 * EDGE / 100)
        self._low, self._room = middle - room / 2, room

    def place(self, value: float) -> float:
        """Return where *value* is, 0-100."""
        return 100 * (math.log(value) - self._low) / self._room

    def marks(self, steps: Sequence[float]) -> list[float]:
        """Return round values on the axis: 1, 2 and 5 of every power on a long one, on a short one at most six of the
        multiples of the smallest of *steps* that allows that."""
        low, high = (math.exp(self._low + self._room * part) for part in (0.03, 0.97))
        if high > 5 * low:
            return [v for power in range(-1, 12) for m in (1, 2, 5) if low <= (v := m * 10.0**power) <= high]
        step = next((s for s in steps if (high - low) / s <= 5), steps[-1])
        return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


ROUND = tuple(m * 10.0**power for power in range(-2, 12) for m in (1, 2, 5))
ROUND_TIMES = (1.0, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 864000)


def hours(first: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]] | None, name: str) -> Hours:
    """Return the mean waits by hour of day of the *first* policy, beside those of the *other* one, called *name*."""
    pairs = [(one, other[n] if other else None) for n, one in enumerate(first)]
    most = max(1.0, *(float(h["wait_mean_s"]) for h in (*first, *(other or ()))))
    each = 100 / len(first)
    return Hours(
        bars=tuple(
            HourBar(
                x=round(n * each + each * 0.1, 3),
                width=round(each * 0.8, 3),
                height=round(BARS * one["wait_mean_s"] / most, 1),
                mark=None if two is None or not two["jobs"] else round(BARS * (1 - two["wait_mean_s"] / most), 1),
                title=_hour_words(one, two, name),
            )
            for n, (one, two) in enumerate(pairs)
        ),
        ticks=tuple(Tick(at=round((n + 0.5) * each, 2), label=str(n)) for n in range(0, len(first), 6)),
        top=brief(most),
        described=f"The longest mean wait is {brief(most)}; the table below has every hour.",
    )


def _hour_words(one: Mapping[str, Any], two: Mapping[str, Any] | None, name: str) -> str:
    beside = "" if two is None else f"; {name} {brief(two['wait_mean_s'])}"
    return f"{one['hour']:02}:00 UTC, {one['jobs']} jobs: {brief(one['wait_mean_s'])}{beside}"


def _area(upper: Sequence[float], lower: Sequence[float], most: float) -> str:
    """A closed path of steps between two lines."""
    there = _points(upper, most)
    back = list(reversed(_points(lower, most)))
    return f"M{' L'.join([*there, *back])} Z"


def _steps(values: Sequence[float], most: float) -> str:
    return f"M{' L'.join(_points(values, most))}"


def _points(values: Sequence[float], most: float) -> list[str]:
    """Two points a slot; none where the line goes on at the same height."""
    heights = [round(PANEL * (1 - min(value / most, 1.0)), 1) for value in values]
    found = []
    for n, height in enumerate(heights):
        if n == 0 or heights[n - 1] != height:
            found.append(f"{n} {height:g}")
        if n + 1 == len(heights) or heights[n + 1] != height:
            found.append(f"{n + 1} {height:g}")
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
