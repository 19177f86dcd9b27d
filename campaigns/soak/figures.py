"""What a soak measures of the receiver's processes, and which course of a figure counts as growth without bound."""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from campaigns.soak.past import NAMES
from receiver.adapters.store.sql_store import LIVES_KEPT

WARM_UP = 0.2  # of the samples: caches fill, libraries are imported, the first nodes come
FEWEST, SHORTEST = 10, 0.5  # samples after the warm-up, and hours of the machine, without which nothing is judged
CERTAIN = 3.0  # standard errors by which a slope differs from 0
HALF_MORE = 1.5
DAYS_AHEAD = 30.0  # simulated
LONG, SHORT = 400.0, 90.0  # simulated days for which the store keeps rows at most, and most of its bytes
MOST = 2000.0  # MB that each of the two kinds may come to in that time
KEPT_LONG = frozenset(table.name for table, (_, kept) in NAMES.items() if kept == LIVES_KEPT)
PAGES = (  # bytes by table, its indexes included
    "SELECT m.tbl_name, sum(d.pgsize) FROM dbstat AS d JOIN sqlite_master AS m ON m.name = d.name"
    " WHERE d.aggregate = 1 GROUP BY m.tbl_name"
)
TICKS = os.sysconf("SC_CLK_TCK")


class Kind(StrEnum):
    """How a figure may move: about a level, or by adding up at a steady pace."""

    LEVEL = "level"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value. *factor* is how many times its level (of a sum: its pace) after the warm-up it may reach.
    *kept* is for how many days the store keeps what it adds up to (0: not in the store)."""

    unit: str
    kind: Kind = Kind.LEVEL
    factor: float = HALF_MORE
    slack: float = 0.0  # that a level may rise in any case
    kept: float = 0.0


FIGURES: Mapping[str, Figure] = {
    "memory": Figure("MB"),
    "handles": Figure("files", slack=8),
    "threads": Figure("threads", slack=8),
    "step": Figure("ms", factor=3.0, slack=100),  # wall time: it depends on what else the machine does
    "step CPU": Figure("ms", slack=20),
    "overview": Figure("ms", factor=3.0, slack=100),
    "database": Figure("MB", Kind.SUM, factor=2.0),
    "of it, 400 days": Figure("MB", Kind.SUM, factor=3.0, kept=LONG),
    "of it, 90 days": Figure("MB", Kind.SUM, factor=3.0, kept=SHORT),
    "log": Figure("MB", Kind.SUM, factor=2.0),
}
ROWS = Figure("rows", Kind.SUM, factor=3.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """All figures at one moment: hours of the machine and simulated days since the beginning."""

    hours: float
    days: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Course:
    """A figure over the whole soak. *per_day* is its slope over the second half, per simulated day, *error* that
    slope's standard error; *grows* says why it counts as growth without bound, and is empty when it does not."""

    name: str
    figure: Figure
    first: float
    last: float
    per_hour: float
    per_day: float
    error: float
    grows: str = ""


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the least-squares slope of *points* and its standard error; 0 and 0 for fewer than three."""
    n = len(points)
    x0, y0 = sum(x for x, _ in points) / max(n, 1), sum(y for _, y in points) / max(n, 1)
    spread = sum((x - x0) ** 2 for x, _ in points)
    if n < 3 or not spread:
        return 0.0, 0.0
    found = sum((x - x0) * (y - y0) for x, y in points) / spread
    left = sum((y - y0 - found * (x - x0)) ** 2 for x, y in points)
    return found, (left / (n - 2) / spread) ** 0.5


def courses(samples: Sequence[Sample]) -> Iterator[Course]:
    """Yield the course of every figure that *samples* have, judged if they are enough."""
    names = dict.fromkeys(name for sample in samples for name in sample.values)
    for name in names:
        yield _course(name, FIGURES.get(name, ROWS), [s for s in samples if name in s.values])


def is_judged(samples: Sequence[Sample]) -> bool:
    """True when *samples* are enough and cover long enough to judge their courses."""
    return len(samples) * (1 - WARM_UP) >= FEWEST and samples[-1].hours - samples[0].hours >= SHORTEST


def _course(name: str, figure: Figure, samples: Sequence[Sample]) -> Course:
    values = [s.values[name] for s in samples]
    tenth = max(1, len(values) // 10)
    warm = samples[int(len(samples) * WARM_UP) :]
    half = samples[len(samples) // 2 :]
    per_day, error = slope([(s.days, s.values[name]) for s in half])
    per_hour, _ = slope([(s.hours, s.values[name]) for s in half])
    first, last = sum(values[:tenth]) / tenth, sum(values[-tenth:]) / tenth
    grows = ""
    if is_judged(samples):
        judge = _level_grows if figure.kind is Kind.LEVEL else _sum_grows
        grows = judge(name, figure, warm, max(0.0, per_day - CERTAIN * error))
    return Course(name, figure, first, last, per_hour, per_day, error, grows)


def _level_grows(name: str, figure: Figure, warm: Sequence[Sample], surely: float) -> str:
    """A level that has risen beyond its bound, or does so within DAYS_AHEAD if it goes on as *surely* as it did."""
    tenth = max(1, len(warm) // 10)
    began = sum(s.values[name] for s in warm[:tenth]) / tenth
    ended = sum(s.values[name] for s in warm[-tenth:]) / tenth
    bound = began * figure.factor + figure.slack
    if ended > bound:
        return f"above {bound:,.1f}"
    reached = ended + surely * DAYS_AHEAD
    return f"{reached:,.1f} in {DAYS_AHEAD:g} days, above {bound:,.1f}" if reached > bound else ""


def _sum_grows(name: str, figure: Figure, warm: Sequence[Sample], surely: float) -> str:
    """A sum whose pace increases, or a store that becomes too large before its oldest rows are deleted."""
    middle = len(warm) // 2
    before, _ = slope([(s.days, s.values[name]) for s in warm[: middle + 1]])
    most = max(before, warm[middle].values[name] / max(warm[middle].days, 1e-9)) * figure.factor
    if surely > most > 0:
        return f"{surely:,.2f} a day, after {before:,.2f}"
    reached = warm[-1].values[name] + surely * figure.kept
    return f"{reached:,.0f} MB in {figure.kept:g} days" if figure.kept and reached > MOST else ""


# --- reading


def of_process(worker: int, master: int) -> dict[str, float]:
    """Return memory (both), handles and threads (the worker's). Raises OSError when it has gone."""
    status = Path(f"/proc/{worker}/status").read_text(encoding="ascii")
    return {
        "memory": (_resident(worker) + _resident(master)) / 1e6,
        "handles": float(len(list(Path(f"/proc/{worker}/fd").iterdir()))),
        "threads": float(_number(r"Threads:\s+(\d+)", status)),
    }


def cpu_seconds(pid: int) -> float:
    """Return the processor time that *pid* has used. Raises OSError when it has gone."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def of_store(store: Path) -> dict[str, float]:
    """Return the size of an SQLite file with its write-ahead log, how much of it is kept how long, and the rows of each
    table. Raises sqlite3.Error."""
    files = [store, store.with_name(f"{store.name}-wal")]
    found = {"database": sum(f.stat().st_size for f in files if f.exists()) / 1e6}
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        sizes = connection.execute(PAGES).fetchall()
        found["of it, 400 days"] = sum(size for table, size in sizes if table in KEPT_LONG) / 1e6
        found["of it, 90 days"] = sum(size for table, size in sizes if table not in KEPT_LONG) / 1e6
        for (table,) in tables:
            ((rows,),) = connection.execute(f'SELECT count(*) FROM "{table}"').fetchall()
            if rows:
                found[f"rows of {table}"] = float(rows)
    return found


def of_metrics(text: str) -> tuple[float, float]:
    """Return how many steps there were, and the seconds that they took, from what /metrics says."""
    found = dict(re.findall(r"^gpu_autoscaler_loop_step_seconds_(count|sum) (\S+)$", text, re.MULTILINE))
    return float(found["count"]), float(found["sum"])


def _resident(pid: int) -> float:
    return 1024.0 * _number(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


# --- telling


def table(found: Sequence[Course]) -> Iterator[str]:
    """Yield the lines of the table of *found*."""
    yield f"{'figure':<26} {'first':>10} {'last':>10} {'slope/hour':>11} {'slope/day':>11} {'+-':>8}  verdict"
    for course in found:
        name = f"{course.name}, {course.figure.unit}" if course.name in FIGURES else course.name
        numbers = f"{course.first:10,.1f} {course.last:10,.1f} {course.per_hour:11,.2f} {course.per_day:11,.2f}"
        yield f"{name:<26} {numbers} {course.error:8,.2f}  {f'GROWS: {course.grows}' if course.grows else 'bounded'}"
