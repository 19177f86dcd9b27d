"""The clockwork of a world: a heap of things that will happen, taken in time order, and seeded chance."""

import heapq
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count


class Agenda:
    """Time and what is due in it. Things due at one moment happen in the order in which they were put down."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError("a world's time is timezone-aware")
        self.now = start
        self._heap: list[tuple[datetime, int, Callable[..., object], tuple[object, ...]]] = []
        self._numbers = count()

    def at(self, when: datetime, what: Callable[..., object], *args: object) -> None:
        """Do *what* at *when*, or now when that has passed."""
        heapq.heappush(self._heap, (max(when, self.now), next(self._numbers), what, args))

    def after(self, delay: timedelta, what: Callable[..., object], *args: object) -> None:
        """Do *what* after *delay*."""
        self.at(self.now + delay, what, *args)

    def next_at(self) -> datetime | None:
        """When the next thing is due. It may turn out to be void (a build whose instance was deleted)."""
        return self._heap[0][0] if self._heap else None

    def advance(self, to: datetime) -> None:
        """Do everything due up to and including *to*. Raises ValueError when *to* lies in the past."""
        if to < self.now:
            raise ValueError(f"time does not go back: {to} is before {self.now}")
        heap = self._heap
        while heap and heap[0][0] <= to:
            self.now, _, what, args = heapq.heappop(heap)
            what(*args)
        self.now = to


class Dice:
    """Seeded names and jitter: drawn apart, so that switching jitter on renames nothing."""

    def __init__(self, seed: int, jitter: float) -> None:
        self._names = random.Random(seed)
        self._times = random.Random(seed + 1)
        self._jitter = jitter

    def uuid(self) -> str:
        """Return a random-looking UUID."""
        text = f"{self._names.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def word(self, length: int) -> str:
        """Return *length* hexadecimal digits."""
        return f"{self._names.getrandbits(4 * length):0{length}x}"

    def spread(self, duration: timedelta) -> timedelta:
        """Return *duration* with jitter."""
        if not self._jitter:
            return duration
        return duration * (1 + self._jitter * self._times.uniform(-1, 1))
