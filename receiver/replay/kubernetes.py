"""Kubernetes as the reconciler's ports show it, answered by a World in memory."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from receiver.config.values import LongerThanZero, parse
from receiver.core.model.pods import COMPUTE, PROTECTED, WHY, Pod, PodPhase, keeps_for, named
from receiver.core.model.policy import Taint
from receiver.core.model.usage import EndedPod, workload_name
from receiver.core.scaling.bounds import window_may_evict
from receiver.core.scaling.demand import tolerates_cordon
from receiver.core.scaling.packing import SOFT_TAINTS, consents
from receiver.ports import (
    CORDON_ANNOTATION,
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    PROTECT_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    STOP_ANNOTATION,
    STOP_POLICY_ANNOTATION,
    ClusterFacts,
    ClusterNode,
    Did,
    HeldPlaces,
    Receipt,
    TryLater,
    WontWork,
)
from receiver.replay.ports import WorldPort
from receiver.replay.world.objects import CLAIMS, Denied, HoldQuota, WorldNode, WorldPod
from receiver.replay.world.world import World

T = TypeVar("T")
HOSTS = frozenset({"prometheus", "alertmanager", "gpu-autoscaler"})
HOST_LABEL = "app.kubernetes.io/name"
LEAVE_WITH_NODES = ("DaemonSet", "Node")  # pods that nothing evicts
NO_LOAD: Mapping[str, int] = {}
NO_POD = (-1, None)
SCALABLE = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job"})


def as_pod(pod: WorldPod) -> Pod:
    """Return the core's value of a pod."""
    waits = _phase(pod)
    claims = waits is PodPhase.WAITING and CLAIMS in pod.requests
    agreed = pod.annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "true"
    protected = protects(pod)
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        requests={} if claims else pod.requests,
        claims=("gpu",) if claims else (),
        phase=waits,
        created_at=pod.created_at,
        node=pod.node,
        node_selector=pod.node_selector,
        affinity=pod.affinity,
        preferred=pod.preferred,
        tolerations=pod.tolerations,
        priority=pod.priority,
        priority_class=pod.priority_class,
        gang=None if pod.gang is None else f"{pod.namespace}/{pod.gang}",
        gang_min=pod.gang_size or None if pod.gang is not None else None,
        owner=_owner(pod),
        labels=pod.labels,
        daemon=pod.owner_kind == "DaemonSet",
        terminating=pod.deletion_at is not None,
        # the kubelet would restart a mirror pod in place
        evictable=agreed and pod.owner_kind != "Node" and not protected,
        protected=protected,
        idle_shutdown=_annotated(pod, IDLE_SHUTDOWN_ANNOTATION, partial(parse, LongerThanZero)),
        keep_until=_annotated(pod, KEEP_UNTIL_ANNOTATION, _time),
        bound_at=pod.scheduled_since if pod.scheduled else None,
        running_since=pod.started_at,
        scheduler_says=pod.message if waits is PodPhase.WAITING else "",
        compute=pod.compute,
    )


def as_node(
    node: WorldNode,
    hosts: tuple[str, ...],
    kept_by: tuple[str, ...],
    others: Mapping[str, int],
    daemons: Mapping[str, int],
) -> ClusterNode:
    """Return the port's value of a node; the others are the parts of `ClusterNode` that its pods decide."""
    return ClusterNode(
        name=node.name,
        instance=node.instance,
        ready=node.ready,
        unschedulable=node.unschedulable,
        allocatable={} if node.dra else node.gpus,
        dra=node.dra and any(node.gpus.values()),
        labels=node.labels,
        annotations=node.annotations,
        taints=node.taints,
        hosts=hosts,
        compute={r: n for r, n in node.allocatable.items() if r in COMPUTE},
        kept_by=kept_by,
        others=others,
        daemons=daemons,
    )


def protects(pod: WorldPod) -> bool:
    """Return True when an annotation protects the pod, and its node with it."""
    wished = pod.annotations.get(PROTECT_ANNOTATION, "false").lower() != "false"
    return wished or pod.annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "false"


def _owner(pod: WorldPod) -> str:
    return f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else ""


def _phase(pod: WorldPod) -> PodPhase:
    if pod.phase == "Running":
        return PodPhase.RUNNING
    if pod.node is not None:
        return PodPhase.STARTING
    return PodPhase.WAITING if pod.scheduled is False and pod.reason == "Unschedulable" else PodPhase.OTHER


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


