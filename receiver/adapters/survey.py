"""Reads of Civo, Kubernetes and the store that only the doctor needs, and the smoke test's pod.

Nothing is written, except with `SmokeSurvey`, which deletes exactly the pod that it created, and no lock is taken that
a writer of the store waits for.
"""

import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, NullPool, create_engine
from sqlalchemy import text as sql
from sqlalchemy.exc import DBAPIError

from receiver.adapters.civo.answers import pool_facts_of, whole
from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.api import (
    CONFLICT,
    CUSTOM,
    NODES,
    NOT_FOUND,
    POD,
    PODS,
    PODS_OF,
    condition,
    entries,
    section,
    text,
    words,
)
from receiver.adapters.kubernetes.cluster import LIVING, KubernetesCluster
from receiver.adapters.kubernetes.nodes import node_from
from receiver.adapters.kubernetes.pods import HOST_LABEL, SeenPod
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.adapters.store.database import Database, database_file, is_sqlite, parse
from receiver.adapters.store.migrate import missing, names_in, newest
from receiver.adapters.store.sql_store import facts_in
from receiver.config import CivoAccess, FileSettings, Settings
from receiver.core.model.installations import InstallationLease
from receiver.core.model.pool_facts import PoolFacts
from receiver.ports import ClusterNode, TryLater, WontWork

