"""Nominations: pods that the scheduler, or another system, has given a node before they are bound to it.

While volumes are attached or claims prepared, and while the victims of a preemption end, `status.nominatedNodeName`
names the node for minutes. Such a pod is a pod on that node: it fills it and keeps it. A nomination lapses where the
node is gone, where others fill it and none of them ends, and after a time that no healthy scheduler needs. Then the pod
is demand again, and its owner is told why.
"""

from collections.abc import Container
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.model import Node, PoolState, Stage
from receiver.core.model.pods import Nomination, Pod, PodPhase
from receiver.core.model.text import lasting, listed
from receiver.core.scaling.demand import take
from receiver.core.scaling.terminations import is_stuck

HOLDS_FOR = timedelta(minutes=15)  # the scheduler waits 10 minutes for volumes and devices, then tries again
LAPSES_AFTER = timedelta(minutes=2)  # on a node that cannot take the pod: the scheduler finds that out in moments


def lapsed(pod: Pod, reason: str) -> Pod:
    """Return *pod* as demand again."""
    assert pod.nomination is not None
    return replace(pod, phase=PodPhase.WAITING, node=None, nomination=replace(pod.nomination, lapsed=reason))


def believed(pod: Pod, nodes: Container[str], now: datetime) -> Pod:
    """Return *pod*: as demand where its nomination has lasted too long, or *nodes* lack its node."""
    nomination = pod.nomination
    if not pod.reserved or nomination is None:
        return pod
    age = now - nomination.since
    if age >= HOLDS_FOR:
        return lapsed(pod, f"it has not been bound to within {lasting(HOLDS_FOR)}")
    if nomination.node not in nodes and age >= LAPSES_AFTER:
        return lapsed(pod, "does not exist")
    return pod


def without_misplaced(state: PoolState, now: datetime) -> tuple[PoolState, tuple[Pod, ...]]:
    """Return *state* with nominated pods on those nodes alone that have room for them, and the pods that are demand
    again because others fill their node."""
    nodes = [n for n in state.nodes if any(pod.reserved for pod in n.pods)]
    if not nodes:  # as in almost every pool
        return state, ()
    again: list[Pod] = []
    new = {n.instance: _fitting(n, now, again) for n in nodes}
    return replace(state, nodes=tuple(new.get(n.instance, n) for n in state.nodes)), tuple(again)


def _fitting(node: Node, now: datetime, again: list[Pod]) -> Node:
    """Return *node* with the nominated pods that fit beside the bound ones; add to *again* those that no longer may."""
    bound = tuple(pod for pod in node.pods if not pod.reserved)
    # Room that ends is meant for them: they preempted what is Terminating there.
    ends = any(pod.times.leaves_at is not None and not is_stuck(pod, now) for pod in bound)
    free = dict(replace(node, pods=bound).free)
    nominated = sorted((p for p in node.pods if p.reserved), key=lambda p: (-p.priority, _since(p), p.key))
    valid_nominees: list[Pod] = []
    for pod in nominated:
        if node.stage is not Stage.USABLE and not node.was_usable:
            again.append(lapsed(pod, ""))  # it waits for this node as for any that is on its way
        elif ends or node.stage is not Stage.USABLE or take(free, pod.asks):
            valid_nominees.append(pod)
        elif pod.nomination is not None and now - pod.nomination.since >= LAPSES_AFTER:
            holders = listed([other.key for other in (*bound, *valid_nominees)], 3)
            again.append(lapsed(pod, f"is full: {holders or 'other work'} holds what it asks for"))
    return replace(node, pods=(*bound, *valid_nominees))


def _since(pod: Pod) -> datetime:
    return pod.nomination.since if pod.nomination is not None else pod.created_at


def in_words(nomination: Nomination) -> str:
    """``was nominated to node n1, which does not exist``; empty for one that has not lapsed."""
    return f"was nominated to node {nomination.node}, which {nomination.lapsed}" if nomination.lapsed else ""
