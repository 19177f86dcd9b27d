"""Kubernetes over a world with pods of every kind: those without GPUs, of the monitoring, of idle workloads."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from receiver.config.values import LongerThanZero, parse
from receiver.core.model.pods import PROTECTED, WHY, Claiming, Pod, PodPhase, keeps_for, named
from receiver.core.model.room_requests import RoomAnswer
from receiver.core.model.usage import EndedPod, workload_name
from receiver.core.scaling.demand import tolerates_cordon
from receiver.core.scaling.terminations import is_overdue
from receiver.ports import (
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    ClusterFacts,
    ClusterNode,
    Did,
    Receipt,
    TryLater,
    WontWork,
)
from receiver.replay.kubernetes import Agreed, WorldCluster, as_node, as_pod, owner_of, protects
from receiver.replay.world.objects import CLAIMS, Denied, WorldNode, WorldPod
from simulator.clocks import ManualClock
from simulator.cluster_claims import ClaimsOfWorld
from simulator.cluster_holding import WorldHolding
from simulator.gangs import with_gangs
from simulator.world import World

T = TypeVar("T")
HOSTS = frozenset({"prometheus", "alertmanager", "gpu-autoscaler"})
HOST_LABEL = "app.kubernetes.io/name"
LEAVE_WITH_NODES = ("DaemonSet", "Node")  # pods that nothing evicts
NO_LOAD: Mapping[str, int] = {}
SCALABLE = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job"})


class SimulatedCluster(WorldHolding, WorldCluster):
    """Kubernetes, answered by a world of the simulator."""

    _world: World

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._claims = ClaimsOfWorld(world)

    def look(self) -> ClusterFacts:
        facts, world = self._claims.added_to(super().look()), self._world
        pods = (*facts.pods, *(pod for request in world.requests if request.waits for pod in request.pods))
        return replace(
            facts,
            pods=with_gangs(pods, world.pods.values(), world.group_objects, ManualClock(world.now), self._claims.read),
            requests=world.requests,
        )

    def answer_request(self, answer: RoomAnswer) -> Receipt:
        place = answer.kind, answer.key
        if all((request.kind, request.key) != place for request in self._world.requests):
            return Receipt(did=Did.DIFFERS, sentence=f"there is no request {answer.key}")
        if self._world.answers.get(place) == answer:
            return Receipt(did=Did.ALREADY, sentence=f"request {answer.key} says so already")
        write = partial(self._world.answers.update, {place: answer})
        return self.write(write, f"answered request {answer.key}", "answer_request", answer.kind, answer.key)

    def _has_ended(self, pod: WorldPod) -> bool:
        """Return True for a pod that should be gone, on a node whose kubelet does not say so."""
        node = self._world.nodes.get(pod.node or "")
        return node is not None and not node.ready and is_overdue(pod.deletion_at, self._world.now)

    def _look_at_nodes(self) -> Iterable[ClusterNode]:
        hosts: dict[str, list[str]] = {}
        others: dict[str, Counter[str]] = {}
        daemons: dict[str, Counter[str]] = {}
        keepers: dict[str, list[str]] = {}
        for pod in self._world.active_pods.values():
            if pod.node is None:
                continue
            if not pod.requests and _hosts(pod) and not self._has_ended(pod):
                hosts.setdefault(pod.node, []).append(f"{pod.namespace}/{pod.name}")
            elif not pod.requests and (why := self._keeps(pod)):
                keepers.setdefault(pod.node, []).append(f"{pod.namespace}/{pod.name} {why}")
            if pod.compute:
                if not pod.requests:
                    others.setdefault(pod.node, Counter()).update(pod.compute)
                if pod.owner_kind in LEAVE_WITH_NODES:
                    daemons.setdefault(pod.node, Counter()).update(pod.compute)
        return [
            replace(
                node,
                hosts=tuple(hosts.get(node.name, ())),
                kept_by=named(keepers.get(node.name, ())),
                others=others.get(node.name, NO_LOAD),
                daemons=daemons.get(node.name, NO_LOAD),
            )
            for node in super()._look_at_nodes()
        ]

    def _as_node(self, node: WorldNode) -> ClusterNode:
        shown = as_node(node)
        if not node.dra:
            return shown
        return replace(shown, allocatable={}, capacity={}, dra=any(node.gpus.values()) or node.unhealthy > 0)

    def _as_pod(self, pod: WorldPod) -> Pod:
        dated = self._dated(as_pod(pod))
        if dated.phase is PodPhase.WAITING and CLAIMS in pod.requests:
            dated = replace(dated, requests={}, claiming=Claiming(words=("gpu",)))
        idle_after = _annotated(pod, IDLE_SHUTDOWN_ANNOTATION, partial(parse, LongerThanZero))
        wishes = replace(
            dated.wishes,
            idle_shutdown=idle_after,
            stays_idle=IDLE_SHUTDOWN_ANNOTATION in pod.annotations and idle_after is None,
            keep_until=_annotated(pod, KEEP_UNTIL_ANNOTATION, _time),
        )
        return replace(dated, wishes=wishes)

    def ended(self, namespaces: Collection[str]) -> Sequence[EndedPod]:
        return [
            EndedPod(
                uid=p.uid,
                workload=workload_name(p.namespace, owner_of(p), p.name),
                succeeded=p.phase == "Succeeded",
                at=p.finished_at,
            )
            for p in self._world.pods.values()
            if p.over and p.requests and p.namespace in namespaces
        ]

    def scale_to_zero(self, pod: Pod, *, covered: bool = False) -> Receipt:
        found = self._world.pods.get((pod.namespace, pod.name))
        if found is None or found.uid != pod.uid or found.deletion_at is not None:
            return Receipt(did=Did.DIFFERS, sentence=f"pod {pod.key} is gone or going")
        seen = self._as_pod(found)
        if not seen.wishes.allow_zero(pod.wishes, covered=covered):
            return Receipt(did=Did.DIFFERS, sentence=f"the annotations of pod {pod.key} changed meanwhile")
        kind, _, name = pod.owner.partition("/")
        if kind not in SCALABLE:
            raise WontWork(f"{pod.key} has no controller that can be scaled", code="not_scalable")
        if self._world.at_zero(kind, pod.namespace, name):
            return Receipt(did=Did.ALREADY, sentence=f"{pod.owner} of {pod.namespace} is at zero already")
        scale = partial(self._world.scale_to_zero, kind, pod.namespace, name)
        done = f"scaled {pod.owner} of {pod.namespace} to zero"
        return self.write(scale, done, "scale_to_zero", pod.namespace, pod.owner)

    def _must_leave(self, pod: WorldPod, agreed: Agreed | None) -> bool:
        """Return False for a pod that leaves with its node: a DaemonSet's or a mirror pod."""
        if pod.requests:
            return super()._must_leave(pod, agreed)
        return pod.owner_kind not in LEAVE_WITH_NODES

    def _forbids(self, pod: WorldPod, agreed: Agreed | None) -> bool:
        if pod.requests:
            return super()._forbids(pod, agreed) or (pod.deletion_at is None and _hosts(pod))
        return bool(self._keeps(pod)) or (pod.deletion_at is None and (protects(pod) or _hosts(pod)))

    def _returned(self, pod: WorldPod, cordoned_at: datetime | None) -> bool:
        if pod.requests or not pod.owner_kind or cordoned_at is None or pod.created_at <= cordoned_at:
            return False
        return tolerates_cordon(self._as_pod(pod))

    def _rehearse(self, pods: Sequence[WorldPod]) -> None:
        held = [why for pod in pods if (why := self._refusal(pod, self._world.rehearse_eviction))]
        if held:
            raise TryLater("; ".join(held), code="pdb")

    def _evict(self, pod: WorldPod) -> None:
        if why := self._refusal(pod, lambda *_: super(SimulatedCluster, self)._evict(pod)):
            raise TryLater(why, code="pdb")  # an eviction before it used up its budget

    def _refusal(self, pod: WorldPod, evict: Callable[[str, str], None]) -> str:
        """Return why *evict* refuses *pod*, empty when it does not."""
        try:
            evict(pod.namespace, pod.name)
        except Denied as refused:
            if refused.status != 404:
                return f"{pod.namespace}/{pod.name} may not be evicted: {refused.details or refused.reason}"
        return ""

    def _keeps(self, pod: WorldPod) -> str:
        """Return why *pod* keeps its node; empty when it does not, holds a GPU, or leaves with the node."""
        if pod.requests or pod.deletion_at is not None or pod.owner_kind in LEAVE_WITH_NODES:
            return ""
        if protects(pod):
            return PROTECTED
        if pod.annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "true":
            return ""
        rule = keeps_for(
            namespace=pod.namespace,
            managed=bool(pod.owner_kind),
            stores=False,
            covered=lambda: any(budget.covers(pod.namespace, pod.labels) for budget in self._world.pdbs),
        )
        return "" if rule is None else WHY[rule]


def _hosts(pod: WorldPod) -> bool:
    """Return True for a pod of ours or of the monitoring."""
    return pod.labels.get(HOST_LABEL) in HOSTS


def _annotated(pod: WorldPod, key: str, read: Callable[[str], T]) -> T | None:
    """Return the value of an annotation, None when it is absent or malformed."""
    try:
        return read(pod.annotations[key])
    except (KeyError, ValueError):
        return None


def _time(text: str) -> datetime:
    """Parse RFC 3339. Raises ValueError, also for a time without a zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a time needs a zone")
    return found.astimezone(UTC)
