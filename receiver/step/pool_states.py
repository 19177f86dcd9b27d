"""Join what every source says of one pool into its `PoolState`.

Calls no source. Missing data count as unknown, never as zero.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.actions import ActionKind, VictimStage
from receiver.core.model.activity import Use, judge
from receiver.core.model.memory import Memory, NodeLife, PoolMemory
from receiver.core.model.model import CordonedBy, Drift, Node, PoolState, Stage
from receiver.core.model.pods import Pod, PodPhase, kept
from receiver.core.model.policy import POOL_LABEL, Policy, Pool, Taint
from receiver.core.model.resources import gpus_of
from receiver.core.model.signals import PoolSilence
from receiver.core.money.budget import highest
from receiver.core.scaling.capacity import SHORT_LOSS
from receiver.core.scaling.demand import offer_of, room_beside_gpus
from receiver.core.scaling.waits import drift, expected_count
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
from receiver.step.parts import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswers:
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
    unjoined: tuple[ClusterNode, ...] = ()  # ready nodes whose provider id names no listed instance
    machines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by size, as far as it is known
    startup_taints: tuple[str, ...] = ()


def pool_state(pool: Pool, seen: SourceAnswers) -> PoolState:
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
        unjoined=tuple(
            n.name
            for n in seen.unjoined
            if n.labels.get(POOL_LABEL) == pool.id or ((n.allocatable or n.dra) and POOL_LABEL not in n.labels)
        ),
        utilization=seen.telemetry.utilization.get(pool.id) if seen.telemetry else None,
        silence=seen.silenced.get(pool.id),
    )


def _node(instance: Instance, pool: Pool, seen: SourceAnswers, past: PoolMemory) -> Node:
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


def _allocatable(node: ClusterNode, pool: Pool, seen: SourceAnswers) -> Mapping[str, int]:
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


SEEN = (
    "gone_at",
    "active_at",
    "registered_at",
    "ready_at",
    "usable_at",
    "bound_at",
    "running_at",
    "idle_since",
    "lost_at",
    "unknown_since",
    "seen_at",
)
AFTER_BUILDING = (Stage.BOOTING, Stage.INSTALLING, Stage.USABLE)
# Where a node that was usable stands when it goes NotReady, loses its GPUs, or Civo says something new of it.
LOST = (Stage.BOOTING, Stage.INSTALLING, Stage.BROKEN)


def lives_of(
    cloud: Mapping[str, CloudPool] | None,
    cluster: ClusterFacts | None,
    telemetry: TelemetryFacts | None,
    memory: Memory,
    policy: Policy,
    now: datetime,
    parts: Parts,
    *,
    steady: bool = False,
) -> tuple[NodeLife, ...]:
    """Bring the node lives of the ledger up to date with what Civo lists now.

    Where the clock is *steady*, moments that lie ahead are corrected: they were noted under another one.
    """
    past = tuple(_believed(life, now) for life in memory.lives) if steady else memory.lives
    known = {life.instance: life for life in past}
    if cloud is None:
        return past
    nodes = {n.instance: n for n in cluster.nodes} if cluster else {}
    held = by_node(cluster)
    active = {name for name, seen in telemetry.nodes.items() if judge(seen) is Use.ACTIVE} if telemetry else set()
    listed: dict[str, NodeLife] = {}
    for found in cloud.values():
        pool = policy.pool(found.id)
        for instance in found.instances:
            old = known.get(instance.id)
            if pool is not None:
                if old is not None:
                    listed[instance.id] = old  # if what it is now cannot be told
                with parts.part("node_life", pool.id, sets_aside=True):
                    node = nodes.get(instance.id)
                    known_as = node.name if node else instance.hostname
                    sight = _Sight(
                        stage=stage_of(instance, node, cluster is not None, pool, policy.startup_taints),
                        set_up=node is not None and offers_gpus(node, pool),
                        pods=held.get(known_as, ()),
                        active=known_as in active,
                        labels=node.labels if node else None,
                    )
                    life = _life(old, instance, pool, sight, now)
                    until, kept_for = kept((life.kept_until, life.kept_for), sight.pods, policy.keep_until, now)
                    # While it builds, Civo may leave its creation out: then it was noted by a clock that was ahead.
                    created_at = min(life.created_at, instance.created_at) if steady else life.created_at
                    listed[instance.id] = _with(life, created_at=created_at, kept_until=until, kept_for=kept_for)
            elif old is not None:  # its pool left the configuration: it still costs what it cost
                listed[instance.id] = _with(old, idle_since=None)
    gone = (
        life if life.gone_at else replace(life, gone_at=now, idle_since=None)
        for life in past
        if life.instance not in listed
    )
    return (*listed.values(), *(_priced(life, policy) for life in gone))


def _believed(life: NodeLife, now: datetime) -> NodeLife:
    """*life* without moments that lie ahead: a step saw them under a clock that was ahead. They were by now at the
    latest, and what has ended goes on costing no longer."""
    ahead: dict[str, Any] = {name: now for name in SEEN if (at := getattr(life, name)) is not None and at > now}
    return replace(life, **ahead) if ahead else life


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """What was seen of an instance: its stage, its GPU pods, whether DCGM shows its GPUs in use, its node's *labels*
    (None: it has no node, or Kubernetes did not answer). *set_up* is True once its GPUs are allocatable."""

    stage: Stage
    set_up: bool
    pods: tuple[Pod, ...]
    active: bool
    labels: Mapping[str, str] | None


def _life(old: NodeLife | None, instance: Instance, pool: Pool, sight: _Sight, now: datetime) -> NodeLife:
    """The life of a listed instance. The first `created_at` counts: while it builds, Civo may leave it out.

    GPUs in use on a usable node without a GPU pod make it neither busy nor idle: it is unknown.
    """
    past = old or NodeLife(
        instance=instance.id, pool=pool.id, name=instance.hostname, size=pool.size, created_at=instance.created_at
    )
    usable = sight.stage is Stage.USABLE
    registered_at = past.registered_at or past.ready_at or (None if sight.labels is None else now)
    # A node that was in Kubernetes and is gone is not being built: its Node object was deleted.
    vanished = sight.stage is Stage.BOOTING and sight.labels is None and registered_at is not None
    # A startup taint that comes back does not begin the idle time anew.
    retainted = sight.stage is Stage.INSTALLING and sight.set_up and past.usable_at is not None
    empty = (usable or retainted) and not sight.pods
    runs = any(p.phase is PodPhase.RUNNING for p in sight.pods)
    return _with(
        past,
        pool=pool.id,
        name=instance.hostname,
        size=pool.size,
        price_usd_per_hour=pool.price_usd_per_hour if past.price_usd_per_hour is None else past.price_usd_per_hour,
        gpus=past.gpus if past.gpus and sight.labels is None else gpus_of(pool.resources, sight.labels or {}),
        gone_at=None,
        seen_at=past.seen_at or now,
        active_at=past.active_at or (now if sight.stage in AFTER_BUILDING else None),
        registered_at=registered_at,
        ready_at=past.ready_at or (now if sight.stage in (Stage.INSTALLING, Stage.USABLE) else None),
        usable_at=past.usable_at or (now if usable else None),
        bound_at=past.bound_at or (now if sight.pods else None),
        running_at=past.running_at or (now if runs else None),
        idle_since=(past.idle_since or now) if empty else None,
        unknown_since=(past.unknown_since or now) if empty and sight.active else None,
        lost_at=(past.lost_at or now) if vanished or (sight.stage in LOST and past.usable_at) else None,
    )


def _with(life: NodeLife, **seen: Any) -> NodeLife:
    """*life* with what was *seen*; itself where that is nothing new, as it is at most steps."""
    news = {name: value for name, value in seen.items() if getattr(life, name) != value}
    return replace(life, **news) if news else life


def _priced(life: NodeLife, policy: Policy) -> NodeLife:
    """Give a life without a price the one that its size has by now."""
    pool = policy.pool(life.pool)
    if life.price_usd_per_hour is not None or pool is None or pool.size != life.size:
        return life
    return replace(life, price_usd_per_hour=pool.price_usd_per_hour)


def by_node(cluster: ClusterFacts | None) -> Mapping[str, tuple[Pod, ...]]:
    """The GPU pods that hold a node, running or about to, by its name."""
    held: dict[str, list[Pod]] = {}
    for pod in cluster.pods if cluster else ():
        if pod.node:
            held.setdefault(pod.node, []).append(pod)
    return {name: tuple(pods) for name, pods in held.items()}


def stage_of(
    instance: Instance,
    node: ClusterNode | None,
    cluster_answers: bool,
    pool: Pool,
    startup_taints: tuple[str, ...] = (),
) -> Stage:
    """How far an instance has come. Civo's undocumented statuses are broken, not busy and not idle."""
    if instance.status == "DELETING":
        return Stage.DELETING
    if instance.status in ("BUILDING", "BUILD_PENDING"):
        return Stage.BUILDING
    if instance.status != "ACTIVE":
        return Stage.BROKEN
    if not cluster_answers:
        return Stage.UNKNOWN
    if node is None or not node.ready:
        return Stage.BOOTING
    if not offers_gpus(node, pool) or startup_taint(node, pool, startup_taints) is not None:
        return Stage.INSTALLING
    return Stage.USABLE


