"""The composition root: the only module that knows the classes behind the ports."""

import atexit
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path as File
from time import monotonic
from typing import Any

import structlog
from flask import Flask
from gunicorn.errors import AppImportError
from prometheus_client import CollectorRegistry

from receiver import installed_version
from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.clock import SystemClock
from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cel import Selectors
from receiver.adapters.kubernetes.cluster import ClusterOptions, KubernetesCluster, connect
from receiver.adapters.kubernetes.installations import Own, lasting, own_key
from receiver.adapters.kubernetes.reflector import Watching
from receiver.adapters.leader import Lease, WriterLock, process_name
from receiver.adapters.messages import Outbox, check_every_destination
from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.adapters.monitoring.prometheus import PrometheusTelemetry
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.adapters.store import SqlStore, store_at
from receiver.adapters.store.database import is_sqlite, parse
from receiver.adapters.store.lease_table import LeaseTable
from receiver.capabilities import registry as capabilities
from receiver.config import ConfigError, FileSettings, Settings, load
from receiver.config.environment import Environment
from receiver.config.live import LiveConfiguration
from receiver.config.model import GroupDemand, Mode, QueueDemand
from receiver.config.notify import oddities, unsendable
from receiver.config.settings import LiveSecrets, locked_out
from receiver.core.model.memory import is_sure, trusted_since
from receiver.core.model.text import harmless
from receiver.core.notices.grouping import PageLinks, Seal
from receiver.metrics.collector import Instruments, StoreCollector
from receiver.ports import Clock, TryLater, WontWork, WriterLostError
from receiver.runtime.after_step import AfterStep, AfterStepParts
from receiver.runtime.loop import LONGEST_CALL, Beat, Courier, Loop, LoopTerms, WakeupBurst
from receiver.runtime.observing import Observer, ReplayProcess
from receiver.runtime.pool_reader import PoolReader
from receiver.runtime.reload import Latest, Reloader
from receiver.runtime.store_opener import Opening, WarmUp
from receiver.step.devices import DeviceJoin
from receiver.step.gather import Sources
from receiver.step.parts import LEAD_LOST, Hands
from receiver.step.reconcile import Stepped, step
from receiver.web.app import create_app as web_app
from receiver.web.auth.tokens import Attempts
from receiver.web.parts import LastStep, WebParts

EXTENSION = "gpu_autoscaler"
GRACE_SECONDS = 5.0  # for a message, a watch or opening the store to end after they were told to
LAST_MOMENT_SECONDS = 0.5  # the same if the loop has used up that time
PRUNE_EVERY = timedelta(hours=1)
SPARE = timedelta(seconds=10)  # for the other calls of a source beside its slowest one

log = structlog.get_logger("receiver")


