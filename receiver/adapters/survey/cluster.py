"""Kubernetes for the doctor: nodes, pods of every kind, rights, policies; the smoke test's pod.

`ClusterSurvey` only reads and sends SelfSubjectAccessReviews, which are not stored. `SmokeSurvey` deletes exactly the
pod that it created.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

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
from receiver.ports import ClusterNode, TryLater, WontWork

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
        said = [word for container in containers for part in ("command", "args") for word in container.get(part) or ()]
        self.image = str(containers[0].get("image") or "") if containers else ""
        self.words = " ".join(map(str, said))

    @property
    def is_ours(self) -> bool:
        """Whether it is a pod of the autoscaler."""
        return self.labels.get(HOST_LABEL) == OURS


class ClusterSurvey(KubernetesCluster):
    """What the server does not read; every call may raise TryLater and WontWork (``http_403``: forbidden,
    ``http_404``: not installed)."""

    def nodes(self, dra: frozenset[str] = frozenset()) -> list[ClusterNode]:
        """Return every node; *dra* are the names of those whose GPUs a DRA driver serves."""
        found = map(node_from, self._wire.every("nodes", NODES))
        return [replace(node, dra=True) if node.name in dra else node for node in found]

    def pods(self) -> list[SurveyedPod]:
        """Return every living pod."""
        return [SurveyedPod(raw) for raw in self._wire.every("pods", PODS, field_selector=LIVING)]

    def groups(self) -> frozenset[str]:
        """Return the API groups that the cluster serves."""
        answer = self._wire.ask("get", "apis", "/apis")
        return frozenset(str(group.get("name")) for group in entries(answer, "groups"))

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
        made = self._wire.ask("create", "pods", PODS_OF, namespace, dict(manifest))
        return str(section(made, "metadata").get("uid"))

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
