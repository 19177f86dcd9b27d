"""The composition root: the only package that knows the classes behind the ports."""

import atexit
import os
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

import structlog
from flask import Flask
from gunicorn.errors import AppImportError

from receiver.adapters.clock import SystemClock
from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.leader import Lease, WriterLock
from receiver.adapters.store import SqlStore
from receiver.config import ConfigError, Settings, load
from receiver.ports import TryLater, WontWork
from receiver.runtime.loop import Courier, Loop
from receiver.runtime.store_opener import Opening
from receiver.server.bootstrap.loops import loop_of, outbox_of, watch_cluster, web_of
from receiver.server.bootstrap.outside import configure_logs, reach_out

EXTENSION = "gpu_autoscaler"
GRACE_SECONDS = 5.0  # for a message, a watch or opening the store to end after they were told to
LAST_MOMENT_SECONDS = 0.5  # the same if the loop has used up that time


@dataclass(slots=True)
class Running:
    """One process: what was opened, and the threads to stop."""

    settings: Settings
    store: SqlStore
    writer: WriterLock | Lease
    opening: Opening
    loop: Loop
    courier: Courier
    watched: KubernetesCluster | None
    told_at: float = 0.0  # when the threads were told to stop, in seconds of `monotonic`; 0 before

    def start(self) -> None:
        """Start the threads."""
        if isinstance(self.writer, Lease):
            self.writer.start(self.loop.wake)
        self.loop.start()
        self.courier.start()

    def tell(self) -> None:
        """Tell every thread to stop without waiting. The loop gives up leadership when its step is over."""
        self.told_at = self.told_at or monotonic()
        for part in self._beside():
            part.stop(0)
        self.loop.stop(0)

    def stop(self) -> None:
        """Stop the threads, then close the store. All are told before any is waited for: gunicorn kills the process
        `graceful_timeout` after SIGTERM, and a hanging message must not use up the time of the loop's last step."""
        self.tell()
        self.loop.stop()
        for part in self._beside():
            part.stop(max(LAST_MOMENT_SECONDS, self.told_at + GRACE_SECONDS - monotonic()))
        if isinstance(self.writer, Lease):
            self.writer.close()
        self.store.close()

    def _beside(self) -> tuple[Opening | KubernetesCluster | Courier, ...]:
        return tuple(part for part in (self.opening, self.watched, self.courier) if part is not None)


def create_app(environ: Mapping[str, str] | None = None) -> Flask:
    """Build the application from the environment.

    An unreachable database is retried in the background. Raises ConfigError with every mistake at once, and WontWork
    for a problem that a person must fix first.
    """
    environ = os.environ if environ is None else environ
    settings = load(environ)
    configure_logs()
    log = structlog.get_logger("receiver")
    for warning in settings.warnings:
        log.warning("configuration", detail=warning)
    clock = SystemClock()
    outside = reach_out(settings, environ)
    opening = Opening(outside.store.open)
    loop = loop_of(outside, opening, clock)
    outbox, warnings = outbox_of(outside, clock)
    for warning in warnings:
        log.warning("configuration", detail=warning)
    app = web_of(outside, loop, clock, outbox.destinations)
    opening.begin()
    app.extensions[EXTENSION] = Running(
        settings=settings,
        store=outside.store,
        writer=outside.writer,
        opening=opening,
        loop=loop,
        courier=Courier(outbox.deliver_due, loop, clock),
        watched=watch_cluster(outside, loop),
    )
    return app


def load_app() -> Flask:
    """Build the application for gunicorn; a failure to start is reported without a stack trace.

    gunicorn prints the text of an AppImportError and exits with status 4 instead of booting one worker after another.
    """
    try:
        return create_app()
    except (ConfigError, WontWork, TryLater) as error:
        raise AppImportError(f"cannot start: {error}") from None


def start(app: Flask) -> None:
    """Start the threads of *app*'s process."""
    running: Running = app.extensions[EXTENSION]
    running.start()
    atexit.register(stop, app)


def tell_to_stop(app: Flask) -> None:
    """Tell the threads of *app*'s process to stop; `stop` waits for them."""
    running: Running | None = app.extensions.get(EXTENSION)
    if running is not None:
        running.tell()


def stop(app: Flask) -> None:
    """Stop the threads of *app*'s process; idempotent."""
    running: Running | None = app.extensions.pop(EXTENSION, None)
    if running is not None:
        running.stop()