class Connections:
    """The adapters that the parts of a process share. Raises WontWork and ConfigError; nothing is called yet. *store*
    is for webhooks and the API, which every replica serves. Writes of the loop to *loops_store* are refused once this
    replica no longer leads. *settings* are those of the start, *live* has those in force. *observing* are the writers
    of a step that only reports. *beat* is called by a step that makes progress. *last_step* is what it decided from
    (None before the first), *observer* replays what was observed."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], clock: Clock) -> None:
        configuration, environment = settings.configuration, settings.environment
        self.settings = settings
        self.secrets = LiveSecrets(environ, environment)
        self.observer: Observer | None = None
        self.live = LiveConfiguration(
            File(environ["GPU_AUTOSCALER_CONFIG"].strip()),
            settings,
            clock.now,
            lambda read: (*locked_out(read, environment), *unsendable(read.notify, environment.destinations()[0])),
            facts=lambda: self.pools.facts,
            needs_facts=lambda: self.pools.soon(),
        )
        process, database_url = process_name(), environment.database_url.get_secret_value()
        self.additions = capabilities.step_additions()
        self.instruments = Instruments(process, self.additions.parts)
        self.beat, self.attempts = Beat(), Attempts()
        self.last_step: LastStep | None = None
        self.instruments.on_disk.watch(self.secrets, self.live)
        self.store = self.loops_store = store_at(database_url)
        self.writer: WriterLock | Lease
        terms = configuration.leader
        if is_sqlite(parse(database_url)):
            self.writer = WriterLock(database_url)
        else:
            self.writer = Lease(LeaseTable(parse(database_url), process, terms.lease, terms.longest_write))
            self.loops_store = self.store.fenced(self.writer.fence)
        self.calls = Calls(
            timeouts=terms.timeouts,
            write_seconds=terms.longest_write.total_seconds(),
            before_write=self._before_write,
            last_word=self._last_word,
            ended=self.instruments.civo.ended,
        )
        pools_civo = self._civo()  # an instance of its own: a session serves one thread
        self.pools = PoolReader(pools_civo.pool_facts, self.store, self.live, pools_civo.cluster)
        civo = self._civo()
        cluster = self._kubernetes(environment, database_url) if configuration.kubernetes.enabled else None
        self.sources = Sources(
            cloud=civo,
            accounts=civo,
            sizes=civo,
            cluster=cluster,
            telemetry=PrometheusTelemetry(configuration.prometheus.url) if configuration.prometheus.url else None,
            alarms=AlertmanagerAlarms(configuration.alertmanager.urls) if configuration.alertmanager.urls else None,
            store=self.loops_store,
            beat=self.beat,
            file=lambda: self.live.file,
            payload_life=configuration.alertmanager.payload_life,
            join=DeviceJoin(Selectors()),
            observed=lambda: self.observer.found if self.observer is not None else None,
        )
        observed = ObservedCluster(cluster) if cluster else None
        self.observing = Hands(cloud=ObservedCloud(civo), cluster=observed, may_write=self._may_write)
        self._acting = Hands(cloud=civo, cluster=cluster, may_write=self._may_write)

    def why_pending(self) -> str:
        """Return why nothing is decided while the pools are not known; empty when they are."""
        pending = [pool.civo_pool_id for pool in self.live.settings.pending]
        if not pending:
            return ""
        cause = "; ".join(filter(None, (*self.live.file.mistakes, self.pools.failure))) or "Civo has not answered yet"
        return f"nothing is decided until Civo has said size and GPUs of {', '.join(pending)}: {cause}"

    def hands(self, mode: Mode) -> Hands:
        return self.observing if mode is Mode.OBSERVE else self._acting

    # The adapters check leadership right before each write: they read first, and meanwhile the parent may have died or
    # another replica may have become the leader.

    def _may_write(self) -> bool:
        self.beat()  # a step that writes makes progress, however many nodes it handles
        return self.writer.held()

    def _before_write(self) -> None:
        if not self._may_write():
            raise WriterLostError(LEAD_LOST)

    def newest(self) -> object:
        """Return what changes when another replica has stored something for the loop."""
        if not isinstance(self.writer, Lease):
            return None  # this process stores everything, and wakes the loop
        try:
            return self.store.newest()
        except TryLater:
            return None

    def _last_word(self) -> None:
        if isinstance(self.writer, Lease) and not self.writer.lasts():
            raise WriterLostError(LEAD_LOST)

    def _civo(self) -> CivoCloud:
        environment = self.settings.environment
        try:
            return CivoCloud(
                api_url=environment.civo_api_url,
                api_key=self.secrets.civo_key,
                region=environment.civo_region,
                cluster_id=environment.civo_cluster_id,
                calls=self.calls,
            )
        except ValueError as error:  # a key or an id that cannot be sent; the message names the variable
            raise WontWork(str(error), code="configuration") from None

    def _kubernetes(self, environment: Environment, database_url: str) -> KubernetesCluster:
        configuration = self.settings.configuration
        options = ClusterOptions(
            kueue_queued=configuration.kueue.demand is QueueDemand.QUEUED,
            volcano_podgroups=configuration.volcano.demand is GroupDemand.PODGROUPS,
            keep_nodes_for=configuration.kubernetes.keep_nodes_for,
            readers=capabilities.readers(configuration),
            installation=Own(
                key=own_key(environment.kubeconfig, database_url),
                release=installed_version(),
                cluster_name=configuration.cluster_name,
                lasts=lasting(configuration.tick),
            ),
            pools=lambda: [name for pool in self.live.settings.policy.pools for name in (pool.id, pool.name)],
        )
        return connect(environment.kubeconfig, calls=self.calls, options=options)


class Stepping:
    def __init__(self, connections: Connections, started_at: datetime) -> None:
        self._connections = connections
        self._warm_up = WarmUp(connections.loops_store, connections.settings.configuration.warm_up)
        self._after_step = Latest(lambda: connections.live.settings, self._after_step_of)
        self._pruned_at = started_at
        self._trusted_since: datetime | None = None

    def __call__(self, now: datetime) -> Stepped:
        """Take the step of *now*. Raises what `receiver.step.reconcile.step` raises."""
        connections = self._connections
        settings = connections.live.settings  # one for the whole step
        policy, mode = settings.policy, settings.configuration.mode
        warm_at = self._warm_up.ends_at(now)
        mode, hands = (mode, connections.hands(mode)) if warm_at is None else (Mode.OBSERVE, connections.observing)
        stepped = step(connections.sources, hands, policy, mode.value, now, connections.additions)
        if warm_at is not None:
            stepped = replace(stepped, reconsider_at=min(warm_at, stepped.reconsider_at or warm_at))
        connections.last_step = LastStep(
            facts=stepped.facts, settings=settings, mode=mode.value, additions=connections.additions
        )
        self._trusted_since = trusted_since(self._trusted_since, now, trusted=stepped.trusted)
        if not stepped.trusted:  # a clock jump must not prune rows or send a monthly report
            return stepped
        sure = is_sure(self._trusted_since, now)
        if sure and abs(now - self._pruned_at) > PRUNE_EVERY:
            self._pruned_at = now
            try:
                connections.loops_store.prune(now)
            except TryLater as error:  # pruning can wait, scaling cannot
                log.warning("old rows not deleted", error=str(error))
        for due in self._after_step():
            due.look(now, sure=sure)
        return stepped

    def _after_step_of(self, settings: FileSettings) -> Sequence[AfterStep]:
        sources = self._connections.sources
        parts = AfterStepParts(
            store=self._connections.loops_store,
            telemetry=sources.telemetry,
            settings=settings,
            watched=sources.cluster is not None,
        )
        return [due for capability in capabilities.installed() for of in capability.after_step for due in of(parts)]


def loop_of(connections: Connections, opening: Opening, clock: Clock) -> Loop:
    configuration, instruments = connections.settings.configuration, connections.instruments
    stepping = Stepping(connections, clock.now())
    loop = Loop(
        stepping,
        connections.writer,
        clock,
        configuration.tick,
        instruments,
        LoopTerms(
            may_begin=lambda: opening.is_open() and not connections.live.settings.pending,
            beat=connections.beat,
            longest_call=max(LONGEST_CALL, configuration.leader.longest_call + SPARE),
            newest=connections.newest,
        ),
    )
    instruments.leads, instruments.good_age = loop.leads, loop.good_age
    return loop


def watch_cluster(connections: Connections, loop: Loop) -> KubernetesCluster | None:
    """Start the watches that keep the cluster's lists current and wake *loop* for pods; None if they are disabled."""
    cluster, counts = connections.sources.cluster, connections.instruments.watch
    if not isinstance(cluster, KubernetesCluster) or not connections.settings.configuration.kubernetes.watch:
        return None

    def wake() -> None:
        if loop.leads():
            counts.woke()
            loop.wake()

    counts.not_ours()
    counts.ages = cluster.cache_ages
    burst = WakeupBurst(wake)
    cluster.watch(
        Watching(leads=loop.leads, wake=burst.found, stands=counts.stands, fell=counts.fell, idle=counts.not_ours)
    )
    return cluster