def offers_gpus(node: ClusterNode, pool: Pool) -> bool:
    """True when *node* has some of everything that a node of *pool* offers."""
    return served_by_dra(node, pool) or all(node.allocatable.get(r, 0) > 0 for r in pool.resources)


def served_by_dra(node: ClusterNode, pool: Pool) -> bool:
    """True when a DRA driver shows GPUs on *node*, and no device plugin does: Kubernetes decides that by node."""
    return node.dra and not any(node.allocatable.get(r, 0) > 0 for r in pool.resources)


def startup_taint(node: ClusterNode, pool: Pool, prefixes: tuple[str, ...]) -> Taint | None:
    """The first taint of *node* that begins with one of *prefixes* and keeps pods away, unless *pool* is configured
    with it."""
    hard = (t for t in node.taints if t.effect != "PreferNoSchedule" and t not in pool.taints)
    return next((t for t in hard if t.key.startswith(prefixes)), None)


def unjoined_nodes(cloud: Mapping[str, CloudPool] | None, cluster: ClusterFacts | None) -> tuple[ClusterNode, ...]:
    """The ready Kubernetes nodes whose provider id names no listed instance, of any pool or none."""
    if cloud is None or cluster is None:
        return ()
    listed = {i.id for found in cloud.values() for i in found.instances}
    return tuple(n for n in cluster.nodes if n.ready and n.instance not in listed)


def strays(pools: Sequence[PoolState], cluster: ClusterFacts | None, ours: Collection[str]) -> tuple[str, ...]:
    """The nodes that we closed to new work and that belong to none of *ours* (pool ids) any more."""
    known = {node.name for state in pools for node in state.nodes}
    closed = (n for n in (cluster.nodes if cluster else ()) if STOP_ANNOTATION in n.annotations)
    return tuple(n.name for n in closed if n.name not in known and n.labels.get(POOL_LABEL) not in ours)
