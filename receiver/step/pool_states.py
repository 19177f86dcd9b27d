"""Join what every source says of one pool into its `PoolState`.

Promises to ask nobody. What a source did not tell is unknown, never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.core.model.actions import ActionKind, VictimStage
from receiver.core.model.memory import Memory, NodeLife, PoolMemory
from receiver.core.model.model import CordonedBy, Drift, Node, PoolState, Stage
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Pool
from receiver.core.model.silences import PoolSilence
from receiver.core.money.unanswered import highest
from receiver.core.scaling.capacity import SHORT_LOSS
from receiver.core.scaling.count_drift import drift, expected_count
from receiver.core.scaling.demand import offer_of, room_beside_gpus
from receiver.ports import (
    CORDON_ANNOTATION,
    PROTECT_ANNOTATION,
    STOP_ANNOTATION,
    CloudPool,
    ClusterFacts,
    ClusterNode,
    Instance,
    TelemetryFacts,
)
from receiver.step.node_lifetimes import offers_gpus, served_by_dra, stage_of, startup_taint
from receiver.step.stray_nodes import unjoined


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What each source said (None: it did not answer), for joining."""

    cloud: Mapping[str, CloudPool] | None
    cluster: ClusterFacts | None
    telemetry: TelemetryFacts | None
    memory: Memory
    lives: Mapping[str, NodeLife]
    silenced: Mapping[str, PoolSilence]
    nodes: Mapping[str, ClusterNode]  # by instance id
    pods: Mapping[str, tuple[Pod, ...]]  # GPU pods by the node they are bound to
    at: datetime
    machines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by size, as far as it is known
    startup_taints: tuple[str, ...] = ()


def pool_state(pool: Pool, seen: Seen) -> PoolState:
    """Return what is known of *pool*."""
    past = seen.memory.pools.get(pool.id, PoolMemory())
    found = seen.cloud.get(pool.id) if seen.cloud is not None else None
    shown = past.required if seen.cloud is None else (found.required if found else 0)
    required = expected_count(past.late, shown, seen.at)
    nodes = tuple(_node(i, pool, seen, past) for i in (found.instances if found else ()))
    offer = offer_of(pool, nodes, past.offer, seen.at, seen.startup_taints)
    found_drift = drift_of(pool.id, shown, seen.memory, seen.at) if found is not None else None
    return PoolState(
        pool=pool.id,
        required=required,
        nodes=nodes,
        open_action=past.open_action,
        last_grow_at=past.last_grow_at,
        last_shrink_at=past.last_shrink_at,
        backoff=past.backoff,
        refused=seen.memory.refused.get(pool.id),
        removal_backoff=past.removal_backoff,
        required_since=past.required_since if past.required == shown else seen.at,
        uncounted=shown - required,
        provisioning=past.provisioning,
        ready_in=past.ready_in,
        drifts=(*past.drifts, *([found_drift] if found_drift else [])),
        offer=offer,
        compute=room_beside_gpus(seen.machines.get(pool.size, {}), offer),
        unjoined=unjoined(pool, seen.cloud, seen.cluster),
        utilization=seen.telemetry.utilization.get(pool.id) if seen.telemetry else None,
        silence=seen.silenced.get(pool.id),
    )


