"""Kubernetes as the reconciler's ports show it, answered by a World in memory."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from receiver.config.values import duration
from receiver.core.model.pods import COMPUTE, Nomination, Pod, PodPhase, PodTimes, Scheduling, Wishes
from receiver.core.model.policy import Pool, Taint
from receiver.core.model.room_requests import RoomAnswer
from receiver.core.model.usage import EndedPod
from receiver.core.scaling.bounds import window_may_evict
from receiver.core.scaling.nominations import believed
from receiver.core.scaling.packing import SOFT_TAINTS, consents
from receiver.ports import (
    CORDON_ANNOTATION,
    DRAINING,
    MAY_WAIT,
    PROTECT_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    STOP_ANNOTATION,
    ClusterFacts,
    ClusterNode,
    Did,
    HeldPlaces,
    Receipt,
    TryLater,
    WontWork,
)
from receiver.replay.ports import WorldPort
from receiver.replay.world.objects import WorldNode, WorldPod
from receiver.replay.world.world import World

NO_POD = (-1, None)
Agreed = Callable[[Pod], bool]  # says whether a pod may be evicted


def as_pod(pod: WorldPod) -> Pod:
    waits = _phase(pod)
    agreed = pod.annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "true"
    protected = protects(pod)
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        requests=pod.requests,
        phase=waits,
        created_at=pod.created_at,
        node=pod.nominated if waits is PodPhase.RESERVED else pod.node,
        scheduling=Scheduling(
            node_selector=pod.node_selector,
            affinity=pod.affinity,
            preferred=pod.preferred,
            tolerations=pod.tolerations,
            image=pod.image,
        ),
        priority=pod.priority,
        priority_class=pod.priority_class,
        gang=None if pod.gang is None else f"{pod.namespace}/{pod.gang}",
        gang_min=pod.gang_size or None if pod.gang is not None else None,
        owner=owner_of(pod),
        labels=pod.labels,
        times=PodTimes(
            leaves_at=pod.deletion_at,
            bound_at=pod.scheduled_since if pod.scheduled else None,
            running_since=pod.started_at,
        ),
        # the kubelet would restart a mirror pod in place
        wishes=Wishes(
            evictable=agreed and pod.owner_kind != "Node" and not protected,
            protected=protected,
            may_wait=_may_wait(pod),
        ),
        scheduler_says=pod.message if waits is PodPhase.WAITING else "",
        compute=pod.compute,
    )


def _may_wait(pod: WorldPod) -> timedelta | None:
    text = pod.annotations.get(MAY_WAIT)
    return None if text is None else duration(text)


def as_node(node: WorldNode) -> ClusterNode:
    """Return the port's value of a node without what its pods decide."""
    return ClusterNode(
        name=node.name,
        instance=node.instance,
        ready=node.ready,
        unschedulable=node.unschedulable,
        allocatable=node.gpus,
        labels=node.labels,
        annotations=node.annotations,
        taints=node.taints,
        compute={r: n for r, n in node.allocatable.items() if r in COMPUTE},
        conditions=node.conditions,
        capacity={r: n + node.unhealthy for r, n in node.gpus.items()},
    )


def protects(pod: WorldPod) -> bool:
    """Return True when an annotation protects the pod, and its node with it."""
    wished = pod.annotations.get(PROTECT_ANNOTATION, "false").lower() != "false"
    return wished or pod.annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "false"


def owner_of(pod: WorldPod) -> str:
    return f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else ""


def _phase(pod: WorldPod) -> PodPhase:
    if pod.gate == MAY_WAIT:
        return PodPhase.DEFERRED
    if pod.phase == "Running":
        return PodPhase.RUNNING
    if pod.node is not None:
        return PodPhase.STARTING
    if pod.nominated and pod.deletion_at is None:
        return PodPhase.RESERVED
    return PodPhase.WAITING if pod.scheduled is False and pod.reason == "Unschedulable" else PodPhase.OTHER


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


