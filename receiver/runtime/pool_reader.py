"""The thread that reads from Civo what the configuration leaves out of its pools.

What Civo said is kept in the store: a restart while Civo does not answer goes on with the same pools.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from receiver.config import FileSettings
from receiver.core.model.pool_facts import PoolFacts
from receiver.ports import TryLater, WontWork
from receiver.runtime.background import Background

EVERY_SECONDS = 600.0
WAITS = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds after each look that left something open; the last for all that follow

log = structlog.get_logger("receiver")


class FactsStore(Protocol):
    """Where the last answer is kept. Calls raise TryLater."""

    def pool_facts(self) -> PoolFacts | None: ...
    def keep_pool_facts(self, facts: PoolFacts) -> None: ...


class ConfiguredPools(Protocol):
    """The configuration in force (`receiver.config.live.LiveConfiguration`)."""

    @property
    def asks_civo(self) -> bool: ...  # while it is false nothing is asked
    @property
    def refused(self) -> bool: ...  # while it is true, Civo is asked more often
    @property
    def settings(self) -> FileSettings: ...


class PoolReader(Background):
    """*facts* are what is known, None before the first answer; *failure* says why Civo's last one is missing."""

    def __init__(
        self,
        ask: Callable[[], PoolFacts],
        store: FactsStore,
        live: ConfiguredPools,
        cluster: str = "",
        waits: tuple[float, ...] = WAITS,
    ) -> None:
        """*ask* raises TryLater and WontWork. The store may remember another *cluster*, which is forgotten."""
        super().__init__("pool-reader")
        self.facts: PoolFacts | None = None
        self.failure = ""
        self._ask, self._store, self._live, self._cluster, self._waits = ask, store, live, cluster, waits
        self._woken = threading.Event()
        self._kept: PoolFacts | None = None  # in the store
        self._recalled = False
        self._resized: Mapping[str, tuple[str, str]] = {}

    def soon(self) -> None:
        """Look at once; returns at once."""
        self._woken.set()

    def stop(self, timeout: float = 5.0) -> None:
        """End after the look under way, at most *timeout* seconds later."""
        self._stopping.set()  # before it wakes
        self._woken.set()
        super().stop(timeout)

    def run(self) -> None:
        """The thread's body."""
        tries = 0
        while not self._stopping.is_set():
            self._woken.clear()
            if self._live.asks_civo:
                try:
                    self.look()
                except Exception:  # a bug must not end the looks
                    log.exception("pools not read from Civo")
            tries = 0 if not self._live.refused and not self.failure else tries + 1
            self._woken.wait(self._waits[min(tries, len(self._waits)) - 1] if tries else EVERY_SECONDS)

    def recall(self) -> None:
        """Take what the store remembers, once."""
        if self._recalled:
            return
        try:
            stored = self._store.pool_facts()
        except TryLater as error:  # the store is not open yet
            self.failure = str(error)
        else:
            self._kept = self.facts = stored if stored is not None and stored.cluster == self._cluster else None
            self._recalled = True

    def look(self) -> None:
        """Ask Civo once, and keep what is new. Nothing is asked before the store has answered: a size that was read
        first could not be told from another one."""
        self.recall()
        if not self._recalled:
            return
        try:
            answer = self._ask()
        except (TryLater, WontWork) as error:
            if str(error) != self.failure:
                stays = "the pools stay as they were read last" if self.facts else "nothing is decided until it answers"
                log.warning("pools not read from Civo", error=str(error), detail=stays)
            self.failure = str(error)
            return
        self.failure = ""
        facts, configured = self.facts or PoolFacts(), self._live.settings.configured
        self._warn_of_sizes(facts.resized(answer, configured))
        self.facts = facts.then(answer, configured)
        if self.facts != self._kept:
            try:
                self._store.keep_pool_facts(self.facts)
                self._kept = self.facts
            except TryLater as error:
                log.warning("pools not stored", error=str(error))

    def _warn_of_sizes(self, resized: Mapping[str, tuple[str, str]]) -> None:
        if resized != self._resized:
            for pool, (before, now) in resized.items():
                detail = f"its nodes are of {now} at Civo; to accept that, write size: {now} into the configuration"
                log.warning("pool keeps its size", pool=pool, size=before, detail=detail)
        self._resized = resized