# Resources of the account's quota, and what a size calls them.
COUNTED = {"instance_count": "", "cpu_core": "cpu_cores", "ram_mb": "ram_mb", "disk_gb": "disk_gb"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAtCivo:
    """A size: what one node of it takes of each of `COUNTED`, its GPUs, and whether Civo offers it now."""

    takes: Mapping[str, int]
    gpus: int
    selectable: bool


class CivoSurvey(CivoCloud):
    """The account and cluster of `CivoCloud`."""

    def shown(self) -> PoolFacts:
        """Return what Civo says of the pools, without the GPUs of sizes. Raises TryLater and WontWork."""
        return pool_facts_of(self._cluster(), [])

    def sizes(self) -> dict[str, SizeAtCivo]:
        """Return every size that Civo lists, by name. Raises TryLater and WontWork."""
        answer = self._send("GET", "/v2/sizes", "list the sizes")
        if not isinstance(answer, list):
            raise TryLater("malformed answer of Civo: the list of sizes", code="malformed")
        return {
            str(record["name"]): SizeAtCivo(
                takes={name: whole(record.get(word)) or 0 if word else 1 for name, word in COUNTED.items()},
                gpus=whole(record.get("gpu_count")) or 0,
                selectable=record.get("selectable") is not False,
            )
            for record in answer
            if isinstance(record, dict) and record.get("name")
        }

    def free(self) -> dict[str, int]:
        """Return what is left of each of `COUNTED` in the account's quota, as far as Civo tells it.

        Raises TryLater and WontWork.
        """
        answer = self._send("GET", "/v2/quota", "show the quota")
        if not isinstance(answer, dict):
            raise TryLater("malformed answer of Civo: the quota", code="malformed")
        quotas = {name: (whole(answer.get(f"{name}_limit")), whole(answer.get(f"{name}_usage"))) for name in COUNTED}
        return {name: limit - used for name, (limit, used) in quotas.items() if limit is not None and used is not None}


def survey_of(access: CivoAccess, timeouts: tuple[float, float]) -> CivoSurvey:
    """Return the account and cluster of *access*; *timeouts* are (connect, read) in seconds. Raises WontWork for a key
    or id that cannot be sent."""
    try:
        return CivoSurvey(
            api_url=access.civo_api_url,
            api_key=access.civo_api_key.get_secret_value(),
            region=access.civo_region,
            cluster_id=access.civo_cluster_id,
            calls=Calls(timeouts=timeouts),
        )
    except ValueError as error:  # the message names the variable
        raise WontWork(str(error), code="configuration") from None


def known_facts(
    settings: FileSettings, access: CivoAccess, timeouts: tuple[float, float]
) -> tuple[PoolFacts | None, str]:
    """Return what is known of the pools of *settings*, and why Civo's own answer is missing (empty if it came). With an
    environment its server remembers earlier ones."""
    before = None
    if isinstance(settings, Settings):
        before = remembered(parse(settings.environment.database_url.get_secret_value()))
    try:
        with closing(survey_of(access, timeouts)) as civo:
            before = before if before is not None and before.cluster == civo.cluster else None
            answer = civo.pool_facts()
    except (TryLater, WontWork) as error:
        return before, str(error)
    return before.then(answer, settings.configured) if before is not None else answer, ""


DAEMON_SETS = ResourceKind("apps", "daemonsets", ("v1",))
NETWORK_POLICIES = ResourceKind("networking.k8s.io", "networkpolicies", ("v1",))
PRIORITY_CLASSES = ResourceKind("scheduling.k8s.io", "priorityclasses", ("v1",))
RESOURCE_FLAVORS = ResourceKind("kueue.x-k8s.io", "resourceflavors", ("v1beta2", "v1beta1"))
CLUSTER_QUEUES = ResourceKind("kueue.x-k8s.io", "clusterqueues", ("v1beta2", "v1beta1"))
OURS = "gpu-autoscaler"


class SurveyedPod(SeenPod):
    """A pod of any kind, with the *image* of its first container, and *words*: commands and arguments."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        super().__init__(raw)
        containers = entries(section(raw, "spec"), "containers")
        words = [word for container in containers for part in ("command", "args") for word in container.get(part) or ()]
        self.image = str(containers[0].get("image") or "") if containers else ""
        self.words = " ".join(map(str, words))

    @property
    def is_ours(self) -> bool:
        """Whether it is a pod of the autoscaler."""
        return self.labels.get(HOST_LABEL) == OURS


class ClusterSurvey(KubernetesCluster):
    """What the server does not read; every call may raise TryLater and WontWork (``http_403``: forbidden,
    ``http_404``: not installed)."""

    def nodes(self, dra: frozenset[str] = frozenset()) -> list[ClusterNode]:
        """Return every node; *dra* are the names of those whose GPUs a DRA driver serves."""
        nodes = map(node_from, self._wire.every("nodes", NODES))
        return [replace(node, dra=True) if node.name in dra else node for node in nodes]

    def pods(self) -> list[SurveyedPod]:
        """Return every living pod."""
        return [SurveyedPod(raw) for raw in self._wire.every("pods", PODS, field_selector=LIVING)]

    configured: Collection[str] = ()  # the ids of the pools in the configuration

    def others(self) -> list[InstallationLease]:
        """Return the installations that may still be at work and have none of the configured pools. None where Leases
        cannot be read."""
        try:
            leases = self.installations()
        except (TryLater, WontWork):
            return []
        now = self._clock.now()
        apart = (each for each in leases if not any(pool.id in self.configured for pool in each.pools))
        return [each for each in apart if each.is_respected(now)]

    def _others(self) -> Collection[str]:
        return {each.key for each in self.others()}

    def installations(self) -> list[InstallationLease]:
        """Return the installations of the autoscaler that have a Lease, the server's own included."""
        return self._installations.every()

    def groups(self) -> frozenset[str]:
        """Return the API groups that the cluster serves, and each of their versions as ``group/version``."""
        groups = entries(self._wire.ask("get", "apis", "/apis"), "groups")
        versions = {str(v.get("groupVersion")) for group in groups for v in entries(group, "versions")}
        return frozenset({str(group.get("name")) for group in groups} | versions)

    def core(self, plural: str) -> list[Mapping[str, Any]]:
        """Return every object of a kind of the core group, such as ``namespaces``."""
        return self._wire.every(plural, f"/api/v1/{plural}")

    def every(self, kind: ResourceKind) -> list[Mapping[str, Any]]:
        """Return every object of *kind* in the served version."""
        for version in kind.versions:
            try:
                return self._wire.every(kind.name, CUSTOM, kind.group, version, kind.plural)
            except WontWork as error:
                if error.code != NOT_FOUND:
                    raise
        raise WontWork(f"Kubernetes does not serve {kind.name}", code=NOT_FOUND)


def name_of(raw: Mapping[str, Any]) -> str:
    """Return the name of an object without a namespace."""
    return str(section(raw, "metadata").get("name"))


MARK = "gpu-autoscaler.io/smoke-test"  # annotation with the run of the test that created the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """The state of the pod: its *phase*, whether it is unschedulable, and what the scheduler or a container *says*
    about that."""

    phase: str
    unschedulable: bool = False
    says: str = ""


class SmokeSurvey(ClusterSurvey):
    """A `ClusterSurvey` that can also create and delete one pod."""

    def create(self, namespace: str, manifest: Mapping[str, Any]) -> str:
        """Create the pod and return its uid. Raises TryLater and WontWork."""
        pod = self._wire.ask("create", "pods", PODS_OF, namespace, dict(manifest))
        return str(section(pod, "metadata").get("uid"))

    def made(self, namespace: str, name: str, mark: str) -> str | None:
        """Return the uid of the pod with *mark*, for a creation without an answer. Raises TryLater."""
        try:
            metadata = section(self._wire.ask("get", "pods", POD, namespace, name), "metadata")
        except WontWork:
            return None
        return str(metadata.get("uid")) if words(metadata, "annotations").get(MARK) == mark else None

    def state(self, namespace: str, name: str) -> PodState:
        """Return the state of the pod. Raises TryLater and WontWork (``http_404``: it is gone)."""
        status = section(self._wire.ask("get", "pods", POD, namespace, name), "status")
        refused = condition(status, "PodScheduled", holds="False")
        stuck = refused.get("reason") == "Unschedulable"
        states = [section(c, "state") for c in entries(status, "containerStatuses")]
        reasons = [section(state, word).get("reason") for word in ("waiting", "terminated") for state in states]
        return PodState(
            phase=text(status, "phase"),
            unschedulable=stuck,
            says=text(refused, "message") if stuck else ", ".join(str(r) for r in reasons if r),
        )

    def delete(self, namespace: str, name: str, uid: str) -> None:
        """Delete the pod with *uid* if it still exists. Raises TryLater and WontWork."""
        options = {"preconditions": {"uid": uid}}
        try:
            self._wire.ask("delete", "pods", POD, namespace, name, options)
        except (TryLater, WontWork) as error:
            if error.code not in (CONFLICT, NOT_FOUND):
                raise


WAITS_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The revision of a database (None: no tables yet), the newest known one, and the oldest one whose release is
    compatible with the database. *missing* are tables and columns of the newest revision that the database lacks."""

    revision: str | None
    newest: str
    oldest: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A PostgreSQL server: its version, whether it accepts writes, and the schema of the database."""

    version: str
    takes_writes: bool
    schema: Schema


def sqlite_schema(file: Path) -> Schema:
    """Return the schema of the database in *file*, over a read-only connection. Raises TryLater."""
    try:
        with _reading(file) as connection:
            return _schema(connection)
    except DBAPIError as error:
        raise TryLater(f"{file}: {error.orig}", code="store") from None


def _reading(file: Path) -> Connection:
    """Return a read-only connection to the database in *file*."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=WAITS_SECONDS)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool).connect()


def postgres(url: URL) -> Postgres:
    """Return the server of *url*. Raises TryLater without the password."""
    database = Database(url)
    try:
        with database.read() as connection:
            standby = bool(connection.execute(sql("SELECT pg_is_in_recovery()")).scalar_one())
            closed = str(connection.execute(sql("SHOW default_transaction_read_only")).scalar_one()) == "on"
            return Postgres(
                version=str(connection.execute(sql("SHOW server_version")).scalar_one()),
                takes_writes=not standby and not closed,
                schema=_schema(connection),
            )
    finally:
        database.close()


def remembered(url: URL) -> PoolFacts | None:
    """Return what the server at the database of *url* has last heard from Civo; None if that cannot be read."""
    try:
        if not is_sqlite(url):
            database = Database(url)
            try:
                with database.read() as connection:
                    return facts_in(connection)
            finally:
                database.close()
        file = database_file(url)
        if not file.is_file():
            return None
        with _reading(file) as connection:
            return facts_in(connection)
    except (TryLater, DBAPIError):  # also without the table, before the server's first start
        return None


def _schema(connection: Connection) -> Schema:
    tables = names_in(connection)
    revision = oldest = None
    if "alembic_version" in tables:
        revision = connection.execute(sql("SELECT version_num FROM alembic_version")).scalar()
    if "compatibility" in tables:
        oldest = connection.execute(sql("SELECT oldest FROM compatibility WHERE id = 1")).scalar()
    return Schema(revision=revision, newest=newest(), oldest=oldest, missing=tuple(missing(tables)))
