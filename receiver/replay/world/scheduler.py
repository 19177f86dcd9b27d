"""The scheduler: which waiting pod goes to which node, gangs whole or not at all.

Not modelled: CPU, memory and volumes, preemption, pod affinity and topology spread.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from receiver.replay.world.agenda import Agenda
from receiver.replay.world.cluster import Cluster, Key
from receiver.replay.world.line import Line
from receiver.replay.world.matching import selects, untolerated
from receiver.replay.world.objects import WorldNode, WorldPod

Signature = tuple[object, ...]
Gang = tuple[str, str]
Taken = dict[str, dict[str, int]]


class Scheduler:
    """Tries waiting pods by priority, then age. A pass runs once per moment in which something changed; pods that
    failed before are tried again only when room may have come."""

    def __init__(
        self, cluster: Cluster, agenda: Agenda, bind: Callable[[WorldPod, str], None], *, first_fit: bool
    ) -> None:
        self._cluster = cluster
        self._agenda = agenda
        self._bind = bind
        self._first_fit = first_fit
        self._line = Line()
        self._fresh: dict[Key, None] = {}  # not told yet that they do not fit
        self._signatures: dict[Key, Signature] = {}
        self._open: dict[str, None] = {}  # Ready nodes with some GPU free
        self._matches: dict[str, dict[Signature, bool]] = {}
        self._gangs: dict[Gang, dict[Key, None]] = {}  # waiting members
        self._started_gangs: set[Gang] = set()
        self._room_came = False
        self._pass_due = False

    def enqueue(self, pod: WorldPod) -> None:
        """Try *pod* from now on."""
        signature = (
            tuple(sorted(pod.requests.items())),
            tuple(sorted(pod.node_selector.items())),
            pod.affinity,
            pod.tolerations,
        )
        self._signatures[pod.key] = signature
        self._fresh[pod.key] = None
        gang = _gang_of(pod)
        if gang is not None:
            self._gangs.setdefault(gang, {})[pod.key] = None
        self._line.join(pod.key, gang or signature, pod.priority, pod.created_at)
        self._ask_for_pass()

    def forget(self, pod: WorldPod) -> None:
        """*pod* no longer waits."""
        self._line.leave(pod.key)
        self._signatures.pop(pod.key, None)
        self._fresh.pop(pod.key, None)
        gang = _gang_of(pod)
        if gang is not None and gang in self._gangs:
            self._gangs[gang].pop(pod.key, None)
            if not self._gangs[gang]:
                del self._gangs[gang]

    def node_changed(self, name: str) -> None:
        """A node came, went, or takes other pods than before."""
        self._matches.pop(name, None)
        self.room_changed(name)

    def room_changed(self, name: str) -> None:
        """A node's free GPUs may have grown."""
        self._open_or_close(name)
        self._room_came = True
        self._ask_for_pass()

    def _open_or_close(self, name: str) -> None:
        node = self._cluster.nodes.get(name)
        used = self._cluster.used.get(name, {})
        if node is not None and node.ready and any(count > used.get(r, 0) for r, count in node.gpus.items()):
            self._open[name] = None
        else:
            self._open.pop(name, None)

    def _ask_for_pass(self) -> None:
        if self._line and not self._pass_due:
            self._pass_due = True
            self._agenda.after(timedelta(0), self._pass)

    def _pass(self) -> None:
        self._pass_due = False
        groups = None if self._room_came else {self._line.group_of(key) for key in self._fresh}
        self._room_came = False
        self._line.serve(groups, self._try)
        for key in self._fresh:
            self._tell_unschedulable(self._cluster.pods[key])
        self._fresh.clear()

    def _try(self, key: Key) -> bool:
        """Place the pod, or the whole gang it belongs to; False when that fits nowhere."""
        pod = self._cluster.pods[key]
        gang = _gang_of(pod)
        places = self._places_for([pod] if gang is None else self._members(gang))
        for member, name in places:
            self._place(member, name)
        if gang is not None and places:
            self._started_gangs.add(gang)
        return bool(places)

    def _members(self, gang: Gang) -> list[WorldPod]:
        """Return the gang's waiting pods, largest first; none while some of a new gang do not exist yet."""
        pods = [self._cluster.pods[key] for key in self._gangs[gang]]
        if gang not in self._started_gangs and len(pods) < max(p.gang_size for p in pods):
            return []
        return sorted(pods, key=lambda p: -p.gpus)

    def _places_for(self, pods: list[WorldPod]) -> list[tuple[WorldPod, str]]:
        """Return a node for each of *pods*, or nothing unless there is one for all."""
        taken: Taken = {}
        places: list[tuple[WorldPod, str]] = []
        for pod in pods:
            name = self._choose(pod, self._signatures[pod.key], taken)
            if name is None:
                return []
            places.append((pod, name))
            here = taken.setdefault(name, {})
            for resource, count in pod.requests.items():
                here[resource] = here.get(resource, 0) + count
        return places

    def _place(self, pod: WorldPod, name: str) -> None:
        self.forget(pod)
        self._bind(pod, name)
        self._open_or_close(name)  # room only fell: no reason to try others again

    def _choose(self, pod: WorldPod, signature: Signature, taken: Taken) -> str | None:
        best: tuple[float, datetime, str] | None = None
        for name in self._open if pod.requests else self._cluster.nodes:
            node = self._cluster.nodes[name]
            left = self._left_over(pod, node, taken)
            if left is None or not self._accepts(node, pod, signature[1:]):
                continue
            rank = (0.0 if self._first_fit and pod.requests else left, node.created_at, name)
            if best is None or rank < best:
                best = rank
        return None if best is None else best[2]

    def _left_over(self, pod: WorldPod, node: WorldNode, taken: Taken) -> float | None:
        """GPU units free on *node* once *pod* is there, None when it does not fit. CPU pods avoid GPU nodes."""
        if not pod.requests:
            return float(sum(node.gpus.values()))
        used = self._cluster.used.get(node.name, {})
        also = taken.get(node.name, {})
        left = 0
        for resource, count in pod.requests.items():
            free = node.allocatable.get(resource, 0) - used.get(resource, 0) - also.get(resource, 0)
            if free < count:
                return None
            left += free - count
        return float(left)

    def _accepts(self, node: WorldNode, pod: WorldPod, signature: Signature) -> bool:
        known = self._matches.setdefault(node.name, {})
        if signature not in known:
            known[signature] = (
                node.ready  # a cordon is a taint too, and lets in whoever tolerates everything
                and untolerated(node.taints, pod.tolerations) is None
                and selects(node.labels, pod.node_selector, pod.affinity)
            )
        return known[signature]

    def _tell_unschedulable(self, pod: WorldPod) -> None:
        self._cluster.change_pod(
            pod,
            scheduled=False,
            scheduled_since=self._agenda.now,
            reason="Unschedulable",
            message=self._why_not(pod),
        )

    def _why_not(self, pod: WorldPod) -> str:
        """Compose kube-scheduler's message: how many nodes fail for which first reason."""
        reasons: Counter[str] = Counter()
        for node in self._cluster.nodes.values():
            taint = untolerated(node.taints, pod.tolerations)
            if taint is not None and node.unschedulable:
                reasons["node(s) were unschedulable"] += 1
            elif taint is not None:
                reasons[f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"] += 1
            elif not selects(node.labels, pod.node_selector, pod.affinity):
                reasons["node(s) didn't match Pod's node affinity/selector"] += 1
            elif self._left_over(pod, node, {}) is None:
                short = next(r for r in pod.requests if self._left_over_of(node, r) < pod.requests[r])
                reasons[f"Insufficient {short}"] += 1
            else:
                reasons["node(s) didn't have room for the whole gang"] += 1
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return f"0/{len(self._cluster.nodes)} nodes are available" + (f": {told}." if told else ".")

    def _left_over_of(self, node: WorldNode, resource: str) -> int:
        return node.allocatable.get(resource, 0) - self._cluster.used.get(node.name, {}).get(resource, 0)


def _gang_of(pod: WorldPod) -> Gang | None:
    return None if pod.gang is None else (pod.namespace, pod.gang)
