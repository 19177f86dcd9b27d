"""The adapters of a process: store, leader election, sources and writers; the log."""

import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import structlog

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.adapters.leader import Lease, Terms, WriterLock
from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.adapters.monitoring.prometheus import PrometheusTelemetry
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.adapters.store import SqlStore, store_at
from receiver.adapters.store.database import is_sqlite, parse
from receiver.adapters.store.lease_table import LeaseTable
from receiver.config import Settings
from receiver.config.live import ConfigurationFile, LiveSecrets
from receiver.config.model import GroupDemand, Mode, QueueDemand
from receiver.core.model.text import harmless
from receiver.metrics.collector import Instruments
from receiver.ports import WontWork, WriterLostError
from receiver.runtime.loop import Beat
from receiver.step.carry_out import LEAD_LOST, Hands
from receiver.step.gather import Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The adapters that the parts of a process share.

    *store* is for webhooks and the API, which every replica serves. Writes of the loop to *loops_store* are refused
    once this replica no longer leads. *only_looks* are the writers of a step that only reports. *beat* is
    called by a step that makes progress.
    """

    settings: Settings
    secrets: LiveSecrets
    file: ConfigurationFile
    instruments: Instruments
    beat: Beat
    store: SqlStore
    loops_store: SqlStore
    writer: WriterLock | Lease
    sources: Sources
    hands: Hands
    only_looks: Hands

    @property
    def mode(self) -> str:
        """``act`` or ``observe``."""
        return self.settings.configuration.mode.value


def reach_out(settings: Settings, environ: Mapping[str, str]) -> Outside:
    """Create all adapters without a call to the outside. Raises WontWork and ConfigError."""
    secrets = LiveSecrets(environ, settings.environment)
    file = ConfigurationFile(File(environ["GPU_AUTOSCALER_CONFIG"].strip()))
    instruments = Instruments()
    instruments.on_disk.watch(secrets, file)
    store = store_at(settings.environment.database_url.get_secret_value())
    writer = _writer(settings)
    beat = Beat()

    def may_write() -> bool:
        beat()  # a step that writes makes progress, however many nodes it handles
        return writer.held()

    loops_store = store.fenced(writer.fence) if isinstance(writer, Lease) else store
    civo = _civo(settings, secrets, writer, may_write, instruments)
    cluster = _cluster(settings, may_write)
    said = settings.configuration
    sources = Sources(
        cloud=civo,
        accounts=civo,
        sizes=civo,
        cluster=cluster,
        telemetry=PrometheusTelemetry(said.prometheus.url) if said.prometheus.url else None,
        alarms=AlertmanagerAlarms(said.alertmanager.urls) if said.alertmanager.urls else None,
        store=loops_store,
        goes_on=beat,
        payload_life=said.alertmanager.payload_life,
    )
    only_looks = Hands(
        cloud=ObservedCloud(civo), cluster=ObservedCluster(cluster) if cluster else None, may_write=may_write
    )
    return Outside(
        settings=settings,
        secrets=secrets,
        file=file,
        instruments=instruments,
        beat=beat,
        store=store,
        loops_store=loops_store,
        writer=writer,
        sources=sources,
        hands=only_looks if said.mode is Mode.OBSERVE else Hands(cloud=civo, cluster=cluster, may_write=may_write),
        only_looks=only_looks,
    )


def _writer(settings: Settings) -> WriterLock | Lease:
    """Return the leader election: a lock beside an SQLite file, or a lease in PostgreSQL."""
    database = settings.environment.database_url.get_secret_value()
    if is_sqlite(parse(database)):
        return WriterLock(database)
    leader = settings.configuration.leader
    return Lease(LeaseTable(parse(database)), Terms(lasts=leader.lease, longest_call=leader.longest_call))


# The adapters check leadership right before each write: they read first, and meanwhile the parent may have died or
# another replica may have become the leader.


def _civo(
    settings: Settings,
    secrets: LiveSecrets,
    writer: WriterLock | Lease,
    may_write: Callable[[], bool],
    instruments: Instruments,
) -> CivoCloud:
    told = settings.environment

    def still_lasts() -> None:
        if isinstance(writer, Lease) and not writer.lasts():
            raise WriterLostError(LEAD_LOST)

    try:
        return CivoCloud(
            api_url=told.civo_api_url,
            api_key=secrets.civo_key,
            region=told.civo_region,
            cluster_id=told.civo_cluster_id,
            timeouts=settings.configuration.leader.timeouts,
            before_write=lambda: _require(may_write),
            last_word=still_lasts,
            ended=instruments.civo.ended,
        )
    except ValueError as error:  # a key or an id that cannot be sent; the message names the variable
        raise WontWork(str(error), code="configuration") from None


def _cluster(settings: Settings, may_write: Callable[[], bool]) -> KubernetesCluster | None:
    said = settings.configuration
    if not said.kubernetes.enabled:
        return None
    return connect(
        settings.environment.kubeconfig,
        timeouts=said.leader.timeouts,
        before_write=lambda: _require(may_write),
        kueue_queued=said.kueue.demand is QueueDemand.QUEUED,
        volcano_podgroups=said.volcano.demand is GroupDemand.PODGROUPS,
        keep_nodes_for=said.kubernetes.keep_nodes_for,
    )


def _require(may_write: Callable[[], bool]) -> None:
    """Raise WriterLostError unless this process leads."""
    if not may_write():
        raise WriterLostError(LEAD_LOST)


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
