"""Undoes the changes of a server in mode act to nodes, namespaces and queues: before mode observe or an uninstall.

It only touches objects with the autoscaler's annotation, label or taint.
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
    "whether the server is stopped or in mode observe: in mode act it would make the changes again",
    ("warn", "fail"),
    "stop the server (`kubectl -n gpu-autoscaler scale deploy/gpu-autoscaler --replicas=0`), or set `mode: observe` "
    "and restart it; then run --release again",
)
UNDONE = Check(
    "release.undone",
    "each of the autoscaler's cordons, soft taints, quotas and held queues, as it is undone",
    ("fail", "skip"),
    "fix the reason it gives: a missing right (docs/operations.md, Rights in the cluster), or an object that changed "
    "meanwhile; then run --release again",
)
REACH_IT = (
    "`kubectl -n gpu-autoscaler scale deploy/gpu-autoscaler --replicas=0`; or, in mode observe, make it reachable: "
    "`kubectl -n gpu-autoscaler port-forward svc/gpu-autoscaler 8080` and GPU_AUTOSCALER_URL=http://127.0.0.1:8080"
)
CHECKS = (SERVER, UNDONE)


class LeftoverKind(StrEnum):
    """The kind of a change; the value names the changed object."""

    CORDON = "cordoned node"
    STOP = "closed node"
    TAINTS = "node"
    QUOTA = "namespace"
    QUEUE = "ClusterQueue"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A change of the autoscaler: its *kind*, the *name* of the object, and a description."""

    kind: LeftoverKind
    name: str
    said: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}: {self.said}"


def server(installation: Installation) -> Finding:
    """Judge whether the server is stopped or in mode observe."""
    with closing(opened_server(installation)) as asked:
        try:
            _, health = asked.probe("/healthz")
        except TryLater as error:
            return _unreached(installation, str(error))
    if health.get("mode") == Mode.OBSERVE.value:
        return SERVER.passed("the server runs in mode observe")
    return SERVER.failed(f"the server at {asked.shown} runs in mode {health.get('mode')}")


def _unreached(installation: Installation, why: str) -> Finding:
    """Judge a server that does not answer: a running pod may be it, in mode act."""
    try:
        with closing(kubernetes.opened(installation)) as cluster:
            ours = [pod.key for pod in cluster.pods() if pod.is_ours]
    except (TryLater, WontWork):
        ours = []
    if ours:
        return SERVER.failed(f"{why}; {few(ours)} runs in the cluster, and its mode is unknown", REACH_IT)
    said = f"{why}: assuming that it and every other replica are stopped"
    return SERVER.warned(said, "make sure that no server in mode act runs anywhere before you continue")


def opened(installation: Installation) -> KubernetesCluster:
    """Return the cluster for writing. Raises WontWork without credentials."""
    return connect(installation.settings.environment.kubeconfig, timeouts=installation.timeouts)


def marks(cluster: KubernetesCluster) -> tuple[list[Leftover], str]:
    """Return all changes, nodes first, and why quotas and queues could not be read (empty: they could).

    Raises TryLater, and WontWork if nodes cannot be read.
    """
    found = [mark for node in cluster.look().nodes for mark in _of(node)]
    try:
        held = cluster.held_places(queues=True)
    except WontWork as error:
        return found, str(error)
    found += [
        Leftover(LeftoverKind.QUOTA, name, "a quota of the autoscaler keeps GPU pods out") for name in held.namespaces
    ]
    found += [Leftover(LeftoverKind.QUEUE, name, "held by the autoscaler") for name in held.cluster_queues]
    return found, ""


def _of(node: ClusterNode) -> Iterator[Leftover]:
    for kind, annotation in ((LeftoverKind.CORDON, CORDON_ANNOTATION), (LeftoverKind.STOP, STOP_ANNOTATION)):
        if annotation in node.annotations:
            yield Leftover(kind, node.name, f"{annotation}={node.annotations[annotation]}")
    if worn := [taint_text(taint) for taint in node.taints if taint in SOFT_TAINTS]:
        yield Leftover(LeftoverKind.TAINTS, node.name, f"soft taints {', '.join(worn)}")


def undone(cluster: KubernetesCluster, found: Sequence[Leftover], unseen: str = "") -> Iterator[Finding]:
    """Undo each of *found*, even after a failure. *unseen* is the reason why quotas and queues could not be read."""
    if unseen:
        yield UNDONE.failed(f"namespaces and queues could not be read: {unseen}")
    if not found:
        yield UNDONE.skipped(f"no changes of the autoscaler on nodes{'' if unseen else ', namespaces and queues'}")
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
