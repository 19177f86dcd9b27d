"""The scheduler: it binds waiting pods to nodes, gangs as a whole or not at all.

Taints, labels and messages follow the Kubernetes documentation, independently of the product's own matching, so that
the two check each other. Volumes, preemption, pod affinity and topology spread are not modelled.
"""

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from receiver.core.model.pods import Requirement, Toleration
from receiver.core.model.policy import Taint
from receiver.replay.world.cluster import Agenda, ClusterObjects, Key
from receiver.replay.world.objects import Packing, WorldNode, WorldPod


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that excludes a pod with *tolerations*, or None."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(_tolerates(t, taint) for t in tolerations):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if not toleration.key:
        return False
    if toleration.operator in ("Gt", "Lt"):
        written = (str(_integer(text)) == text for text in (toleration.value, taint.value))
        return all(written) and _compares(taint.value, toleration.operator, toleration.value)
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def _integer(text: str) -> int | None:
    """What Go's ParseInt makes of *text* (base 10, 64 bits)."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 63:
        return None
    return number if -(2**63) <= (number := int(text)) <= 2**63 - 1 else None


def _compares(text: str, operator: str, bound: str) -> bool:
    number, limit = _integer(text), _integer(bound)
    if number is None or limit is None:
        return False
    return number > limit if operator == "Gt" else limit > number


def selects(
    labels: Mapping[str, str], node_selector: Mapping[str, str], affinity: tuple[tuple[Requirement, ...], ...]
) -> bool:
    """True when *labels* satisfy the selector and one of the affinity's alternatives."""
    if any(labels.get(k) != v for k, v in node_selector.items()):
        return False
    return not affinity or any(term and all(_holds(r, labels) for r in term) for term in affinity)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    have = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return have is not None and have in requirement.values
        case "NotIn":
            return have is None or have not in requirement.values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt":
            return have is not None and _compares(have, requirement.operator, *requirement.values)
    raise ValueError(f"unknown operator {requirement.operator!r}")


Order = tuple[int, datetime, int]  # lower priority value first, then age, then arrival
Gang = tuple[str, str]
Taken = dict[str, dict[str, int]]
UPDATE_AGAIN = timedelta(seconds=10)  # kube-scheduler's longest back-off


class WaitingLine:
    """Waiting pods in groups with equal requests: when the first of a group fits nowhere, none of the group does."""

    def __init__(self) -> None:
        self._orders: dict[Key, Order] = {}
        self.group_of: dict[Key, Hashable] = {}
        self._groups: dict[Hashable, list[tuple[Order, Key]]] = {}
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._orders)

    def join(self, key: Key, group: Hashable, priority: int, since: datetime) -> None:
        """Add *key* to *group*, behind older pods of the same priority."""
        self._numbers += 1
        order = (-priority, since, self._numbers)
        self._orders[key] = order
        self.group_of[key] = group
        heapq.heappush(self._groups.setdefault(group, []), (order, key))

    def leave(self, key: Key) -> None:
        self._orders.pop(key, None)
        group = self.group_of.pop(key, None)
        if group is not None:
            self._first(group)

    def serve(self, groups: set[Hashable] | None, place: Callable[[Key], bool]) -> None:
        """Offer pods to *place* in order, of each of *groups* (None: all) until one is not placed. *place* removes
        placed pods from the line."""
        chosen = self._groups if groups is None else groups
        heads = [head for group in list(chosen) if (head := self._first(group)) is not None]
        heapq.heapify(heads)
        while heads:
            _, key = heapq.heappop(heads)
            group = self.group_of[key]
            if place(key):
                head = self._first(group)
                if head is not None:
                    heapq.heappush(heads, head)

    def _first(self, group: Hashable) -> tuple[Order, Key] | None:
        """Return the group's first waiting pod, dropping those that left, and the group when it is empty."""
        line = self._groups.get(group)
        while line:
            order, key = line[0]
            if self._orders.get(key) == order:
                return line[0]
            heapq.heappop(line)
        self._groups.pop(group, None)
        return None