def outbox_of(connections: Connections, settings: FileSettings, clock: Clock) -> Outbox:
    configuration, tokens = settings.configuration, connections.secrets.tokens
    everybody, of_teams = connections.settings.environment.destinations()
    links = PageLinks(
        cluster_name=configuration.cluster_name,
        public_url=configuration.public_url,
        docs_url=configuration.documents_url,
        pool_names={pool.id: pool.name for pool in settings.policy.pools},
        seal=lambda: Seal(token, connections.store.sealing_key()) if (token := tokens().operator) else None,
    )
    # Not fenced: a delivery is recorded even by a replica that has lost the lead, so that it is not repeated.
    store, every = connections.store, configuration.notify.at_most_every
    return Outbox(
        store,
        everybody,
        clock,
        of_teams,
        links=links,
        routes=settings.routes,
        every=every,
        may_send=connections.writer.held,
        zone=settings.policy.timezone,
    )


def web_of(
    connections: Connections, settings: FileSettings, loop: Loop, clock: Clock, messages_to: tuple[str, ...]
) -> Flask:
    """Return webhook, pages, API and metrics with *settings*; *messages_to* are the names of the destinations of
    messages."""
    instruments, environment = connections.instruments, connections.settings.environment
    registry = CollectorRegistry()
    registry.register(instruments)
    added = [families for capability in capabilities.installed() for families in capability.metrics]
    registry.register(StoreCollector(connections.store, settings, clock, destinations=messages_to, added=added))
    return web_app(
        WebParts(
            tokens=connections.secrets.tokens,
            store=connections.store,
            wake=loop.wake,
            clock=clock,
            settings=settings,
            heartbeat=loop.health,
            registry=registry,
            instruments=instruments,
            version=installed_version(),
            region=environment.civo_region,
            cluster_id=environment.civo_cluster_id,
            messages_to=messages_to,
            watch=lambda: instruments.watch.state,
            pools_pending=connections.why_pending,
            attempts=connections.attempts,
            last_step=lambda: connections.last_step if loop.leads() else None,
            other_settings=lambda text, changes: connections.live.other(text, changes=changes),
            added=[capability.web for capability in capabilities.installed()],
        )
    )