def _node(instance: Instance, pool: Pool, seen: Seen, past: PoolMemory) -> Node:
    node, life = seen.nodes.get(instance.id), seen.lives.get(instance.id)
    stage = stage_of(instance, node, seen.cluster is not None, pool, seen.startup_taints)
    taint = startup_taint(node, pool, seen.startup_taints) if node and offers_gpus(node, pool) else None
    was_usable = life is not None and life.usable_at is not None
    if was_usable and stage in (Stage.BOOTING, Stage.INSTALLING):
        # It was usable before: a node that lost its GPUs or went NotReady is not on its way.
        stage = _retainted(life, pool, seen.at) if taint and stage is Stage.INSTALLING else Stage.BROKEN
    elif stage is Stage.BOOTING and node is None and _lost_for(life, seen.at) > SHORT_LOSS:
        stage = Stage.BROKEN  # it was in Kubernetes, and one list without it may be a partial one
    cordoned_for = node.annotations.get(CORDON_ANNOTATION) if node else None
    closed_for = node.annotations.get(STOP_ANNOTATION) if node else None
    cordoned_by = None
    if node is not None and node.unschedulable:
        cordoned_by = CordonedBy.US if cordoned_for or closed_for is not None else CordonedBy.SOMEONE
    pods = seen.pods.get(node.name if node else instance.hostname, ())
    return Node(
        name=node.name if node else instance.hostname,
        instance=instance.id,
        stage=Stage.DELETING if _is_deleted(instance.id, past) else stage,
        created_at=life.created_at if life else instance.created_at,
        registered=node is not None,
        ready=node is not None and node.ready,
        was_usable=was_usable,
        usable_since=life.usable_at if life else None,
        seen_since=life.seen_at if life else None,
        unknown_since=life.unknown_since if life else None,
        lost_at=life.lost_at if life else None,
        kept_until=life.kept_until if life else None,
        kept_for=life.kept_for if life else "",
        allocatable=_allocatable(node, pool, seen) if node else {},
        pods=pods,
        idle_since=life.idle_since if life and stage is Stage.USABLE and not pods else None,
        cordoned_by=cordoned_by,
        cordoned_for=cordoned_for,
        closed_for=closed_for,
        leaving=instance.status == "DELETING",
        protected=node is not None and node.annotations.get(PROTECT_ANNOTATION, "false").lower() != "false",
        hosts=node.hosts if node else (),
        kept_by=node.kept_by if node and node.ready else (),
        labels=dict(node.labels) if node else {},
        taints=node.taints if node else (),
        startup_taint=taint.key if taint else "",
        dra=node is not None and served_by_dra(node, pool),
        activity=seen.telemetry.nodes.get(node.name) if seen.telemetry and node else None,
        compute=node.compute if node else {},
        others=node.others if node else {},
        daemons=node.daemons if node else {},
    )


def _allocatable(node: ClusterNode, pool: Pool, seen: Seen) -> Mapping[str, int]:
    """What *node* offers. Its status never shows what a DRA driver serves: that is believed to be as configured, for
    the resources that a DeviceClass answers to."""
    if not served_by_dra(node, pool):
        return dict(node.allocatable)
    served = seen.cluster.dra_resources if seen.cluster is not None else None
    return {r: n for r, n in pool.resources.items() if served is None or r in served}


def _retainted(life: NodeLife | None, pool: Pool, now: datetime) -> Stage:
    """The stage of a node that was usable and carries a startup taint again: for a moment that changes nothing, then it
    is no room for pods, and after the provision timeout it is broken."""
    lasted = _lost_for(life, now)
    if lasted <= SHORT_LOSS:
        return Stage.USABLE
    return Stage.INSTALLING if lasted <= pool.provision_timeout else Stage.BROKEN


def _lost_for(life: NodeLife | None, now: datetime) -> timedelta:
    return now - life.lost_at if life is not None and life.lost_at is not None else timedelta(0)


def drift_of(pool: str, shown: int, memory: Memory, now: datetime) -> Drift | None:
    """Return how Civo's count *shown* of *pool* (an id) changed without us, or None."""
    return drift(memory.pools.get(pool), shown, now, highest(memory.unanswered, pool))


def _is_deleted(instance: str, past: PoolMemory) -> bool:
    """True when our own DELETE of *instance* was accepted, whatever Civo's list still says."""
    action = past.open_action
    if action is None or action.kind is not ActionKind.RETIRE:
        return False
    return any(v.instance == instance and v.stage is VictimStage.DELETED for v in action.victims)
