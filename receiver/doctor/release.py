"""Undoes the changes of a server in mode act to nodes, namespaces and queues: before mode observe or an uninstall.

It only touches objects with the autoscaler's annotation, label or taint, and none of another installation's.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.survey import ClusterSurvey
from receiver.config import Mode
from receiver.core.model.policy import POOL_LABEL
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.doctor.checks import Check, Finding, Installation, few, taint_text
from receiver.doctor.kubernetes import opened
from receiver.doctor.server import running_mode
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION, Did, Receipt, TryLater, WontWork

SERVER = Check(
    "release.server",
    "whether the server is stopped or in mode observe: in mode act it would make the changes again",
    "stop the server (`kubectl -n gpu-autoscaler scale deploy/gpu-autoscaler --replicas=0`), or set `mode: observe`; "
    "then run `doctor release` again",
)
UNDONE = Check(
    "release.undone",
    "whether each of the autoscaler's cordons, soft taints, quotas and held queues was undone",
    "fix the cause it names: a missing permission (docs/operations.md, Rights in the cluster), or an object that was "
    "changed meanwhile; then run `doctor release` again",
)
REACH_IT = (
    "`kubectl -n gpu-autoscaler scale deploy/gpu-autoscaler --replicas=0`; or, in mode observe, make it reachable: "
    "`kubectl -n gpu-autoscaler port-forward svc/gpu-autoscaler 8080` and GPU_AUTOSCALER_URL=http://127.0.0.1:8080"
)
CHECKS = (SERVER, UNDONE)
UNCORDONS: tuple[tuple[str, str, Callable[[KubernetesCluster, str], Receipt]], ...] = (
    ("cordoned for removal", CORDON_ANNOTATION, KubernetesCluster.uncordon),
    ("cordoned for the budget", STOP_ANNOTATION, KubernetesCluster.uncordon_for_budget),
)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A change of the autoscaler, and what undoes it."""

    said: str
    undo: Callable[[], Receipt]


def server(installation: Installation) -> Finding:
    """Judge whether the server is stopped or in mode observe; a running pod that does not answer may be in mode act."""
    try:
        mode = running_mode(installation)
        return SERVER.failed_if(
            mode != Mode.OBSERVE.value, f"the server runs in mode {mode}", "the server runs in mode observe"
        )
    except TryLater as error:
        reason = str(error)
    try:
        with closing(opened(installation)) as cluster:
            server_pods = [pod.key for pod in cluster.pods() if pod.is_ours]
    except (TryLater, WontWork):
        server_pods = []
    if server_pods:
        return SERVER.failed(f"{reason}; {few(server_pods)} runs in the cluster, and its mode is unknown", REACH_IT)
    problem = f"{reason}: assuming that every replica is stopped"
    return SERVER.warned(problem, "make sure that no server in mode act runs anywhere before you continue")


def marks(cluster: ClusterSurvey) -> tuple[list[Leftover], str]:
    """Return all changes, nodes first, and why quotas and queues could not be read (empty: they could).

    Raises TryLater, and WontWork if nodes cannot be read.
    """
    leftovers = []
    foreign_pools = {pool.id for installation in cluster.others() for pool in installation.pools}
    for node in cluster.nodes():
        if node.labels.get(POOL_LABEL) in foreign_pools:
            continue  # another installation marks it
        for word, annotation, undo in UNCORDONS:
            if annotation in node.annotations:
                description = f"node {node.name}: {word}, {annotation}={node.annotations[annotation]}"
                leftovers.append(Leftover(description, partial(undo, cluster, node.name)))
        if worn := [taint_text(taint) for taint in node.taints if taint in SOFT_TAINTS]:
            description = f"node {node.name}: soft taints {', '.join(worn)}"
            leftovers.append(Leftover(description, partial(cluster.set_soft_taints, node.name, ())))
    try:
        places = cluster.held_places(queues=True)
    except WontWork as error:
        return leftovers, str(error)
    quota = "a quota of the autoscaler blocks GPU pods"
    leftovers += [Leftover(f"namespace {n}: {quota}", partial(cluster.release_namespace, n)) for n in places.namespaces]
    queues = places.cluster_queues
    leftovers += [
        Leftover(f"ClusterQueue {n}: held by the autoscaler", partial(cluster.release_queue, n)) for n in queues
    ]
    return leftovers, ""


def undone(leftovers: Sequence[Leftover], unseen: str = "") -> Iterator[Finding]:
    """Undo each of *leftovers*, even after a failure. *unseen* says why quotas and queues could not be read."""
    if unseen:
        yield UNDONE.failed(f"namespaces and queues could not be read: {unseen}")
    if not leftovers:
        yield UNDONE.skipped(f"no changes of the autoscaler on nodes{'' if unseen else ', namespaces and queues'}")
    for mark in leftovers:
        try:
            receipt = mark.undo()
        except (TryLater, WontWork) as error:
            yield UNDONE.failed(f"{mark.said}: {error}")
        else:
            judge = UNDONE.failed if receipt.did is Did.DIFFERS else UNDONE.passed
            yield judge(receipt.sentence)