class Wish(NamedTuple):
    """The requirements of a pod, each as a number: equal numbers mean equal requirements."""

    kind: int  # all that decides whether it fits
    place: int  # the part about labels and taints, and preferences


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The *node* that a pod fits on."""

    node: str


class Scheduler:
    """Tries waiting pods by priority, then age. A pass runs once per moment with a change. Pods that failed are tried
    again when a node may have room for them; their messages are then updated, at most once per `UPDATE_AGAIN`."""

    def __init__(
        self,
        cluster: ClusterObjects,
        agenda: Agenda,
        bind: Callable[[WorldPod, str], None],
        packing: Packing,
    ) -> None:
        self._cluster = cluster
        self._agenda = agenda
        self._bind = bind
        self._packing = packing
        self._line = WaitingLine()
        self._fresh: dict[Key, None] = {}  # without a message so far
        self._numbers: dict[Hashable, int] = {}
        self._wishes: dict[Key, Wish] = {}
        self._open: dict[str, None] = {}  # Ready nodes with a free GPU
        self._judged: dict[str, dict[int, tuple[int, int] | None]] = {}  # by node and place
        self._gangs: dict[Gang, list[tuple[int, int, Key]]] = {}  # waiting members, largest first
        self._started_gangs: set[Gang] = set()
        self._enqueued = 0
        self._room_came = False
        self._pass_due = False
        self._update_at = agenda.now  # the earliest next update of messages
        self._update_due = False

    def enqueue(self, pod: WorldPod) -> None:
        place = (tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations)
        asks = (tuple(sorted(pod.asks.items())), place, self._of_its_own(pod))
        self._wishes[pod.key] = wish = Wish(
            kind=self._numbers.setdefault(asks, len(self._numbers)),
            place=self._numbers.setdefault((place, pod.preferred), len(self._numbers)),
        )
        self._fresh[pod.key] = None
        gang = _gang_of(pod)
        if gang is not None:
            self._enqueued += 1
            insort(self._gangs.setdefault(gang, []), (-pod.gpus, self._enqueued, pod.key))
            if pod.group:
                self._fresh.update((key, None) for _, _, key in self._gangs[gang])
        self._line.join(pod.key, gang or wish.kind, pod.priority, pod.created_at)
        self._ask_for_pass()

    def _of_its_own(self, pod: WorldPod) -> Hashable:  # noqa: ARG002
        """Return what sets *pod* apart from others that ask for the same."""
        return None

    def forget(self, pod: WorldPod) -> None:
        self._line.leave(pod.key)
        self._wishes.pop(pod.key, None)
        self._fresh.pop(pod.key, None)
        gang = _gang_of(pod)
        if gang is not None and gang in self._gangs:
            self._gangs[gang] = [member for member in self._gangs[gang] if member[2] != pod.key]
            if not self._gangs[gang]:
                del self._gangs[gang]

    def node_changed(self, name: str) -> None:
        self._judged.pop(name, None)
        self.room_changed(name)

    def room_changed(self, name: str) -> None:
        self._open_or_close(name)
        self._room_came = True
        self._ask_for_pass()

    def _open_or_close(self, name: str) -> None:
        node = self._cluster.nodes.get(name)
        if node is not None and node.ready and self._has_room(node):
            self._open[name] = None
        else:
            self._open.pop(name, None)

    def _has_room(self, node: WorldNode) -> bool:
        used = self._cluster.used.get(node.name, {})
        return any(count > used.get(r, 0) for r, count in node.gpus.items())

    def _ask_for_pass(self) -> None:
        if self._line and not self._pass_due:
            self._pass_due = True
            self._agenda.after(timedelta(0), self._pass)

    def _pass(self) -> None:
        self._pass_due = False
        again = self._room_came
        self._room_came = False
        self._line.serve(None if again else {self._line.group_of[key] for key in self._fresh}, self._try)
        self._set_messages(self._fresh)
        self._fresh.clear()
        if again and self._wishes and not self._update_due:
            self._update_due = True
            self._agenda.at(self._update_at, self._update_again)

    # --- placement ---

    def _try(self, key: Key) -> bool:
        """Place the pod, or as much of its gang as fits; return False when nothing was placed."""
        pod = self._cluster.pods[key]
        gang = _gang_of(pod)
        places = self._places_for([pod], 1) if gang is None else self._places_for(*self._members(gang))
        for member, place in places:
            self.forget(member)
            self._put(member, place)
            self._open_or_close(place.node)  # free GPUs only fell: no other pod needs another try
        if gang is not None and places:
            self._started_gangs.add(gang)
        return bool(places)

    def _put(self, pod: WorldPod, place: NodeChoice) -> None:
        self._bind(pod, place.node)

    def _members(self, gang: Gang) -> tuple[list[WorldPod], int]:
        """Return the gang's waiting pods, largest first, and how many of them must be placed together.

        A gang that has started needs no more than its waiting pods; its finished pods count as placed.
        """
        pods = [self._cluster.pods[key] for _, _, key in self._gangs[gang]]
        size = max(p.gang_size for p in pods)
        if not size:
            return pods, len(pods)
        least = size - len(self._cluster.gangs.get(gang, ()))
        return pods, max(1, min(least, len(pods)) if gang in self._started_gangs else least)

    def _places_for(self, pods: list[WorldPod], least: int) -> list[tuple[WorldPod, NodeChoice]]:
        """Return nodes for as many of *pods* as fit, or nothing when fewer than *least* do."""
        taken: Taken = {}
        places: list[tuple[WorldPod, NodeChoice]] = []
        hopeless: set[int] = set()
        for pods_left, pod in zip(range(len(pods), 0, -1), pods, strict=True):
            if len(places) + pods_left < least:
                return []
            wish = self._wishes[pod.key]
            place = None if wish.kind in hopeless else self._choose(pod, wish, taken, [p for _, p in places])
            if place is None:
                hopeless.add(wish.kind)
                continue
            places.append((pod, place))
            node_use = taken.setdefault(place.node, {})
            for resource, count in pod.asks.items():
                node_use[resource] = node_use.get(resource, 0) + count
        return places if len(places) >= least else []

    def _choose(self, pod: WorldPod, wish: Wish, taken: Taken, assumed: Sequence[NodeChoice]) -> NodeChoice | None:
        """Return the best node that fits: with the fewest soft taints, then most preferred, by packing, then the
        oldest. Soft taints outweigh the rest in kube-scheduler too."""
        best: tuple[int, int, float, datetime, str] | None = None
        chosen: NodeChoice | None = None
        for name in self._open if pod.requests else self._cluster.nodes:
            node = self._cluster.nodes[name]
            units_left = self._left_over(pod, node, taken)
            if units_left is None or (judged := self._judge(node, pod, wish.place)) is None:
                continue
            rank = (*judged, self._cost(units_left, node, pod), node.created_at, name)
            if best is not None and rank > best:
                continue
            place = self._on_node(node, pod, assumed)
            if place is not None:
                best, chosen = rank, place
        return chosen

    def _on_node(self, node: WorldNode, pod: WorldPod, assumed: Sequence[NodeChoice]) -> NodeChoice | None:  # noqa: ARG002
        """Choose *node*, which has room by count, if *pod* fits beside what is *assumed* for others of its gang."""
        return NodeChoice(node.name)

    def _cost(self, units_left: float, node: WorldNode, pod: WorldPod) -> float:
        """Return the rank of a node with *units_left* free after the pod, lowest first. CPU pods avoid GPU nodes."""
        if not pod.requests or self._packing == "most_allocated":
            return units_left
        return 0.0 if self._packing == "first_fit" else -units_left / max(1, sum(node.gpus.values()))

    def _left_over(self, pod: WorldPod, node: WorldNode, taken: Taken) -> float | None:
        used = self._cluster.used.get(node.name, {})
        also = taken.get(node.name, {})
        for resource, count in pod.compute.items():
            if node.allocatable.get(resource, 0) - used.get(resource, 0) - also.get(resource, 0) < count:
                return None
        if not pod.requests:
            return float(sum(node.gpus.values()))
        units_left = 0
        for resource, count in pod.requests.items():
            free = node.allocatable.get(resource, 0) - used.get(resource, 0) - also.get(resource, 0)
            if free < count and self._is_counted(resource, pod, node):
                return None
            units_left += free - count
        return float(units_left)

    def _is_counted(self, resource: str, pod: WorldPod, node: WorldNode) -> bool:  # noqa: ARG002
        """Return True where *pod* fits only if *node* has enough of *resource* left."""
        return True

    def _judge(self, node: WorldNode, pod: WorldPod, place: int) -> tuple[int, int] | None:
        """Return how many soft taints of *node* the pod does not tolerate, and the preference against it; None where it
        may not run. A cordon is a taint too, and a pod that tolerates everything passes it."""
        known = self._judged.setdefault(node.name, {})
        if place not in known:
            known[place] = None
            if (
                node.ready
                and untolerated(node.taints, pod.tolerations) is None
                and selects(node.labels, pod.node_selector, pod.affinity)
            ):
                soft = sum(
                    t.effect == "PreferNoSchedule" and not any(_tolerates(x, t) for x in pod.tolerations)
                    for t in node.taints
                )
                liked = sum(p.weight for p in pod.preferred if p.term and all(_holds(r, node.labels) for r in p.term))
                known[place] = soft, -liked
        return known[place]

    # --- messages ---

    def _update_again(self) -> None:
        self._update_due = False
        self._update_at = self._agenda.now + UPDATE_AGAIN
        self._set_messages([key for key in self._wishes if key not in self._fresh])

    def _set_messages(self, keys: Iterable[Key]) -> None:
        refusals: dict[tuple[int, bool], tuple[str, str]] = {}
        for key in keys:
            pod = self._cluster.pods[key]
            if self._is_held_back(pod):
                continue
            kind = (self._wishes[key].kind, pod.gang is not None)
            if kind not in refusals:
                refusals[kind] = self._refusal(pod)
            reason, message = refusals[kind]
            if pod.scheduled is not False:
                now = self._agenda.now
                self._cluster.change_pod(pod, scheduled=False, scheduled_since=now, reason=reason, message=message)
            elif (pod.reason, pod.message) != (reason, message):
                self._cluster.change_pod(pod, reason=reason, message=message)

    def _refusal(self, pod: WorldPod) -> tuple[str, str]:
        """Return reason and message of the condition that *pod* is not scheduled."""
        return "Unschedulable", self._why_not(pod)

    def _why_not(self, pod: WorldPod) -> str:
        """Return kube-scheduler's message: how many nodes fail for which reason.

        A node counts under the first filter that it fails, and under each resource that is short.
        """
        nodes = self._cluster.nodes.values()
        if not nodes:
            return "no nodes available to schedule pods"
        reasons: Counter[str] = Counter()
        for node in nodes:
            reasons.update(self._reasons(pod, node))
        counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return f"0/{len(nodes)} nodes are available: {counted}."

    def _reasons(self, pod: WorldPod, node: WorldNode) -> Iterable[str]:
        taint = untolerated(node.taints, pod.tolerations)
        if taint is not None and node.unschedulable:
            return ("node(s) were unschedulable",)
        if taint is not None:
            return (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",)
        if not selects(node.labels, pod.node_selector, pod.affinity):
            return ("node(s) didn't match Pod's node affinity/selector",)
        return self._lacks(pod, node) or ("node(s) didn't have room for the whole gang",)

    def _lacks(self, pod: WorldPod, node: WorldNode) -> Sequence[str]:
        """Return what *node* has too little of for *pod*."""
        used = self._cluster.used.get(node.name, {})
        return [
            f"Insufficient {resource}"
            for resource, count in pod.asks.items()
            if node.allocatable.get(resource, 0) - used.get(resource, 0) < count
            and self._is_counted(resource, pod, node)
        ]

    def _is_held_back(self, pod: WorldPod) -> bool:
        """Return True for a pod of a PodGroup that lacks pods: kube-scheduler neither tries it nor says why."""
        gang = _gang_of(pod)
        if not pod.group or gang is None:
            return False
        return len(self._gangs.get(gang, ())) + len(self._cluster.gangs.get(gang, ())) < pod.gang_size


def _gang_of(pod: WorldPod) -> Gang | None:
    return None if pod.gang is None else (pod.namespace, pod.gang)