def with_minimums(pods: Sequence[Pod], active: Iterable[WorldPod], every: Iterable[WorldPod]) -> tuple[Pod, ...]:
    """Return *pods*, with the minimum of each waiting gang lowered by the members that need no GPU node.

    Those are the pods that have succeeded and those without GPUs, as in `adapters.kubernetes.queues`. *every* pod of
    the world is searched only where a gang has fewer *active* pods than its minimum.
    """
    sizes = {p.gang: p.gang_min for p in pods if p.gang and p.gang_min and p.phase is PodPhase.WAITING}
    if not sizes:
        return tuple(pods)
    members = [p for p in active if _gang(p) in sizes]
    living = Counter(_gang(p) for p in members)
    settled = Counter(_gang(p) for p in members if not p.requests)
    short = {gang for gang, size in sizes.items() if living[gang] < size}
    if short:
        controllers = {(_gang(p), p.owner_kind, p.owner_name) for p in members}
        done = (p for p in every if p.phase == "Succeeded" and _gang(p) in short)
        settled.update(_gang(p) for p in done if (_gang(p), p.owner_kind, p.owner_name) in controllers)
    least = {gang: max(1, sizes[gang] - count) for gang, count in settled.items()}
    return tuple(replace(p, gang_min=least[p.gang]) if p.gang in least else p for p in pods)


def _gang(pod: WorldPod) -> str:
    return f"{pod.namespace}/{pod.gang}" if pod.gang else ""