@dataclass(slots=True)
class Running:
    """One process: what was opened, and the threads to stop."""

    store: SqlStore
    writer: WriterLock | Lease
    opening: Opening
    loop: Loop
    courier: Courier
    observer: Observer
    watched: KubernetesCluster | None
    reloader: Reloader
    pools: PoolReader
    told_at: float = 0.0  # when the threads were told to stop, in seconds of `monotonic`; 0 before

    def start(self) -> None:
        if isinstance(self.writer, Lease):
            self.writer.start()
        self.loop.start()
        self.courier.start()
        self.observer.start()
        self.pools.start()
        self.reloader.start()

    def tell(self) -> None:
        """Tell every thread to stop without waiting. The loop gives up leadership when its step is over."""
        self.told_at = self.told_at or monotonic()
        for part in self._beside():
            part.stop(0)
        self.loop.stop(0)

    def stop(self) -> None:
        self.tell()
        self.loop.stop()
        for part in self._beside():
            part.stop(max(LAST_MOMENT_SECONDS, self.told_at + GRACE_SECONDS - monotonic()))
        if isinstance(self.writer, Lease):
            self.writer.close()
        self.store.close()

    def _beside(self) -> tuple[Opening | KubernetesCluster | Courier | Observer | PoolReader | Reloader, ...]:
        parts = (self.opening, self.watched, self.courier, self.observer, self.pools, self.reloader)
        return tuple(part for part in parts if part is not None)


def odd_destinations(settings: FileSettings, environment: Environment) -> Sequence[str]:
    """Return what keeps messages from destinations, or from a format, by the file and the environment together."""
    everybody, of_teams = environment.destinations()
    unusable = check_every_destination(everybody, of_teams, settings.routes)
    return (*oddities(settings.configuration.notify, everybody), *unusable)


def create_app(environ: Mapping[str, str] | None = None) -> Flask:
    """Build the application from the environment. An unreachable database is retried in the background. Raises
    ConfigError with every mistake at once, and WontWork for a problem that a person must fix first."""
    environ = os.environ if environ is None else environ
    settings = load(environ)
    configure_logs()
    for warning in dict.fromkeys((*settings.warnings, *odd_destinations(settings, settings.environment))):
        log.warning("configuration", detail=warning)
    clock = SystemClock()
    connections = Connections(settings, environ, clock)
    opening = Opening(connections.store.open)
    loop = loop_of(connections, opening, clock)
    outbox = Latest(lambda: connections.live.settings, lambda latest: outbox_of(connections, latest, clock))
    app = Flask("receiver")  # only a shell: each configuration has an application of its own, and a request one of them
    serving = Latest(
        lambda: connections.live.settings,
        lambda latest: web_of(connections, latest, loop, clock, outbox().destinations),
    )
    app.wsgi_app = lambda environ, start_response: serving().wsgi_app(environ, start_response)  # type: ignore[method-assign]

    def look() -> None:
        connections.secrets.tokens()  # looks at their files: a change is taken at the second look
        before = connections.live.settings
        if connections.live.look():
            warnings_before = odd_destinations(before, settings.environment)
            for warning in odd_destinations(connections.live.settings, settings.environment):
                if warning not in warnings_before:
                    log.warning("configuration", detail=warning)
            serving()
            loop.wake()

    observer = connections.observer = Observer(
        ReplayProcess("receiver.server.replaying"),
        connections.store,
        lambda: connections.live.settings,
        loop.leads,
        clock,
    )
    opening.begin()
    connections.pools.recall()
    if connections.pools.facts is not None:
        look()
    app.extensions[EXTENSION] = Running(
        store=connections.store,
        writer=connections.writer,
        opening=opening,
        loop=loop,
        courier=Courier(lambda now: outbox().deliver_due(now), loop, clock),
        observer=observer,
        watched=watch_cluster(connections, loop),
        reloader=Reloader(look),
        pools=connections.pools,
    )
    return app


def load_app() -> Flask:
    """Build the application for gunicorn; a failure to start is reported without a stack trace. gunicorn prints the
    text of an AppImportError and exits with status 4 instead of booting one worker after another."""
    try:
        return create_app()
    except (ConfigError, WontWork, TryLater) as error:
        raise AppImportError(f"cannot start: {error}") from None


def start(app: Flask) -> None:
    app.extensions[EXTENSION].start()
    atexit.register(stop, app)


def tell_to_stop(app: Flask) -> None:
    """Tell the threads of *app*'s process to stop; `stop` waits for them."""
    running: Running | None = app.extensions.get(EXTENSION)
    if running is not None:
        running.tell()


def stop(app: Flask) -> None:
    running: Running | None = app.extensions.pop(EXTENSION, None)
    if running is not None:
        running.stop()


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
        cache_logger_on_first_use=True,  # each delivery writes a line
    )


def _shown(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Remove terminal control characters from external text; the JSON renderer escapes them."""
    return {key: harmless(value) if isinstance(value, str) else value for key, value in event.items()}
