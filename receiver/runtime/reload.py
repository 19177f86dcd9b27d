"""What is built of the configuration in force, anew whenever it changes, and the thread that looks for changes."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from receiver.runtime.background import Background

LOOK_EVERY_SECONDS = 0.5
S = TypeVar("S")
T = TypeVar("T")

log = structlog.get_logger("receiver")


class Latest(Generic[S, T]):
    """What *make* returns for the settings in force. While one thread builds, others get what was built before."""

    def __init__(self, settings: Callable[[], S], make: Callable[[S], T]) -> None:
        self._settings, self._make = settings, make
        self._lock = threading.Lock()
        self._made_of = settings()
        self._made = make(self._made_of)

    def __call__(self) -> T:
        if self._settings() is not self._made_of and self._lock.acquire(blocking=False):
            try:
                settings = self._settings()
                try:
                    self._made = self._make(settings)
                except Exception:  # a bug: what was built before goes on
                    log.exception("configuration not applied")
                self._made_of = settings
            finally:
                self._lock.release()
        return self._made


class Reloader(Background):
    """Call *look* twice a second, on every replica; the leader takes its next step with what it found."""

    def __init__(self, look: Callable[[], None], every: float = LOOK_EVERY_SECONDS) -> None:
        super().__init__("reloader")
        self.look, self._every = look, every

    def run(self) -> None:
        """The thread's body."""
        while not self._stopping.wait(self._every):
            try:
                self.look()
            except Exception:  # a bug in reading a file must not end the looks
                log.exception("configuration not read")
