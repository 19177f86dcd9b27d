"""Kubernetes for the doctor: nodes and pods of every kind, rights, policies, the clock; the smoke test's pod.

`ClusterSurvey` only reads and sends SelfSubjectAccessReviews, which are not stored. `SmokeSurvey` deletes exactly the
pod that it created.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

from kubernetes import client

from receiver.adapters.http.sessions import ClockReading, http_date, moment
from receiver.adapters.kubernetes.api import (
    CONFLICT,
    CUSTOM,
    NODES,
    NOT_FOUND,
    POD,
    PODS,
    PODS_OF,
    QUOTAS,
    KubernetesApi,
    entries,
    key_of,
    section,
    words,
)
from receiver.adapters.kubernetes.cluster import LIVING, KubernetesCluster
from receiver.adapters.kubernetes.nodes import node_from
from receiver.adapters.kubernetes.pods import HOST_LABEL, SeenPod
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION, Clock, ClusterNode, TryLater, WontWork

GROUPS = "/apis"
NAMESPACES = "/api/v1/namespaces"
DAEMON_SETS = ResourceKind("apps", "daemonsets", ("v1",))
NETWORK_POLICIES = ResourceKind("networking.k8s.io", "networkpolicies", ("v1",))
PRIORITY_CLASSES = ResourceKind("scheduling.k8s.io", "priorityclasses", ("v1",))
RESOURCE_FLAVORS = ResourceKind("kueue.x-k8s.io", "resourceflavors", ("v1beta2", "v1beta1"))
CLUSTER_QUEUES = ResourceKind("kueue.x-k8s.io", "clusterqueues", ("v1beta2", "v1beta1"))
OURS = "gpu-autoscaler"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A node and its creation time."""

    node: ClusterNode
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedPod:
    """A living pod of any kind; *words* are its images, commands and arguments, *gpus* its requests.

    *daemon* is the DaemonSet that owns it; *shuts_down*: it is annotated for idle shutdown.
    """

    key: str
    namespace: str
    labels: Mapping[str, str]
    node: str
    words: tuple[str, ...] = ()
    gpus: Mapping[str, int] = field(default_factory=dict)
    daemon: str = ""
    shuts_down: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it is a pod of the autoscaler."""
        return self.labels.get(HOST_LABEL) == OURS


class _HeardApi(KubernetesApi):
    """An API client that keeps the ``Date`` of the last answer."""

    def __init__(self, api_client: client.ApiClient, clock: Clock) -> None:
        super().__init__(api_client)
        self.told: ClockReading | None = None
        self._clock = clock

    def _send(self, *call: Any) -> Any:
        began = monotonic()
        answer = super()._send(*call)
        there = http_date(answer.headers.get("Date"))
        if there is not None:
            took = timedelta(seconds=monotonic() - began)
            self.told = ClockReading(there=there, here=self._clock.now(), took=took)
        return answer


class ClusterSurvey(KubernetesCluster):
    """The cluster that *configuration* names; every call may raise TryLater and WontWork (``http_403``: forbidden,
    ``http_404``: not installed)."""

    def __init__(self, configuration: client.Configuration, clock: Clock, timeouts: tuple[float, float]) -> None:
        super().__init__(configuration, timeouts=timeouts, clock=clock)
        self._heard = _HeardApi(self._client, clock)
        self._api = self._heard

    @property
    def told(self) -> ClockReading | None:
        """The time of the API server in the last answer."""
        return self._heard.told

    def nodes(self, dra: frozenset[str] = frozenset()) -> list[SeenNode]:
        """Return every node, with the pods of autoscaler and monitoring on it; *dra* are the names of nodes whose GPUs
        a DRA driver serves."""
        hosts: dict[str, list[str]] = {}
        for raw in self._pods():
            pod = SeenPod(raw)
            if pod.hosts_us:
                hosts.setdefault(pod.node, []).append(pod.key)
        found = []
        for raw in self._wire.every("nodes", self._api.reads(NODES)):
            metadata = section(raw, "metadata")
            name = str(metadata.get("name"))
            node = node_from(raw, sorted(hosts.get(name, ())), dra=name in dra)
            found.append(SeenNode(node=node, created_at=moment(metadata.get("creationTimestamp"))))
        return found

    def pods(self) -> list[SurveyedPod]:
        """Return every living pod."""
        return [_pod(raw) for raw in self._pods()]

    def groups(self) -> frozenset[str]:
        """Return the API groups that the cluster serves."""
        answer = self._wire.ask("get", "apis", self._api.reads(GROUPS))
        return frozenset(str(group.get("name")) for group in entries(answer, "groups"))

    def namespaces(self) -> dict[str, Mapping[str, str]]:
        """Return the labels of every namespace by name."""
        found = self._wire.every("namespaces", self._api.reads(NAMESPACES))
        return {str(section(raw, "metadata").get("name")): words(section(raw, "metadata"), "labels") for raw in found}

    def quotas(self) -> list[Mapping[str, Any]]:
        """Return every ResourceQuota."""
        return self._wire.every("resourcequotas", self._api.reads(QUOTAS))

    def every(self, kind: ResourceKind) -> list[Mapping[str, Any]]:
        """Return every object of *kind* in the served version."""
        for version in kind.versions:
            try:
                return self._wire.every(kind.name, partial(self._api.reads(CUSTOM), kind.group, version, kind.plural))
            except WontWork as error:
                if error.code != NOT_FOUND:
                    raise
        raise WontWork(f"Kubernetes does not serve {kind.name}", code=NOT_FOUND)

    def _pods(self) -> Sequence[Mapping[str, Any]]:
        return self._wire.every("pods", self._api.reads(PODS), field_selector=LIVING)


def _pod(raw: Mapping[str, Any]) -> SurveyedPod:
    metadata, spec = section(raw, "metadata"), section(raw, "spec")
    said: list[str] = []
    for container in entries(spec, "containers"):
        said.append(str(container.get("image") or ""))
        for key in ("command", "args"):
            given = container.get(key)
            said += [str(word) for word in given] if isinstance(given, list) else []
    kind, _, owner = SeenPod(raw).controller.partition("/")
    return SurveyedPod(
        key=key_of(raw),
        namespace=str(metadata.get("namespace") or ""),
        labels=words(metadata, "labels"),
        node=str(spec.get("nodeName") or ""),
        words=tuple(said),
        gpus=SeenPod(raw).held,
        daemon=owner if kind == "DaemonSet" else "",
        shuts_down=IDLE_SHUTDOWN_ANNOTATION in words(metadata, "annotations"),
    )


def age(seen: SeenNode, now: datetime) -> timedelta | None:
    """Return the age of the node, None if unknown."""
    return None if seen.created_at is None else now - seen.created_at.astimezone(UTC)


MARK = "gpu-autoscaler.io/smoke-test"  # annotation with the run of the test that created the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """The state of the pod: its *phase* and *node*, whether it is unschedulable, and what the scheduler or a container
    *says* about that."""

    phase: str
    node: str = ""
    unschedulable: bool = False
    says: str = ""


class SmokeSurvey(ClusterSurvey):
    """A `ClusterSurvey` that can also create and delete one pod."""

    def create(self, namespace: str, manifest: Mapping[str, Any]) -> str:
        """Create the pod and return its uid. Raises TryLater and WontWork."""
        made = self._wire.ask("create", "pods", self._api.creates(PODS_OF), namespace, dict(manifest))
        return str(section(made, "metadata").get("uid"))

    def made(self, namespace: str, name: str, mark: str) -> str | None:
        """Return the uid of the pod with *mark*, for a creation without an answer. Raises TryLater."""
        try:
            raw = self._wire.ask("get", "pods", self._api.reads(POD), namespace, name)
        except WontWork:
            return None
        metadata = section(raw, "metadata")
        return str(metadata.get("uid")) if words(metadata, "annotations").get(MARK) == mark else None

    def state(self, namespace: str, name: str) -> PodState:
        """Return the state of the pod. Raises TryLater and WontWork (``http_404``: it is gone)."""
        raw = self._wire.ask("get", "pods", self._api.reads(POD), namespace, name)
        status = section(raw, "status")
        scheduled = next((c for c in entries(status, "conditions") if c.get("type") == "PodScheduled"), {})
        stuck = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
        waits = [section(section(c, "state"), "waiting") for c in entries(status, "containerStatuses")]
        ends = [section(section(c, "state"), "terminated") for c in entries(status, "containerStatuses")]
        said = [str(each.get("reason") or "") for each in (*waits, *ends)]
        return PodState(
            phase=str(status.get("phase") or ""),
            node=str(section(raw, "spec").get("nodeName") or ""),
            unschedulable=stuck,
            says=str(scheduled.get("message") or "") if stuck else ", ".join(filter(None, said)),
        )

    def delete(self, namespace: str, name: str, uid: str) -> None:
        """Delete the pod with *uid* if it still exists. Raises TryLater and WontWork."""
        options = {"preconditions": {"uid": uid}}
        try:
            self._wire.ask("delete", "pods", self._api.deletes(POD), namespace, name, options)
        except WontWork as error:
            if error.code != NOT_FOUND:
                raise
        except TryLater as error:
            if error.code != CONFLICT:
                raise
