"""Terminating pods: when the room of one is free again, and when it no longer counts as work.

A pod that is Terminating holds its GPUs until its kubelet says that its containers have ended. Its `deletionTimestamp`
is the moment by which they should have: the request plus the grace period. So its room is about to be free where that
moment is nearer than a new node, and no node is bought for a successor. After a short patience the pod is stuck, by a
finalizer or a dead kubelet, and its room counts no more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.model import Node, PoolState, Stage
from receiver.core.model.pods import Pod

STUCK_AFTER = timedelta(minutes=2)  # volumes are unmounted and the object deleted after the containers have ended
NODE_TAKES = timedelta(minutes=4)  # where no node of the pool was watched; most take longer, so little is waited for
LEAST = timedelta(seconds=150)  # build, boot, driver and image of the fastest node


def node_takes(ready_in: timedelta | None) -> timedelta:
    """How long a new node of a pool takes until work can start on it: the usual time, or a cautious guess."""
    return max(LEAST, NODE_TAKES if ready_in is None else ready_in)


def comes_soon(at: datetime, takes: timedelta, now: datetime) -> bool:
    """True for room that is free *at* then: before a node that *takes* so long is there, and not overdue."""
    return at - now < takes and now <= at + STUCK_AFTER


def is_overdue(leaves_at: datetime | None, now: datetime) -> bool:
    """True where a pod should have been gone for a while: by *leaves_at*, None for one that is not Terminating."""
    return leaves_at is not None and now > leaves_at + STUCK_AFTER


def is_stuck(pod: Pod, now: datetime) -> bool:
    """True for a pod that should have been gone for a while."""
    return is_overdue(pod.times.leaves_at, now)


def leaves_soon(pod: Pod, takes: timedelta, now: datetime) -> bool:
    """True for a pod that will be gone before a node that *takes* so long is there. A DaemonSet's pod leaves its room
    to its successor alone."""
    at = pod.times.leaves_at
    return at is not None and not pod.daemon and comes_soon(at, takes, now)


def leaving_soon(node: Node, state: PoolState, now: datetime) -> tuple[Pod, ...]:
    """Return the pods of *node*, one of the pool of *state*, whose room is about to be free for what waits. A node that
    is cordoned is given to no work: what was evicted there needs room elsewhere."""
    if node.stage is not Stage.USABLE or node.cordon.by is not None:
        return ()
    leaving = [pod for pod in node.pods if pod.times.leaves_at is not None]
    if not leaving:  # as on almost every node
        return ()
    takes = node_takes(state.startup.usual)
    return tuple(pod for pod in leaving if leaves_soon(pod, takes, now))


def is_lost(node: Node) -> bool:
    """True for a node whose kubelet does not answer, or whose Node object is gone."""
    return not node.ready and node.stage in (Stage.BOOTING, Stage.BROKEN)


def working(node: Node, pods: Sequence[Pod], now: datetime) -> tuple[Pod, ...]:
    """Return those of *pods*, which are on *node*, that count as work. On a lost node a stuck pod is none: its
    containers should have ended, and no kubelet will say so. On a Ready node it may still hold GPUs."""
    return tuple(pod for pod in pods if not is_stuck(pod, now)) if is_lost(node) else tuple(pods)


def is_abandoned(node: Node, now: datetime) -> bool:
    """True for a lost node of which all pods are stuck."""
    return node.busy and not working(node, node.pods, now)


def without_abandoned(state: PoolState, now: datetime) -> PoolState:
    """Return *state* with abandoned nodes that run nothing: they go as other lost nodes do."""
    if not any(is_abandoned(node, now) for node in state.nodes):
        return state
    return replace(state, nodes=tuple(replace(n, pods=()) if is_abandoned(n, now) else n for n in state.nodes))


def changes_at(node: Node) -> Iterator[datetime]:
    """Yield the moments from which a pod of *node* is stuck: what waits for its room needs another node then."""
    for pod in node.pods:
        if pod.times.leaves_at is not None:
            yield pod.times.leaves_at + STUCK_AFTER + timedelta(microseconds=1)
