"""The reconciler's ports over a World, without HTTP: what Civo and Kubernetes would answer, in memory.

They never move the world's time. Each can be told to fail and counts its writes (see Switches).
"""

from collections.abc import Mapping, Sequence

from receiver.core.pods import Pod, PodPhase
from receiver.ports import (
    CORDON_ANNOTATION,
    CloudPool,
    ClusterFacts,
    ClusterNode,
    Did,
    Instance,
    Receipt,
    TryLater,
    WontWork,
)
from receiver.replay.switches import Switches
from receiver.replay.watching import WorldAlarms, WorldTelemetry
from receiver.replay.world.objects import Refused, WorldNode, WorldPod
from receiver.replay.world.world import World

__all__ = ["WorldAlarms", "WorldCloud", "WorldCluster", "WorldTelemetry", "as_pod", "as_port_error"]

LATER_CODES = frozenset(
    {
        "cannot_scale_already_rescaling_cluster",
        "database_cluster_pool_instance_delete_failed",
        "database_cluster_pool_no_sufficient_instances_available",
        "database_quota_lock_failed",
        "database_sizes_list",
    }
)
LATER_STATUSES = frozenset({408, 409, 423, 425, 429})
HOSTS = frozenset({"prometheus", "alertmanager", "gpu-autoscaler"})
HOST_LABEL = "app.kubernetes.io/name"


def as_port_error(refused: Refused) -> TryLater | WontWork:
    """Return Civo's refusal as the product's adapter does: judged by its code first, then by its status."""
    detail = f"Civo refused: {refused.code}: {refused.reason}"
    if refused.details:
        detail += f" ({'; '.join(refused.details.splitlines())})"
    later = refused.code in LATER_CODES or refused.status >= 500 or refused.status in LATER_STATUSES
    return TryLater(detail, code=refused.code) if later else WontWork(detail, code=refused.code)


class WorldCloud(Switches):
    """Civo, answered by a World."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def look(self) -> Mapping[str, CloudPool]:
        """Return every pool by id, those at zero nodes too."""
        self.called("look")
        return {
            pool.id: CloudPool(
                id=pool.id,
                required=pool.required,
                size=pool.size,
                instances=tuple(
                    Instance(id=vm.id, hostname=vm.hostname, status=vm.status, created_at=vm.created_at)
                    for vm in pool.instances
                ),
            )
            for pool in self._world.pools.values()
        }

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Ask for *target* nodes unless the count is there already or moved on."""
        self.called("resize")
        required = self._required(pool)
        late = required == shown and decided_on < required <= target
        if required >= target and not late:
            sentence = f"{required} nodes are asked for already, {target} were wanted"
            return Receipt(did=Did.ALREADY, sentence=sentence, required=required)
        if required != decided_on and not late:
            sentence = f"{required} nodes are asked for, the decision was made on {decided_on}"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        try:
            self.write("resize", (pool, target), lambda: self._world.resize(pool, target))
        except Refused as refused:
            raise as_port_error(refused) from None
        after = self._required(pool)
        return Receipt(did=Did.DONE, sentence=f"asked for {target} nodes instead of {required}", required=after)

    def retire(self, pool: str, instance: str) -> Receipt:
        """Delete one instance; ALREADY when it is gone."""
        self.called("retire")
        try:
            self.write("retire", (pool, instance), lambda: self._world.delete_instance(pool, instance))
        except Refused as refused:
            if refused.status == 404:
                return Receipt(did=Did.ALREADY, sentence=f"instance {instance} is gone already")
            raise as_port_error(refused) from None
        required = self._world.pools[pool].required
        return Receipt(did=Did.DONE, sentence=f"asked to delete instance {instance}", required=required)

    def _required(self, pool: str) -> int:
        known = self._world.pools.get(pool)
        if known is None:
            raise WontWork(f"the cluster has no pool {pool}", code="database_cluster_pool_not_found")
        return known.required


