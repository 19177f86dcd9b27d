"""What a step saw, and which pods hold the GPUs of which node in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.core.model.activity import Sample
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Node
from receiver.core.model.pods import Pod
from receiver.core.model.resources import gpus_of
from receiver.core.model.usage import EndedPod

# An instance that Civo's list leaves out may come back. While Kubernetes shows its pods, they hold it for that long.
LEFT_OUT = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSight:
    """What a step saw at *at*: every node life, the nodes of the configured pools, every GPU pod of the cluster.

    *samples* are by ``namespace/name`` of the pod, *ended* are pods that Kubernetes still shows after their end.
    """

    at: datetime
    lives: Sequence[NodeLife]
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    ended: Sequence[EndedPod] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A *pod* that holds *gpus* GPUs (slices and shares counted as such) of the node of *life*."""

    pod: Pod
    life: NodeLife
    gpus: float


def holders_in(seen: StepSight) -> dict[str, Holder]:
    """The pods that hold GPUs of a node that has a life, by uid."""
    known = {life.instance: life for life in seen.lives}
    found = {
        pod.uid: Holder(pod=pod, life=known[node.instance], gpus=gpus_of(pod.requests, node.labels))
        for node in seen.nodes if node.instance in known
        for pod in node.pods if pod.uid
    }  # fmt: skip
    found.update((holder.pod.uid, holder) for holder in _left_out(seen) if holder.pod.uid not in found)
    return found


def _left_out(seen: StepSight) -> Iterator[Holder]:
    """The pods that Kubernetes still shows on nodes that Civo has just ceased to list."""
    listed = {node.name for node in seen.nodes}
    gone = {
        life.name: life
        for life in seen.lives
        if life.gone_at is not None and seen.at - life.gone_at <= LEFT_OUT and life.name not in listed
    }
    for pod in seen.pods if gone else ():
        life = gone.get(pod.node or "")
        if life is not None and pod.uid:
            yield Holder(pod=pod, life=life, gpus=gpus_of(pod.requests, {}))
