"""Warnings about what a look found: a look repeats every few seconds, a warning is logged once an hour."""

from datetime import datetime, timedelta

import structlog

from receiver.ports import Clock

AGAIN = timedelta(hours=1)
MOST = 200  # of one event within that time: whoever writes pods may say something else at each look

log = structlog.get_logger("receiver")


class Remarks:
    """Remembers what was said lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], datetime] = {}

    def warn(self, event: str, detail: str) -> None:
        """Log *detail* under *event* unless the same was logged within the hour, or too much else under that event."""
        now = self._clock.now()
        at = self._said.get((event, detail))
        if at is not None and now - at < AGAIN:
            return
        self._said = {key: at for key, at in self._said.items() if now - at < AGAIN}
        if sum(said == event for said, _ in self._said) < MOST:
            self._said[event, detail] = now
            log.warning(event, detail=detail)
