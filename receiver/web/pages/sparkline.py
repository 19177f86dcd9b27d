"""The utilization of a pool over the last hours as a small line. What nobody measured is a gap, never 0."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.text import span
from receiver.web.pages.show import percent

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
    looked and nobody could tell (*blind*) stays."""
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