class WorldCluster(WorldPort):
    """Kubernetes, answered by a World. Values are made once per object version, since most objects rarely change."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.refused: tuple[str, ...] = ()  # of the rights that a removal needs
        self._pods: dict[tuple[str, str], tuple[int, Pod]] = {}
        self._nodes: dict[str, tuple[int, ClusterNode]] = {}
        self._nominated: dict[tuple[str, str], datetime] = {}  # first seen, by the pod's uid and the node

    def look(self) -> ClusterFacts:
        cached, self._pods = self._pods, {}
        for key, pod in self._world.active_pods.items():
            if pod.requests:
                same = cached.get(key, NO_POD)[0] == pod.version
                self._pods[key] = cached[key] if same else (pod.version, self._as_pod(pod))
        pods = [pod for _, pod in self._pods.values()]
        return ClusterFacts(
            nodes=tuple(self._look_at_nodes()),
            pods=with_minimums(pods, self._world.active_pods.values(), self._world.pods.values()),
        )

    def _look_at_nodes(self) -> Iterable[ClusterNode]:
        cached, self._nodes = self._nodes, {}
        for name, node in self._world.nodes.items():
            was = cached.get(name)
            same = was is not None and was[0] == node.version
            self._nodes[name] = was if was and same else (node.version, self._as_node(node))
        return [node for _, node in self._nodes.values()]

    def _as_node(self, node: WorldNode) -> ClusterNode:
        return as_node(node)

    def _as_pod(self, pod: WorldPod) -> Pod:
        return self._dated(as_pod(pod))

    def _dated(self, pod: Pod) -> Pod:
        if not pod.reserved or pod.node is None:
            return pod
        since = self._nominated.setdefault((pod.uid, pod.node), self._world.now)
        return replace(pod, nomination=Nomination(node=pod.node, since=since))

    def missing_rights(self) -> Sequence[str]:
        return self.refused

    # Nothing holds work back in a replay, and nothing requests room.

    def held_places(self, *, queues: bool) -> HeldPlaces:  # noqa: ARG002
        return HeldPlaces()

    def hold_namespace(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:  # noqa: ARG002
        return Receipt(did=Did.ALREADY, sentence=f"{namespace} needs no quota")

    def release_namespace(self, namespace: str) -> Receipt:
        return Receipt(did=Did.ALREADY, sentence=f"no quota of ours is in {namespace}")

    def hold_queue(self, queue: str) -> Receipt:
        return Receipt(did=Did.DIFFERS, sentence=f"there is no ClusterQueue {queue}")

    def release_queue(self, queue: str) -> Receipt:
        return Receipt(did=Did.ALREADY, sentence=f"ClusterQueue {queue} is not held by us")

    def answer_request(self, answer: RoomAnswer) -> Receipt:
        return Receipt(did=Did.DIFFERS, sentence=f"there is no request {answer.key}")

    # A replay has no pods without GPUs, and asks for neither of these.

    def ended(self, namespaces: Collection[str]) -> Sequence[EndedPod]:  # noqa: ARG002
        return ()

    def scale_to_zero(self, pod: Pod, *, covered: bool = False) -> Receipt:  # noqa: ARG002
        raise WontWork(f"{pod.key} has no controller that can be scaled", code="not_scalable")

    def _must_leave(self, pod: WorldPod, agreed: Agreed | None) -> bool:
        return agreed is not None or pod.owner_kind != "DaemonSet"

    def _forbids(self, pod: WorldPod, agreed: Agreed | None) -> bool:
        """Return True when *pod* forbids draining its node."""
        return agreed is None or not agreed(self._as_pod(pod)) or (pod.deletion_at is None and protects(pod))

    def _returned(self, pod: WorldPod, cordoned_at: datetime | None) -> bool:  # noqa: ARG002
        """Return True when *pod* was created after *cordoned_at* and tolerates the cordon."""
        return False

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        bound = [self._as_pod(p) for p in self._world.pods_on(node) if p.requests]
        nominated = [p for p in self._world.active_pods.values() if p.nominated == node and p.node is None]
        reserved = [self._as_pod(p) for p in nominated if p.requests and p.deletion_at is None]
        return [*bound, *(p for p in reserved if believed(p, {node}, self._world.now).reserved)]

    def has_node(self, node: str) -> bool:
        return node in self._world.nodes

    def cordon(self, node: str, action: str) -> Receipt:
        world_node = self._world.nodes.get(node)
        if world_node is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no node {node}")
        if _is_theirs(world_node):
            return Receipt(did=Did.DIFFERS, sentence=f"{node} was cordoned by someone else")
        if world_node.annotations.get(CORDON_ANNOTATION) == action:
            if world_node.unschedulable:
                return Receipt(did=Did.ALREADY, sentence=f"{node} is cordoned for this already")
            return Receipt(did=Did.DIFFERS, sentence=f"someone made {node} schedulable again")
        patch = partial(self._world.patch_node, node, unschedulable=True, annotations={CORDON_ANNOTATION: action})
        return self.write(patch, f"cordoned {node}", "cordon", node, action)

    def uncordon(self, node: str) -> Receipt:
        world_node = self._world.nodes.get(node)
        if world_node is not None and _is_theirs(world_node):
            return Receipt(did=Did.DIFFERS, sentence=f"{node} was cordoned by someone else")
        return self._lift("uncordon", world_node, CORDON_ANNOTATION, STOP_ANNOTATION)

    def cordon_for_budget(self, node: str, why: str) -> Receipt:
        world_node = self._world.nodes.get(node)
        if world_node is None or _is_theirs(world_node):
            return Receipt(did=Did.DIFFERS, sentence=f"{node} is gone, or was cordoned by someone else")
        if world_node.unschedulable and world_node.annotations.get(STOP_ANNOTATION) == why:
            return Receipt(did=Did.ALREADY, sentence=f"{node} is closed already")
        patch = partial(self._world.patch_node, node, unschedulable=True, annotations={STOP_ANNOTATION: why})
        return self.write(patch, f"closed {node}", "cordon_for_budget", node, why)

    def uncordon_for_budget(self, node: str) -> Receipt:
        return self._lift("uncordon_for_budget", self._world.nodes.get(node), STOP_ANNOTATION, CORDON_ANNOTATION)

    def _lift(self, verb: str, world_node: WorldNode | None, annotation: str, other: str) -> Receipt:
        """Remove *annotation*, and the cordon unless the *other* annotation keeps it."""
        if world_node is None or annotation not in world_node.annotations:
            return Receipt(did=Did.ALREADY, sentence="it is gone, or was not cordoned for this")
        unschedulable = None if other in world_node.annotations else False
        patch = partial(
            self._world.patch_node, world_node.name, unschedulable=unschedulable, annotations={annotation: None}
        )
        return self.write(patch, f"undid the cordon of {world_node.name}", verb, world_node.name)

    def drain(
        self, node: str, *, consenting: bool = False, evicting: bool = False, cordoned_at: datetime | None = None
    ) -> Receipt:
        world_node = self._world.nodes.get(node)
        if world_node is not None and not (world_node.unschedulable and CORDON_ANNOTATION in world_node.annotations):
            return Receipt(did=Did.DIFFERS, sentence=f"someone lifted our cordon of {node}; nothing was evicted")
        agreed = window_may_evict if evicting else consents if consenting else None
        must_leave = [p for p in self._world.pods_on(node) if self._must_leave(p, agreed)]
        keeping = sorted(f"{p.namespace}/{p.name}" for p in must_leave if self._forbids(p, agreed))
        if keeping:
            return Receipt(did=Did.DIFFERS, sentence=f"{node} stays for {', '.join(keeping)}; nothing was evicted")
        if not must_leave:
            return Receipt(did=Did.DONE, sentence=f"no pod has to leave {node}")
        going = [pod for pod in must_leave if pod.deletion_at is None]
        self._rehearse(going)
        returned = [pod for pod in going if self._returned(pod, cordoned_at)]
        if len(returned) == len(must_leave):
            return Receipt(did=Did.DONE, sentence=f"only pods that tolerate the cordon are left on {node}")
        for pod in going:
            if pod not in returned:
                self._evict(pod)
        raise TryLater(f"{len(must_leave) - len(returned)} pods are still leaving {node}", code=DRAINING)

    def _rehearse(self, pods: Sequence[WorldPod]) -> None:
        """Raise TryLater when a PodDisruptionBudget protects one of *pods*; a replay has none."""

    def _evict(self, pod: WorldPod) -> None:
        key = (pod.namespace, pod.name)
        self.write(lambda: self._world.evict(*key), f"evicted {pod.name}", "evict", *key)

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        world_node = self._world.nodes.get(node)
        if world_node is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no node {node}")
        if world_node.labels.items() >= labels.items() and set(taints) <= set(world_node.taints):
            return Receipt(did=Did.ALREADY, sentence=f"{node} has these labels and taints already")
        marks = {(t.key, t.effect) for t in taints}
        other_taints = [t for t in world_node.taints if (t.key, t.effect) not in marks]
        patch = partial(self._world.patch_node, node, labels=labels, taints=(*other_taints, *taints))
        sentence = f"put {len(labels)} labels and {len(taints)} taints on {node}"
        return self.write(patch, sentence, "apply_labels_and_taints", node, dict(labels), tuple(taints))

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        world_node = self._world.nodes.get(node)
        if world_node is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no node {node}")
        if {t for t in world_node.taints if t in SOFT_TAINTS} == set(taints):
            return Receipt(did=Did.ALREADY, sentence=f"{node} carries these soft taints already")
        other_taints = [t for t in world_node.taints if t not in SOFT_TAINTS]
        patch = partial(self._world.patch_node, node, taints=(*other_taints, *taints))
        return self.write(patch, f"{node} carries {len(taints)} soft taints", "set_soft_taints", node, tuple(taints))

    def admit(self, pod: Pod) -> Receipt:
        world_pod = self._world.pods.get((pod.namespace, pod.name))
        if world_pod is None or world_pod.uid != pod.uid or world_pod.deletion_at is not None:
            return Receipt(did=Did.DIFFERS, sentence=f"pod {pod.key} is gone or going")
        if world_pod.gate != MAY_WAIT:
            return Receipt(did=Did.ALREADY, sentence=f"pod {pod.key} has no gate of ours")
        sentence = f"removed the scheduling gate of pod {pod.key}"
        return self.write(
            lambda: self._world.ungate(pod.namespace, pod.name), sentence, "admit", pod.namespace, pod.name
        )

    def make_known(self, pools: Sequence[Pool]) -> Receipt:
        return Receipt(did=Did.ALREADY, sentence=f"no other installation reads of {len(pools)} pools")

    def keep_active(self, kind: str) -> Receipt:
        return Receipt(did=Did.ALREADY, sentence=f"requests ({kind}) are answered")

    def record_event(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        event = partial(self._world.record_event, kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
        write = partial(event, reason=reason, message=message, component="gpu-autoscaler")
        return self.write(write, f"created the Event {reason} on {pod.key}", "record_event", pod.key, reason)


def _is_theirs(node: WorldNode) -> bool:
    return node.unschedulable and not node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}
