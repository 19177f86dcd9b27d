"""The composition root: the only place that knows which classes stand behind the ports."""

import atexit
import os
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path as File
from typing import Any

import structlog
from flask import Flask
from gunicorn.errors import AppImportError
from prometheus_client import CollectorRegistry

from receiver.act import LEAD_LOST, Hands
from receiver.adapters.alarms import AlertmanagerAlarms
from receiver.adapters.civo import CivoCloud
from receiver.adapters.cluster import KubernetesCluster, connect
from receiver.adapters.destinations import check_every_destination
from receiver.adapters.lease import Lease, Terms
from receiver.adapters.notify import Outbox
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.lease_table import LeaseTable
from receiver.adapters.store.urls import is_sqlite, parse
from receiver.adapters.telemetry import PrometheusTelemetry
from receiver.adapters.writer_lock import WriterLock
from receiver.clock import SystemClock
from receiver.config import ConfigError, Settings, load
from receiver.config.live import ConfigurationFile, LiveSecrets
from receiver.config.model import GroupDemand, Mode, QueueDemand
from receiver.core.steady import believed_since, is_sure
from receiver.core.words import harmless
from receiver.installed import installed_version
from receiver.links import PageLinks, Seal
from receiver.look import Sources
from receiver.lookout import Lookout
from receiver.loop import Courier, Loop
from receiver.metrics import Instruments, StoreCollector
from receiver.ports import Cloud, Cluster, TryLater, WontWork, WriterLostError
from receiver.reconcile import Stepped, step
from receiver.reports.monthly import MonthEnd
from receiver.warming import WarmUp
from receiver.web import WebParts
from receiver.web import create_app as create_web

EXTENSION = "gpu_autoscaler"
PRUNE_EVERY = timedelta(hours=1)


@dataclass(slots=True)
class Running:
    """One process of the receiver: what was opened and what must be ended."""

    settings: Settings
    store: SqlStore
    writer: WriterLock | Lease
    loop: Loop
    courier: Courier
    lookout: Lookout | None

    def start(self) -> None:
        """Start the threads."""
        if isinstance(self.writer, Lease):
            self.writer.start(self.loop.wake)
        self.loop.start()
        self.courier.start()
        if self.lookout is not None:
            self.lookout.start()

    def stop(self) -> None:
        """End the threads, then close the store."""
        if self.lookout is not None:
            self.lookout.stop()
        self.courier.stop()
        self.loop.stop()
        if isinstance(self.writer, Lease):
            self.writer.close()
        self.store.close()


def configure_logs() -> None:
    """Write one line per event to standard output: JSON unless it is a terminal."""
    terminal = sys.stdout.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *([_shown] if terminal else []),
            structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,  # a storm of deliveries writes a line for each
    )


