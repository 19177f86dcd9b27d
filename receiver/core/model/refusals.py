"""What the scheduler says of pods that it does not place, and the requests that it refuses although a node has room."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

_OF_NODES = re.compile(r"\s*\d+/(\d+) nodes are (?:un)?available: (.*)", re.DOTALL)
_PREEMPTION = re.compile(r"\.?\s+preemption: .*", re.DOTALL)
_NEXT_REASON = re.compile(r", (?=\d+ )")
_COUNTED = re.compile(r"(\d+) (.+)", re.DOTALL)
_VARIES = re.compile(r'"[^"]*"|\d+')  # names of claims and nodes, numbers
NO_NODES = "no nodes available to schedule pods"  # kube-scheduler of an empty cluster: it judged nothing
LONGEST_OBSTACLE = 120  # characters


def obstacles(message: str) -> frozenset[str]:
    """Return the reasons that kube-scheduler's *message* gives for every node at once, without names and numbers.

    ``0/4 nodes are available: 4 Insufficient hugepages-2Mi, 3 Insufficient nvidia.com/gpu.`` gives the first;
    ``0/4 nodes are available: persistentvolumeclaim "data" not found.`` counts no nodes at all. Such a reason does not
    depend on which nodes exist, so it goes only when the obstacle goes. A message of another form is one reason.
    """
    match = _OF_NODES.match(message)
    if match is None:
        return frozenset([_without_names(message)]) if is_judgement(message) else frozenset()
    parts = [_COUNTED.fullmatch(part) or part for part in _NEXT_REASON.split(_PREEMPTION.sub("", match[2]))]
    of_no_node = [part for part in parts if isinstance(part, str)]
    of_all = [part[2] for part in parts if not isinstance(part, str) and part[1] == match[1]]
    return frozenset(filter(None, map(_without_names, (*of_no_node, *of_all))))


def is_judgement(message: str) -> bool:
    """True where the scheduler has tried the pod on the nodes there are."""
    return bool(message.strip()) and NO_NODES not in message


def is_of_no_node(message: str) -> bool:
    """True where kube-scheduler did not even look at nodes: a claim that does not exist or is not bound."""
    match = _OF_NODES.match(message)
    return match is not None and bool(match[2]) and _COUNTED.match(match[2]) is None


def _without_names(reason: str) -> str:
    return _VARIES.sub("#", reason.strip().rstrip("."))[:LONGEST_OBSTACLE]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRefusal:
    """One request (pods of one owner and shape, or a gang) that usable nodes have room for, and that the scheduler does
    not place there. Before *refused_at* it is no refusal yet, only evidence since *beside_since*."""

    request: str  # `core.scaling.witness.request_of`
    configured: str  # fingerprint of the pools: another configuration is another question
    seen_at: datetime  # when a step last saw a pod of it waiting
    beside_since: datetime | None = None  # since when, in an unbroken row of steps, usable nodes have had room for it
    refused_at: datetime | None = None
    until: datetime | None = None  # no node is bought or kept for it before; after that, one pod is on trial
    tries: int = 0  # refusals in a row
    reworded: int = 0  # of these in a row, those that followed changed words of the scheduler
    empty: bool = False  # a node without GPU pods was among those that had room: another like it does not help
    pods: tuple[str, ...] = ()  # keys of the workloads that stood beside the room, the first ones
    others_start: bool = False  # other pods of the request were bound since: only *pods* are refused
    obstacles: tuple[str, ...] = ()  # `obstacles` of all of them; empty where one names none
    says: str = ""  # the scheduler's words
    node: str = ""  # the name of a node that had room
    paid: timedelta = timedelta(0)  # begun paid time of nodes that stood idle for it
    usd: Decimal | None = Decimal(0)  # the price of that; None: not known

    def holds(self, now: datetime) -> bool:
        """True while its time has not run out."""
        return self.until is not None and now < self.until

    def paused(self, now: datetime) -> "SchedulerRefusal":
        """The same after a time in which nothing could be seen: it does not count."""
        if self.beside_since is None:
            return self
        gap = max(now - self.seen_at, timedelta(0))
        return replace(self, beside_since=min(self.beside_since + gap, now), seen_at=now)


def refused_only(refusals: Iterable[SchedulerRefusal]) -> tuple[SchedulerRefusal, ...]:
    """Those of *refusals* that the scheduler has refused."""
    return tuple(each for each in refusals if each.refused_at is not None)
