"""What needs a person about single pods: those that stay Terminating, and nominations that have lapsed."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from receiver.core.model.model import Node, PoolState
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Pool
from receiver.core.model.text import lasting, listed
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Concern, Seen
from receiver.core.scaling.terminations import is_abandoned, is_stuck

NAMED = 3  # pods in one sentence


def stuck_pods(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """Pods that stay Terminating: on a Ready node they keep the node, on a lost one they are no work any more."""
    for node in state.living:
        stuck = [pod for pod in node.pods if is_stuck(pod, seen.now) and not pod.daemon]
        if not stuck:
            continue
        names = listed([pod.key for pod in stuck], NAMED)
        since = min(pod.times.leaves_at for pod in stuck if pod.times.leaves_at is not None)
        yield Concern(
            kind=Cause.STUCK_POD,
            what=f"{names} on {node.name} {'stays' if len(stuck) == 1 else 'stay'} Terminating",
            why=f"its grace period ended {_when(since, seen.now)}, and it is still there:"
            f" {'a finalizer or a process holds it' if node.ready else 'its kubelet does not answer'}",
            whose=wording.whose(wording.asked_by(stuck, seen.policy)),
            cost=wording.an_hour(pool, 1),
            doing=_doing(node, pool, seen.now),
            todo=_todo(stuck[0], node),
            topic=f"stuck pod:{node.instance}",
            key=",".join(sorted(pod.uid for pod in stuck)),
        )


def _when(since: datetime, now: datetime) -> str:
    """Without the moment where that is not known."""
    return "long ago" if since.year < now.year - 1 else f"at {wording.moment(since, now)}"


def _doing(node: Node, pool: Pool, now: datetime) -> str:
    room = "work that waits gets another node"
    if is_abandoned(node, now):
        return f"it counts as ended; the node is deleted once it has been lost for {lasting(pool.provision_timeout)}"
    return f"its GPUs count as in use: {room}, and this node is kept while the pod is bound to it"


def _todo(pod: Pod, node: Node) -> str:
    look = f"kubectl get pod -n {pod.namespace} {pod.name} -o yaml (metadata.finalizers)"
    remedy = ". Remove a finalizer whose controller is gone" if node.ready else ""
    return f"Look at: {look}; kubectl describe node {node.name}{remedy}"


def lapsed_nominations(seen: Seen) -> Iterator[Concern]:
    """Pods that were nominated for a node that they cannot get, by node and reason."""
    groups: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in seen.facts.waiting:
        if pod.nomination is not None and pod.nomination.lapsed:
            groups[pod.nomination.node, pod.nomination.lapsed].append(pod)
    for (node, reason), pods in groups.items():
        names = listed(sorted(pod.key for pod in pods), NAMED)
        since = min(pod.nomination.since for pod in pods if pod.nomination is not None)
        yield Concern(
            kind=Cause.NOMINATION,
            what=f"{names} {'waits' if len(pods) == 1 else 'wait'}, nominated to node {node}",
            why=f"since {wording.moment(since, seen.now)} at the latest status.nominatedNodeName names node {node},"
            f" which {reason}",
            whose=wording.whose(wording.asked_by(pods, seen.policy)),
            doing="the nomination counts no longer: the work gets room as any other that waits",
            todo=f"Look at: kubectl describe pod -n {pods[0].namespace} {pods[0].name} (volumes, claims); the log of"
            " the scheduler, or of the system that nominates",
            topic=f"nomination:{node}",
            key=f"{reason}:{since:%Y-%m-%dT%H}",
        )
