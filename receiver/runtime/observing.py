"""In observe mode, the thread that has the time since the installation replayed now and then, in a process of its own.

That process is niced, has no secrets and no other ways out than Prometheus, and ends at its limits of processor time
and memory: what it does can delay no step and no webhook.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from pydantic import TypeAdapter

from receiver.config import FileSettings
from receiver.config.model import Mode
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy
from receiver.core.report.would_have import WouldHave
from receiver.ports import Clock, ReadStore, TryLater
from receiver.reports.observed import ObservedDocument
from receiver.reports.picture import kept_picture
from receiver.runtime.background import Background

LOOK_SECONDS = 15.0
OFTENEST, SELDOMEST = timedelta(minutes=10), timedelta(hours=6)
LONGEST = timedelta(days=30)
WITHIN_SECONDS = 3600.0  # of a replay, most of which it waits for a processor
STOPPED = "the server stops"  # no result of the replay: it is made again after the next start
SECRETS = ("CIVO_", "GPU_AUTOSCALER_")  # variables that a replay does not get

log = structlog.get_logger("receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAsked:
    """A replay of the time from *since* to *until* under *policy*. *prometheus* (its URL) has the pods of then, *lives*
    are those of all nodes. *tick* and *watch* are as configured."""

    policy: Policy
    prometheus: str
    tick: timedelta
    watch: bool
    since: datetime
    until: datetime
    lives: tuple[NodeLife, ...]


ASKED: TypeAdapter[ReplayAsked] = TypeAdapter(ReplayAsked)
FOUND: TypeAdapter[WouldHave] = TypeAdapter(WouldHave)


class NotReplayed(Exception):
    """A time that was not replayed; the text says why, in a sentence."""


class Replaying(Protocol):
    """What replays a time."""

    def __call__(self, asked: ReplayAsked) -> WouldHave:
        """Return the result. Raises NotReplayed, and TryLater where it was ended."""

    def end(self) -> None:
        """End a replay under way, and begin no other."""


class ReplayProcess:
    """Replays in a process of its own, which runs *module*."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def __call__(self, asked: ReplayAsked) -> WouldHave:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(SECRETS)}
        command = [sys.executable, "-m", self._module]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:  # noqa: S603 (our own module)
            self._process = process
            try:
                if self._ended:  # before it could be seen here
                    raise TryLater(STOPPED)
                output, errors = process.communicate(ASKED.dump_json(asked), timeout=WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                raise NotReplayed("the replay took more than an hour") from None
            finally:
                self._process = None
                process.kill()
        if self._ended or process.returncode in (-signal.SIGINT, -signal.SIGTERM):  # of the group, or of the pod
            raise TryLater(STOPPED)
        if process.returncode < 0:
            raise NotReplayed("it is more work than the server may replay: replay it on another machine")
        if process.returncode:
            lines = errors.decode(errors="replace").strip().splitlines() or [f"exit status {process.returncode}"]
            raise NotReplayed(lines[-1])
        return FOUND.validate_json(output)

    def end(self) -> None:
        """End a replay under way, and begin no other."""
        self._ended = True
        if (process := self._process) is not None:
            process.kill()


class Observer(Background):
    """Has what was observed replayed: after ten minutes, then whenever a twelfth of the time has passed again, at least
    every six hours, and when the configuration has changed. *found* is the last result."""

    def __init__(
        self,
        replay: Replaying,
        store: ReadStore,
        settings: Callable[[], FileSettings],
        leads: Callable[[], bool],
        clock: Clock,
        every: float = LOOK_SECONDS,
    ) -> None:
        super().__init__("observer")
        self.found: ObservedDocument | None = None
        self._replay, self._store, self._settings = replay, store, settings
        self._leads, self._clock, self._every = leads, clock, every
        self._under: FileSettings | None = None  # the settings of the last replay

    def stop(self, timeout: float = 5.0) -> None:
        """End, with a replay under way, at most *timeout* seconds later."""
        self._stopping.set()
        self._replay.end()
        super().stop(timeout)

    def run(self) -> None:
        """The thread's body."""
        while not self._stopping.wait(self._every):
            try:
                self.look()
            except TryLater as error:
                log.warning("what was observed is not replayed", error=str(error))
            except Exception:  # a bug here must not end the thread
                log.exception("what was observed is not replayed")

    def look(self) -> None:
        """Have the time so far replayed, if that is due. Raises TryLater."""
        settings, now = self._settings(), self._clock.now()
        if settings.pending or settings.configuration.mode is not Mode.OBSERVE or not self._leads():
            self.found = None  # the picture has what another replica finds meanwhile
            return
        if self.found is None:
            self.found = kept_picture(self._store)[0].observed
        watched = self._store.watched()
        if not watched:
            return
        since = max(min(watched.values()), now - LONGEST)
        if not self._is_due(since, now, settings):
            return
        self._under = settings
        configuration = settings.configuration
        try:
            if not configuration.prometheus.url:
                raise NotReplayed("prometheus.url is not set, and the pods of the past are read from Prometheus")
            request = ReplayAsked(
                policy=settings.policy,
                prometheus=configuration.prometheus.url,
                tick=configuration.tick,
                watch=configuration.kubernetes.enabled and configuration.kubernetes.watch,
                since=since,
                until=now,
                lives=tuple(life for life in self._store.node_lives(since) if life.created_at < now),
            )
            self.found = ObservedDocument.of_value(self._replay(request))
            log.info("replayed what was observed", since=since.isoformat(), conclusion=self.found.conclusion)
        except (NotReplayed, OSError, ValueError) as error:  # no process, or an answer that is none
            before = self.found or ObservedDocument(since=since, until=since)
            self.found = before.model_copy(update={"at": now, "problem": str(error)})
            log.warning("what was observed is not replayed", error=str(error))

    def _is_due(self, since: datetime, now: datetime, settings: FileSettings) -> bool:
        if now - since < OFTENEST:
            return False
        last = self.found.at if self.found is not None else None
        if last is None or last > now or (self._under is not None and settings is not self._under):
            return True
        return now - last >= min(max((now - since) / 12, OFTENEST), SELDOMEST)
