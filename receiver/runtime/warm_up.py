"""The first minute on a cluster: everything is looked at, decided and told, and nothing is changed.

A store that has just begun knows no idle times, no cooldowns, no work that came and went, and the configuration beside
it may name the wrong cluster. One that was lost is new again.
"""

from datetime import datetime, timedelta

import structlog

from receiver.ports import ReadStore

log = structlog.get_logger("receiver")


class WarmUp:
    """Whether the store is younger than *period*: its age counts from the first count of a pool that Civo told it.

    Every replica that reads the same store says the same.
    """

    def __init__(self, store: ReadStore, period: timedelta) -> None:
        self._store, self._period = store, period
        self._over = period <= timedelta(0)
        self._told = False

    def ends_at(self, now: datetime) -> datetime | None:
        """Return when it will be over, at the latest as far as is known *now*; None when it is. Raises TryLater.

        A beginning that lies ahead was noted under a wrong clock: nobody waits for that.
        """
        if self._over:
            return None
        began = min(self._store.watched().values(), default=now)
        if not began <= now < began + self._period:
            self._over = True
            log.info("warmed up", detail="from now on what is decided is done")
            return None
        if not self._told:
            self._told = True
            until = (began + self._period).isoformat()
            log.info("warming up", until=until, detail="a new store: what would be done is told, nothing is changed")
        return began + self._period