class WorldCluster(Switches):
    """Kubernetes, answered by a World. Values are made once per object version: a step mostly meets old ones."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._pods: dict[tuple[str, str], tuple[int, Pod]] = {}
        self._nodes: dict[str, tuple[int, ClusterNode]] = {}

    def look(self) -> ClusterFacts:
        """Return the nodes, and the GPU pods that have not terminated."""
        self.called("look")
        known = self._pods
        self._pods = {}
        for key, pod in self._world.active_pods.items():
            if pod.requests:
                before = known.get(key)
                unchanged = before is not None and before[0] == pod.version
                self._pods[key] = before if before and unchanged else (pod.version, as_pod(pod))
        return ClusterFacts(
            nodes=self._look_at_nodes(),
            pods=tuple(pod for _, pod in self._pods.values()),
        )

    def _look_at_nodes(self) -> tuple[ClusterNode, ...]:
        hosts = self._hosts()
        known = self._nodes
        self._nodes = {}
        for name, node in self._world.nodes.items():
            here = tuple(hosts.get(name, ()))
            before = known.get(name)
            unchanged = before is not None and before[0] == node.version and before[1].hosts == here
            self._nodes[name] = before if before and unchanged else (node.version, _as_node(node, here))
        return tuple(node for _, node in self._nodes.values())

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        """Return the GPU pods bound to *node*."""
        self.called("gpu_pods_on")
        return [as_pod(p) for p in self._on(node) if p.requests]

    def cordon(self, node: str, action: str) -> Receipt:
        """Cordon with our annotation; somebody else's cordon, or no such node: DIFFERS."""
        self.called("cordon")
        found = self._world.nodes.get(node)
        if found is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no node {node}")
        owner = found.annotations.get(CORDON_ANNOTATION)
        if found.unschedulable and owner is None:
            return Receipt(did=Did.DIFFERS, sentence=f"{node} was cordoned by someone else")
        if found.unschedulable and owner == action:
            return Receipt(did=Did.ALREADY, sentence=f"{node} is cordoned for this already")
        marks = {CORDON_ANNOTATION: action}
        self.write(
            "cordon",
            (node, action),
            lambda: self._world.patch_node(node, unschedulable=True, annotations=marks),
        )
        return Receipt(did=Did.DONE, sentence=f"cordoned {node}")

    def uncordon(self, node: str) -> Receipt:
        """Undo a cordon of ours."""
        self.called("uncordon")
        found = self._world.nodes.get(node)
        if found is None or (not found.unschedulable and CORDON_ANNOTATION not in found.annotations):
            return Receipt(did=Did.ALREADY, sentence=f"{node} is not cordoned")
        if CORDON_ANNOTATION not in found.annotations:
            return Receipt(did=Did.DIFFERS, sentence=f"{node} was cordoned by someone else")
        self.write(
            "uncordon",
            (node,),
            lambda: self._world.patch_node(node, unschedulable=False, annotations={CORDON_ANNOTATION: None}),
        )
        return Receipt(did=Did.DONE, sentence=f"uncordoned {node}")

    def drain(self, node: str) -> Receipt:
        """Evict what may go. A GPU pod there: DIFFERS and nothing is evicted."""
        self.called("drain")
        if any(p.requests for p in self._on(node)):
            return Receipt(did=Did.DIFFERS, sentence=f"a GPU pod is on {node}; nothing was evicted")
        here = [p for p in self._on(node) if p.owner_kind not in ("DaemonSet", "Node")]
        if not here:
            return Receipt(did=Did.ALREADY, sentence=f"nothing on {node} has to go")
        for pod in here:
            if pod.deletion_at is None:
                self._evict(pod)
        raise TryLater(f"{len(here)} pods are still leaving {node}", code="draining")

    def announce(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        """Leave an Event on *pod*."""
        self.called("announce")
        self.write(
            "announce",
            (pod.key, reason),
            lambda: self._world.record_event(
                kind="Pod",
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                reason=reason,
                message=message,
                component="gpu-autoscaler",
            ),
        )
        return Receipt(did=Did.DONE, sentence=f"told {pod.key}: {reason}")

    def _evict(self, pod: WorldPod) -> None:
        try:
            self.write("evict", (pod.namespace, pod.name), lambda: self._world.evict(pod.namespace, pod.name))
        except Refused as refused:
            if refused.status != 404:
                detail = f"{pod.namespace}/{pod.name} may not be evicted: {refused.reason}"
                raise TryLater(detail, code="disruption_budget") from None

    def _on(self, node: str) -> list[WorldPod]:
        return self._world.pods_on(node)

    def _hosts(self) -> dict[str, list[str]]:
        """Name, by node, our own and the monitoring pods."""
        found: dict[str, list[str]] = {}
        for pod in self._world.active_pods.values():
            if not pod.requests and pod.node is not None and pod.labels.get(HOST_LABEL) in HOSTS:
                found.setdefault(pod.node, []).append(f"{pod.namespace}/{pod.name}")
        return found


def as_pod(pod: WorldPod) -> Pod:
    """Return a world's pod as the core knows pods."""
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        requests=pod.requests,
        phase=_phase(pod),
        created_at=pod.created_at,
        node=pod.node,
        node_selector=pod.node_selector,
        affinity=pod.affinity,
        tolerations=pod.tolerations,
        priority=pod.priority,
        gang=None if pod.gang is None else f"{pod.namespace}/{pod.gang}",
        owner=f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else "",
        labels=pod.labels,
        daemon=pod.owner_kind == "DaemonSet",
        terminating=pod.deletion_at is not None,
    )


def _phase(pod: WorldPod) -> PodPhase:
    if pod.phase == "Running":
        return PodPhase.RUNNING
    if pod.node is not None:
        return PodPhase.STARTING
    return PodPhase.WAITING if pod.scheduled is False and pod.reason == "Unschedulable" else PodPhase.OTHER


def _as_node(node: WorldNode, hosts: tuple[str, ...]) -> ClusterNode:
    return ClusterNode(
        name=node.name,
        instance=node.instance,
        ready=node.ready,
        unschedulable=node.unschedulable,
        allocatable=node.gpus,
        labels=node.labels,
        annotations=node.annotations,
        taints=node.taints,
        hosts=hosts,
    )
