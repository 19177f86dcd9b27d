"""Warnings about what a look found: a look repeats every few seconds, a warning is logged once an hour."""

from datetime import datetime, timedelta

import structlog

from receiver.ports import Clock

AGAIN = timedelta(hours=1)

log = structlog.get_logger("receiver")


class Remarks:
    """Remembers what was said lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], datetime] = {}

    def warn(self, event: str, detail: str) -> None:
        """Log *detail* under *event* unless the same was logged within the hour."""
        now = self._clock.now()
        self._said = {key: at for key, at in self._said.items() if now - at < AGAIN}
        if (event, detail) not in self._said:
            self._said[event, detail] = now
            log.warning(event, detail=detail)