class WorldHolding(WorldPort):
    """The objects of a budget hold, as a world keeps them."""

    def held_places(self, *, queues: bool) -> HeldPlaces:
        held = [n for n, q in self._world.cluster_queues.items() if STOP_POLICY_ANNOTATION in q.annotations]
        return HeldPlaces(
            namespaces=tuple(sorted(n for n, q in self._world.quotas.items() if q.ours)),
            cluster_queues=tuple(sorted(held)) if queues else (),
        )

    def hold_namespace(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        quotas = self._world.quotas
        found = quotas.get(namespace)
        quota = HoldQuota(spec={"resources": sorted(resources), "passing": sorted(passing)})
        if found is not None and not found.ours:
            return Receipt(did=Did.DIFFERS, sentence=f"the quota of {namespace} is not ours and is left alone")
        if found == quota:
            return Receipt(did=Did.ALREADY, sentence=f"the quota of {namespace} exists already")
        done = f"created the quota of {namespace}"
        return self.write(lambda: quotas.update({namespace: quota}), done, "hold_namespace", namespace)

    def release_namespace(self, namespace: str) -> Receipt:
        quotas = self._world.quotas
        found = quotas.get(namespace)
        if found is None or not found.ours:
            did = Did.ALREADY if found is None else Did.DIFFERS
            return Receipt(did=did, sentence=f"no quota of ours is in {namespace}")
        done = f"deleted the quota of {namespace}"
        return self.write(lambda: quotas.pop(namespace), done, "release_namespace", namespace)

    def hold_queue(self, queue: str) -> Receipt:
        found = self._world.cluster_queues.get(queue)
        if found is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no ClusterQueue {queue}")
        if found.stop_policy not in (None, "None"):
            did = Did.ALREADY if STOP_POLICY_ANNOTATION in found.annotations else Did.DIFFERS
            return Receipt(did=did, sentence=f"ClusterQueue {queue} is stopped already ({found.stop_policy})")

        def hold() -> None:
            found.annotations.setdefault(STOP_POLICY_ANNOTATION, found.stop_policy or "")
            found.stop_policy = "Hold"

        return self.write(hold, f"put ClusterQueue {queue} on Hold", "hold_queue", queue)

    def release_queue(self, queue: str) -> Receipt:
        found = self._world.cluster_queues.get(queue)
        if found is None or STOP_POLICY_ANNOTATION not in found.annotations:
            return Receipt(did=Did.ALREADY, sentence=f"ClusterQueue {queue} is not held by us")

        def release() -> None:
            before = found.annotations.pop(STOP_POLICY_ANNOTATION) or None
            found.stop_policy = before if found.stop_policy == "Hold" else found.stop_policy

        return self.write(release, f"released ClusterQueue {queue}", "release_queue", queue)


class WorldCluster(WorldHolding):
    """Kubernetes, answered by a World. Values are made once per object version, since most objects rarely change."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.refused: tuple[str, ...] = ()  # of the rights that a removal needs
        self._pods: dict[tuple[str, str], tuple[int, Pod]] = {}
        self._nodes: dict[str, tuple[object, ClusterNode]] = {}

    def look(self) -> ClusterFacts:
        known, self._pods = self._pods, {}
        hosts: dict[str, list[str]] = {}
        others: dict[str, Counter[str]] = {}
        daemons: dict[str, Counter[str]] = {}
        keepers: dict[str, list[str]] = {}
        for key, pod in self._world.active_pods.items():
            if pod.requests:
                same = known.get(key, NO_POD)[0] == pod.version
                self._pods[key] = known[key] if same else (pod.version, as_pod(pod))
            elif pod.node is not None and _hosts(pod):
                hosts.setdefault(pod.node, []).append(f"{pod.namespace}/{pod.name}")
            elif pod.node is not None and (why := self._keeps(pod)):
                keepers.setdefault(pod.node, []).append(f"{pod.namespace}/{pod.name} {why}")
            if pod.node is not None and pod.compute:
                if not pod.requests:
                    others.setdefault(pod.node, Counter()).update(pod.compute)
                if pod.owner_kind in LEAVE_WITH_NODES:
                    daemons.setdefault(pod.node, Counter()).update(pod.compute)
        seen, self._nodes = self._nodes, {}
        for name, node in self._world.nodes.items():
            here, kept = tuple(hosts.get(name, ())), named(keepers.get(name, ()))
            parts = (here, kept, others.get(name, NO_LOAD), daemons.get(name, NO_LOAD))
            was = seen.get(name)
            same = was is not None and was[0] == (node.version, parts)
            self._nodes[name] = was if was and same else ((node.version, parts), as_node(node, *parts))
        return ClusterFacts(
            nodes=tuple(node for _, node in self._nodes.values()),
            pods=with_minimums(
                [pod for _, pod in self._pods.values()],
                self._world.active_pods.values(),
                self._world.pods.values(),
            ),
        )

    def missing_rights(self) -> Sequence[str]:
        return self.refused

    def ended(self, namespaces: Collection[str]) -> Sequence[EndedPod]:
        return [
            EndedPod(
                uid=p.uid,
                workload=workload_name(p.namespace, _owner(p), p.name),
                succeeded=p.phase == "Succeeded",
                at=p.finished_at,
            )
            for p in self._world.pods.values()
            if p.over and p.requests and p.namespace in namespaces
        ]

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        return [as_pod(p) for p in self._world.pods_on(node) if p.requests]

    def cordon(self, node: str, action: str) -> Receipt:
        found = self._world.nodes.get(node)
        if found is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no node {node}")
        if _is_theirs(found):
            return Receipt(did=Did.DIFFERS, sentence=f"{node} was cordoned by someone else")
        if found.annotations.get(CORDON_ANNOTATION) == action:
            if found.unschedulable:
                return Receipt(did=Did.ALREADY, sentence=f"{node} is cordoned for this already")
            return Receipt(did=Did.DIFFERS, sentence=f"someone made {node} schedulable again")
        patch = partial(self._world.patch_node, node, unschedulable=True, annotations={CORDON_ANNOTATION: action})
        return self.write(patch, f"cordoned {node}", "cordon", node, action)

    def uncordon(self, node: str) -> Receipt:
        found = self._world.nodes.get(node)
        if found is not None and _is_theirs(found):
            return Receipt(did=Did.DIFFERS, sentence=f"{node} was cordoned by someone else")
        return self._lift("uncordon", found, CORDON_ANNOTATION, STOP_ANNOTATION)

    def cordon_for_budget(self, node: str, why: str) -> Receipt:
        found = self._world.nodes.get(node)
        if found is None or _is_theirs(found):
            return Receipt(did=Did.DIFFERS, sentence=f"{node} is gone, or was cordoned by someone else")
        if found.unschedulable and found.annotations.get(STOP_ANNOTATION) == why:
            return Receipt(did=Did.ALREADY, sentence=f"{node} is closed already")
        patch = partial(self._world.patch_node, node, unschedulable=True, annotations={STOP_ANNOTATION: why})
        return self.write(patch, f"closed {node}", "cordon_for_budget", node, why)

    def uncordon_for_budget(self, node: str) -> Receipt:
        return self._lift("uncordon_for_budget", self._world.nodes.get(node), STOP_ANNOTATION, CORDON_ANNOTATION)

    def _lift(self, verb: str, found: WorldNode | None, annotation: str, other: str) -> Receipt:
        """Remove *annotation*, and the cordon unless the *other* annotation keeps it."""
        if found is None or annotation not in found.annotations:
            return Receipt(did=Did.ALREADY, sentence="it is gone, or was not cordoned for this")
        unschedulable = None if other in found.annotations else False
        patch = partial(self._world.patch_node, found.name, unschedulable=unschedulable, annotations={annotation: None})
        return self.write(patch, f"undid the cordon of {found.name}", verb, found.name)

    def drain(
        self, node: str, *, consenting: bool = False, evicting: bool = False, cordoned_at: datetime | None = None
    ) -> Receipt:
        found = self._world.nodes.get(node)
        if found is not None and not (found.unschedulable and CORDON_ANNOTATION in found.annotations):
            return Receipt(did=Did.DIFFERS, sentence=f"someone lifted our cordon of {node}; nothing was evicted")
        agreed = window_may_evict if evicting else consents if consenting else None
        here = [p for p in self._world.pods_on(node) if _must_leave(p, agreed)]
        keeping = sorted(f"{p.namespace}/{p.name}" for p in here if _forbids(p, agreed) or self._keeps(p))
        if keeping:
            return Receipt(did=Did.DIFFERS, sentence=f"{node} stays for {', '.join(keeping)}; nothing was evicted")
        if not here:
            return Receipt(did=Did.DONE, sentence=f"no pod has to leave {node}")
        going = [pod for pod in here if pod.deletion_at is None]
        held = [why for pod in going if (why := self._refusal(pod, self._world.rehearse_eviction)) is not None]
        if held:
            raise TryLater("; ".join(held), code="pdb")
        back = [pod for pod in going if _returned(pod, cordoned_at)]
        if len(back) == len(here):
            return Receipt(did=Did.DONE, sentence=f"only pods that tolerate the cordon are left on {node}")
        for pod in going:
            if pod in back:
                continue
            if (why := self._refusal(pod, self._evict)) is not None:  # an eviction before it used up its budget
                raise TryLater(why, code="pdb")
        raise TryLater(f"{len(here) - len(back)} pods are still leaving {node}", code="draining")

    def _evict(self, namespace: str, name: str) -> None:
        self.write(lambda: self._world.evict(namespace, name), f"evicted {name}", "evict", namespace, name)

    def _refusal(self, pod: WorldPod, evict: Callable[[str, str], None]) -> str | None:
        """Return why *evict* refuses *pod*, None when it does not."""
        try:
            evict(pod.namespace, pod.name)
        except Denied as refused:
            if refused.status != 404:
                return f"{pod.namespace}/{pod.name} may not be evicted: {refused.details or refused.reason}"
        return None

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        found = self._world.nodes.get(node)
        if found is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no node {node}")
        if found.labels.items() >= labels.items() and set(taints) <= set(found.taints):
            return Receipt(did=Did.ALREADY, sentence=f"{node} has these labels and taints already")
        marks = {(t.key, t.effect) for t in taints}
        others = [t for t in found.taints if (t.key, t.effect) not in marks]
        patch = partial(self._world.patch_node, node, labels=labels, taints=(*others, *taints))
        done = f"put {len(labels)} labels and {len(taints)} taints on {node}"
        return self.write(patch, done, "apply_labels_and_taints", node, dict(labels), tuple(taints))

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        found = self._world.nodes.get(node)
        if found is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no node {node}")
        if {t for t in found.taints if t in SOFT_TAINTS} == set(taints):
            return Receipt(did=Did.ALREADY, sentence=f"{node} carries these soft taints already")
        others = [t for t in found.taints if t not in SOFT_TAINTS]
        patch = partial(self._world.patch_node, node, taints=(*others, *taints))
        return self.write(patch, f"{node} carries {len(taints)} soft taints", "set_soft_taints", node, tuple(taints))

    def scale_to_zero(self, pod: Pod) -> Receipt:
        kind, _, name = pod.owner.partition("/")
        if kind not in SCALABLE:
            raise WontWork(f"{pod.key} has no controller that can be scaled", code="not_scalable")
        if self._world.at_zero(kind, pod.namespace, name):
            return Receipt(did=Did.ALREADY, sentence=f"{pod.owner} of {pod.namespace} is at zero already")
        scale = partial(self._world.scale_to_zero, kind, pod.namespace, name)
        done = f"scaled {pod.owner} of {pod.namespace} to zero"
        return self.write(scale, done, "scale_to_zero", pod.namespace, pod.owner)

    def record_event(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        event = partial(self._world.record_event, kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
        write = partial(event, reason=reason, message=message, component="gpu-autoscaler")
        return self.write(write, f"created the Event {reason} on {pod.key}", "record_event", pod.key, reason)

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


def _is_theirs(node: WorldNode) -> bool:
    return node.unschedulable and not node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}


def _hosts(pod: WorldPod) -> bool:
    """Return True for a pod of ours or of the monitoring."""
    return pod.labels.get(HOST_LABEL) in HOSTS


def _returned(pod: WorldPod, cordoned_at: datetime | None) -> bool:
    """Return True when *pod*, without a GPU, was created after *cordoned_at* and tolerates the cordon."""
    if pod.requests or cordoned_at is None or pod.created_at < cordoned_at:
        return False
    return tolerates_cordon(as_pod(pod))


def _must_leave(pod: WorldPod, agreed: Callable[[Pod], bool] | None) -> bool:
    """Return False for a pod that leaves with its node: a DaemonSet's or a mirror pod."""
    if pod.requests:
        return agreed is not None or pod.owner_kind != "DaemonSet"
    return pod.owner_kind not in LEAVE_WITH_NODES


def _forbids(pod: WorldPod, agreed: Callable[[Pod], bool] | None) -> bool:
    """Return True when *pod* forbids draining its node."""
    if pod.requests and (agreed is None or not agreed(as_pod(pod))):
        return True
    return pod.deletion_at is None and (protects(pod) or _hosts(pod))
