"""What the GPUs of a pod did: the changes of the last day, from which any window is worked out exactly."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.activity import Course

KEEP = timedelta(hours=24)
IDLE_WATTS, FULL_WATTS = 36.0, 330.0
Span = tuple[datetime, datetime]


def watts(engine: float) -> float:
    """The power that a GPU draws whose engine works that share of the time."""
    return IDLE_WATTS + (FULL_WATTS - IDLE_WATTS) * engine


@dataclass(frozen=True, slots=True)
class Reading:
    """What a GPU does from *at* on: *engine* and *memory* are ratios, *memory* goes on changing by *slope* a second."""

    at: datetime
    engine: float = 0.0
    memory: float = 0.0
    slope: float = 0.0

    def memory_at(self, when: datetime) -> float:
        """Used memory (ratio) at *when*."""
        grown = self.slope * (when - self.at).total_seconds() if self.slope else 0.0
        return max(0.0, min(1.0, self.memory + grown))


class Gaps:
    """When nobody saw the GPUs of the whole world."""

    def __init__(self) -> None:
        self._over: deque[Span] = deque()
        self._since: datetime | None = None

    def gone(self, now: datetime, gone: bool) -> None:
        """From *now* on nothing is seen, or everything again."""
        if gone and self._since is None:
            self._since = now
        elif not gone and self._since is not None:
            self._over.append((self._since, now))
            self._since = None
        while self._over and self._over[0][1] < now - KEEP:
            self._over.popleft()

    def between(self, start: datetime, end: datetime) -> Iterator[Span]:
        """Yield the parts of *start* to *end* that were seen."""
        spans: Iterable[Span] = self._over if self._since is None else (*self._over, (self._since, end))
        for begin, over in spans:
            if over < start or begin > end:
                continue
            if begin > start:
                yield start, begin
            start = over
            if start >= end:
                return
        yield start, end


class History:
    """The readings of one pod's GPUs; None where they were not to be seen. All of a pod's GPUs do the same."""

    def __init__(self) -> None:
        self._readings: deque[tuple[datetime, Reading | None]] = deque()

    def note(self, now: datetime, reading: Reading | None) -> None:
        """From *now* on the GPUs do this."""
        if self._readings and self._readings[-1][0] == now:
            self._readings.pop()
        self._readings.append((now, reading))
        while len(self._readings) > 1 and self._readings[1][0] <= now - KEEP:
            self._readings.popleft()

    def course(self, now: datetime, window: timedelta, gaps: Gaps) -> Course:
        """Return peaks and coverage of the *window* (up to a day) that ends *now*."""
        engine: list[float] = []
        memory: list[float] = []
        seen = timedelta(0)
        for reading, start, end in self._parts(now - window, now):
            for begin, over in gaps.between(start, end):
                seen += over - begin
                engine.append(reading.engine)
                memory += (reading.memory_at(begin), reading.memory_at(over))
        coverage = seen / window
        if not engine:
            return Course(window=window, coverage=coverage)
        return Course(
            window=window,
            engine=max(engine),
            memory=max(memory) - min(memory),
            power=watts(max(engine)),
            power_floor=watts(min(engine)),
            coverage=coverage,
        )

    def _parts(self, start: datetime, now: datetime) -> Iterator[tuple[Reading, datetime, datetime]]:
        """Yield each reading with the part of the time since *start* in which it held."""
        later = now
        for at, reading in reversed(self._readings):
            if reading is not None:
                yield reading, max(at, start), later
            if at <= start:
                return
            later = at
