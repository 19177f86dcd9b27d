"""Which busy nodes could be emptied: their pods consented to be moved and fit into what is free elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from receiver.core.model.model import Node, Stage
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy
from receiver.core.scaling.capacity import Bin, Tally
from receiver.core.scaling.demand import refusal, take, tolerates_cordon

KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A node that could take pods, or be emptied."""

    tally: Tally
    node: Node
    room: Bin


def consents(pod: Pod) -> bool:
    """True when moving *pod* is agreed on and loses nothing: its owner starts it again, elsewhere, and it is part of no
    gang."""
    agreed = pod.evictable and not pod.protected and not pod.daemon and pod.gang is None and bool(pod.owner)
    return agreed and not tolerates_cordon(pod)


def may_not_return(pod: Pod, policy: Policy) -> bool:
    """True for a pod that would be kept out if it were started again: while a hold lasts it must not be moved."""
    if policy.budget is None:
        return False
    kept = policy.budget.keep_out
    in_namespace = pod.namespace in kept.namespaces and pod.priority_class not in policy.budget.passing
    return in_namespace or (bool(kept.cluster_queues) and KUEUE_QUEUE_LABEL in pod.labels)


def movable(tallies: Iterable[Tally], now: datetime) -> frozenset[str]:
    """Return the instances that could be emptied, once waiting work has its room; call it last.

    The emptiest go first. Pods move to nodes that run something, so that those stay, and no node that takes pods is
    emptied itself. One that a workload keeps at *now* is not emptied either.
    """
    places = [place for tally in tallies for place in _places(tally)]
    candidates = [p for p in places if p.node.pods and not p.room.used and all(consents(x) for x in p.node.pods)]
    candidates = [p for p in candidates if not p.node.kept(now)]
    if not candidates:
        return frozenset()
    emptied: set[str] = set()
    filled: set[str] = set()
    for place in sorted(candidates, key=lambda p: (sum(x.gpus for x in p.node.pods), p.node.name)):
        if place.node.instance in filled:
            continue
        others = [
            p
            for p in places
            if p is not place and p.node.instance not in emptied and p.node.cordoned_by is None
            and (p.node.busy or p.room.used)
        ]  # fmt: skip
        took = _pack([pod for pod in place.node.pods if not pod.terminating], others)
        if took is not None:
            emptied.add(place.node.instance)
            filled |= took
    return frozenset(emptied)


def _places(tally: Tally) -> Iterable[_Place]:
    nodes = {n.instance: n for n in tally.state.of(Stage.USABLE)}
    for room in tally.bins:
        if room.usable and room.instance in nodes:
            yield _Place(tally=tally, node=nodes[room.instance], room=room)


def _pack(pods: Sequence[Pod], places: Sequence[_Place]) -> set[str] | None:
    """Put all *pods* into *places* and return the instances that took one, or None and leave all as it was."""
    before = [dict(p.room.free) for p in places]
    took: set[str] = set()
    for pod in sorted(pods, key=lambda p: (-p.gpus, p.key)):
        place = next((p for p in places if _fits(pod, p.tally) and take(p.room.free, pod.asks)), None)
        if place is None:
            for p, free in zip(places, before, strict=True):
                p.room.free = free
            return None
        took.add(place.node.instance)
    return took


def _fits(pod: Pod, tally: Tally) -> bool:
    return refusal(pod, tally.pool, tally.state) is None
