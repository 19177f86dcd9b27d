"""The clock of the simulated world: the wall clock, or one that is set by hand."""

from datetime import datetime, timedelta
from typing import Protocol

from receiver.adapters.clock import SystemClock

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present moment, timezone-aware UTC."""


class ManualClock:
    """Stands still until it is turned. For tests and ``POST /_advance``."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError("a clock's time is timezone-aware")
        self._now = start

    def now(self) -> datetime:
        """Return the time it was last turned to."""
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Turn it forward and return the new time. Raises ValueError for a step back."""
        if by < timedelta(0):
            raise ValueError("time does not go back")
        self._now += by
        return self._now
