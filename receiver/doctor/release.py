"""Undoing what a server in mode act left on nodes, namespaces and queues: before a switch to observe, or for good.

Promises to touch only what carries our annotation, label or taint.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.config import Mode
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.doctor import kubernetes
from receiver.doctor.checks import Check, Finding, Installation, few, taint_text
from receiver.doctor.server import opened as opened_server
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION, ClusterNode, Did, Receipt, TryLater, WontWork

SERVER = Check(
    "release.server",
    "whether the server is stopped or in mode observe: one in mode act would do everything again",
    ("warn", "fail"),
    "stop the server (`kubectl -n gpu-autoscaler scale deploy/gpu-autoscaler --replicas=0`), or set `mode: observe` "
    "and restart it; then release",
)
UNDONE = Check(
    "release.undone",
    "each cordon, soft taint, quota and held queue of ours, as it is undone",
    ("fail", "skip"),
    "see what it says: a right that is missing (docs/operations.md, Rights in the cluster), or an object that changed "
    "meanwhile; then release again",
)
REACH_IT = (
    "`kubectl -n gpu-autoscaler scale deploy/gpu-autoscaler --replicas=0`; or, where it observes, let it be asked: "
    "`kubectl -n gpu-autoscaler port-forward svc/gpu-autoscaler 8080` and GPU_AUTOSCALER_URL=http://127.0.0.1:8080"
)
CHECKS = (SERVER, UNDONE)


class LeftoverKind(StrEnum):
    """What we leave somewhere; the value is what carries it."""

    CORDON = "cordoned node"
    STOP = "closed node"
    TAINTS = "node"
    QUOTA = "namespace"
    QUEUE = "ClusterQueue"


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something of ours: what *kind*, on which object, and what it says."""

    kind: LeftoverKind
    name: str
    said: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}: {self.said}"


def server(installation: Installation) -> Finding:
    """Judge whether the server may be taken for one that will not do it all again."""
    with closing(opened_server(installation)) as asked:
        try:
            _, health = asked.probe("/healthz")
        except TryLater as error:
            return _unreached(installation, str(error))
    if health.get("mode") == Mode.OBSERVE.value:
        return SERVER.passed("the server runs in mode observe")
    return SERVER.failed(f"the server at {asked.shown} runs in mode {health.get('mode')}")


def _unreached(installation: Installation, why: str) -> Finding:
    """Judge a server that does not answer: a pod of ours that lives may be it, and in mode act."""
    try:
        with closing(kubernetes.opened(installation)) as cluster:
            ours = [pod.key for pod in cluster.pods() if pod.is_ours]
    except (TryLater, WontWork):
        ours = []
    if ours:
        return SERVER.failed(f"{why}; {few(ours)} lives in the cluster, and in which mode is not known", REACH_IT)
    said = f"{why}: taken for stopped, and so must every other replica be"
    return SERVER.warned(said, "see that no server in mode act runs anywhere before you go on")


def opened(installation: Installation) -> KubernetesCluster:
    """Return the cluster to change. Raises WontWork without credentials."""
    return connect(installation.settings.environment.kubeconfig, timeouts=installation.timeouts)


def marks(cluster: KubernetesCluster) -> tuple[list[Leftover], str]:
    """Return everything of ours, nodes first, and why quotas and queues could not be seen (empty: they could).

    Raises TryLater, and WontWork where nodes may not be seen.
    """
    found = [mark for node in cluster.look().nodes for mark in _of(node)]
    try:
        held = cluster.held_places(queues=True)
    except WontWork as error:
        return found, str(error)
    found += [Leftover(LeftoverKind.QUOTA, name, "a quota of ours keeps GPU pods out") for name in held.namespaces]
    found += [Leftover(LeftoverKind.QUEUE, name, "held by us") for name in held.cluster_queues]
    return found, ""


def _of(node: ClusterNode) -> Iterator[Leftover]:
    for kind, annotation in ((LeftoverKind.CORDON, CORDON_ANNOTATION), (LeftoverKind.STOP, STOP_ANNOTATION)):
        if annotation in node.annotations:
            yield Leftover(kind, node.name, f"{annotation}={node.annotations[annotation]}")
    if worn := [taint_text(taint) for taint in node.taints if taint in SOFT_TAINTS]:
        yield Leftover(LeftoverKind.TAINTS, node.name, f"soft taints {', '.join(worn)}")


def undone(cluster: KubernetesCluster, found: Sequence[Leftover], unseen: str = "") -> Iterator[Finding]:
    """Undo each of *found*; one that fails keeps no other. *unseen* says why quotas and queues could not be seen."""
    if unseen:
        yield UNDONE.failed(f"what is left on namespaces and queues could not be seen: {unseen}")
    if not found:
        yield UNDONE.skipped(f"nothing of ours is on nodes{'' if unseen else ', namespaces and queues'}")
    for mark in found:
        try:
            receipt = _undo(cluster, mark)
        except (TryLater, WontWork) as error:
            yield UNDONE.failed(f"{mark}: {error}")
        else:
            done = receipt.did is not Did.DIFFERS
            yield UNDONE.passed(receipt.sentence) if done else UNDONE.failed(receipt.sentence)


def _undo(cluster: KubernetesCluster, mark: Leftover) -> Receipt:
    match mark.kind:
        case LeftoverKind.CORDON:
            return cluster.uncordon(mark.name)
        case LeftoverKind.STOP:
            return cluster.uncordon_for_budget(mark.name)
        case LeftoverKind.TAINTS:
            return cluster.set_soft_taints(mark.name, ())
        case LeftoverKind.QUOTA:
            return cluster.release_namespace(mark.name)
        case LeftoverKind.QUEUE:
            return cluster.release_queue(mark.name)
