"""Utilization of a pool: GPUs and their activity, integrated over time."""

from collections import deque
from datetime import datetime, timedelta

KEEP = timedelta(minutes=15)


class Meter:
    """A pool's GPUs and their summed activity, integrated over time."""

    def __init__(self, now: datetime) -> None:
        self.gpus = 0
        self.busy = 0.0
        self._at = now
        self._gpu_time = self._busy_time = 0.0
        self._history: deque[tuple[datetime, float, float]] = deque([(now, 0.0, 0.0)])

    def change(self, now: datetime, gpus: int, busy: float) -> None:
        """Add *gpus* GPUs and *busy* activity from *now* on."""
        self._run_to(now)
        self.gpus += gpus
        self.busy += busy
        self._history.append((now, self._gpu_time, self._busy_time))
        while len(self._history) > 2 and self._history[1][0] <= now - KEEP:
            self._history.popleft()

    def average(self, now: datetime, window: timedelta) -> float | None:
        """Activity per GPU over the last *window* (up to 15 minutes), None without GPUs in it."""
        self._run_to(now)
        gpus_then, busy_then = self._at_time(now - window)
        gpu_time = self._gpu_time - gpus_then
        return max(0.0, min(1.0, (self._busy_time - busy_then) / gpu_time)) if gpu_time > 0 else None

    def _run_to(self, now: datetime) -> None:
        seconds = (now - self._at).total_seconds()
        self._gpu_time += self.gpus * seconds
        self._busy_time += self.busy * seconds
        self._at = now

    def _at_time(self, when: datetime) -> tuple[float, float]:
        """Return both integrals at *when*: they are straight lines between two changes."""
        later = (self._at, self._gpu_time, self._busy_time)
        for earlier in reversed(self._history):
            if earlier[0] <= when:
                span = (later[0] - earlier[0]).total_seconds()
                part = (when - earlier[0]).total_seconds() / span if span else 0.0
                return earlier[1] + (later[1] - earlier[1]) * part, earlier[2] + (later[2] - earlier[2]) * part
            later = earlier
        return later[1], later[2]