def _shown(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Keep what others wrote from steering a terminal; JSON escapes it by itself."""
    return {key: harmless(value) if isinstance(value, str) else value for key, value in event.items()}


def create_app(environ: Mapping[str, str] | None = None) -> Flask:
    """Build the application from the environment. Raises ConfigError with every mistake at once."""
    environ = os.environ if environ is None else environ
    settings = load(environ)
    secrets = LiveSecrets(environ, settings.environment)
    file = ConfigurationFile(File(environ["GPU_AUTOSCALER_CONFIG"].strip()))
    configure_logs()
    log = structlog.get_logger("receiver")
    for warning in settings.warnings:
        log.warning("configuration", detail=warning)
    clock, mode = SystemClock(), settings.configuration.mode.value
    database = settings.environment.database_url.get_secret_value()
    store = open_store(database)
    instruments = Instruments()
    instruments.on_disk.watch(secrets, file)
    writer = _open_writer(settings)
    # What a loop writes is refused once it does not lead any more; people and webhooks are heard by every replica.
    loops_store = store.fenced(writer.fence) if isinstance(writer, Lease) else store
    sources, hands_cloud, hands_cluster = _open_ports(settings, secrets, loops_store, writer, instruments)
    hands = Hands(cloud=hands_cloud, cluster=hands_cluster, may_write=writer.held)
    month_end = MonthEnd(loops_store, sources.telemetry, settings.policy, watched=sources.cluster is not None)
    warm_up = WarmUp(loops_store, settings.configuration.warm_up)
    only_looks = Hands(
        cloud=ObservedCloud(sources.cloud),
        cluster=ObservedCluster(sources.cluster) if sources.cluster else None,
        may_write=writer.held,
    )
    pruned_at = clock.now()
    believed: datetime | None = None

    def one_step(now: datetime) -> Stepped:
        nonlocal pruned_at, believed
        file.look()
        warm_at = warm_up.ends_at(now)
        if warm_at is None:
            stepped = step(sources, hands, settings.policy, mode, now)
        else:
            stepped = step(sources, only_looks, settings.policy, Mode.OBSERVE.value, now)
            stepped = replace(stepped, reconsider_at=min(warm_at, stepped.reconsider_at or warm_at))
        believed = believed_since(believed, now, steady=stepped.steady)
        if not stepped.steady:
            return stepped  # what is deleted or told once must not be so by one step under a wrong clock
        if abs(now - pruned_at) > PRUNE_EVERY:
            pruned_at = now
            try:
                loops_store.prune(now)
            except TryLater as error:  # forgetting can wait, scaling cannot
                log.warning("old rows not deleted", error=str(error))
        month_end.look(now, sure=is_sure(believed, now))
        return stepped

    loop = Loop(one_step, writer, clock, settings.configuration.tick, instruments)
    instruments.leads = loop.leads
    lookout = None
    if isinstance(sources.cluster, KubernetesCluster) and settings.configuration.kubernetes.watch:
        lookout = Lookout(sources.cluster.pod_watch(), loop.wake, lambda: loop.leading, instruments.watch)
    everybody, of_teams = settings.environment.destinations()
    for warning in check_every_destination(everybody, of_teams):
        log.warning("configuration", detail=warning)
    links = PageLinks(
        public_url=settings.configuration.public_url,
        docs_url=settings.configuration.docs_url,
        seal=lambda: Seal(token) if (token := secrets.tokens().operator) else None,
    )
    every = settings.configuration.notify.at_most_every
    # Not fenced: that a message has reached somebody is true whoever notes it, and keeps it from being sent again.
    outbox = Outbox(store, everybody, clock, of_teams, links=links, every=every, may_send=writer.held)
    courier = Courier(outbox.deliver_due, loop, clock)
    registry = CollectorRegistry()
    registry.register(instruments)
    registry.register(StoreCollector(store, settings.policy, clock, mode=mode, destinations=outbox.destinations))

    def wake() -> None:
        loop.wake()
        if isinstance(writer, Lease):
            writer.call()

    app = create_web(
        WebParts(
            tokens=secrets.tokens,
            store=store,
            wake=wake,
            clock=clock,
            policy=settings.policy,
            mode=mode,
            heartbeat=loop.health,
            registry=registry,
            instruments=instruments,
            max_body_bytes=settings.configuration.webhook.max_bytes,
            version=installed_version(),
            reading=settings.configuration.web.reading,
            public_url=settings.configuration.public_url,
            hosts=settings.configuration.web.hosts,
            docs_url=settings.configuration.docs_url,
            messages_to=outbox.destinations,
            watch=lambda: instruments.watch.state,
        )
    )
    app.extensions[EXTENSION] = Running(
        settings=settings, store=store, writer=writer, loop=loop, courier=courier, lookout=lookout
    )
    return app


def load_app() -> Flask:
    """Build the application for gunicorn: what keeps it from starting is one line on standard error, not a stack trace.

    gunicorn prints the text of an AppImportError and ends with status 4 instead of booting one worker after another.
    """
    try:
        return create_app()
    except (ConfigError, WontWork, TryLater) as error:
        raise AppImportError(f"cannot start: {error}") from None


def _open_writer(settings: Settings) -> WriterLock | Lease:
    """Return the right to write: a lock beside an SQLite file, a lease in PostgreSQL."""
    database = settings.environment.database_url.get_secret_value()
    if is_sqlite(parse(database)):
        return WriterLock(database)
    leader = settings.configuration.leader
    return Lease(LeaseTable(parse(database)), Terms(lasts=leader.lease, longest_call=leader.longest_call))


def _open_ports(
    settings: Settings, secrets: LiveSecrets, store: SqlStore, writer: WriterLock | Lease, instruments: Instruments
) -> tuple[Sources, Cloud, Cluster | None]:
    """Open every source, and what may be written to: in observe mode writes become sentences.

    Their adapters ask once more right before each write: they read again first, and while the other side takes its
    time for that our parent may have died, or another replica may have taken the lead.
    """
    said, told = settings.configuration, settings.environment

    def still_the_writer() -> None:
        if not writer.held():
            raise WriterLostError(LEAD_LOST)

    def still_lasts() -> None:
        if isinstance(writer, Lease) and not writer.lasts():
            raise WriterLostError(LEAD_LOST)

    try:
        civo = CivoCloud(
            api_url=told.civo_api_url,
            api_key=secrets.civo_key,
            region=told.civo_region,
            cluster_id=told.civo_cluster_id,
            timeouts=said.leader.timeouts,
            before_write=still_the_writer,
            last_word=still_lasts,
            ended=instruments.civo.ended,
        )
    except ValueError as error:  # a key or an id that cannot be sent; the message names the variable
        raise WontWork(str(error), code="configuration") from None
    cluster: Cluster | None = None
    if said.kubernetes.enabled:
        cluster = connect(
            told.kubeconfig,
            timeouts=said.leader.timeouts,
            before_write=still_the_writer,
            kueue_queued=said.kueue.demand is QueueDemand.QUEUED,
            volcano_podgroups=said.volcano.demand is GroupDemand.PODGROUPS,
        )
    sources = Sources(
        cloud=civo,
        accounts=civo,
        cluster=cluster,
        telemetry=PrometheusTelemetry(said.prometheus.url) if said.prometheus.url else None,
        alarms=AlertmanagerAlarms(said.alertmanager.urls) if said.alertmanager.urls else None,
        store=store,
    )
    if said.mode is Mode.OBSERVE:
        return sources, ObservedCloud(civo), ObservedCluster(cluster) if cluster else None
    return sources, civo, cluster


def start(app: Flask) -> None:
    """Start the threads of *app*'s process; they end with it."""
    running: Running = app.extensions[EXTENSION]
    running.start()
    atexit.register(stop, app)


def stop(app: Flask) -> None:
    """End the threads of *app*'s process; harmless when repeated."""
    running: Running | None = app.extensions.pop(EXTENSION, None)
    if running is not None:
        running.stop()
