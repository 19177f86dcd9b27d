"""Ask every source once and join what they say into one `Facts` value.

Promises not to decide and not to write. A source that fails becomes a SourceState that says so; what it
would have told is unknown, never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from receiver.answers import ask, date_changes, judge_dcgm, judge_heartbeat, judge_prometheus
from receiver.core.actions import Action, ActionKind, VictimStage
from receiver.core.budget import month_of
from receiver.core.cost import spend
from receiver.core.memory import Memory, NodeLife, PoolMemory
from receiver.core.model import CordonedBy, Facts, Node, PoolState, Source, SourceState, Spend, Stage
from receiver.core.pods import Pod, PodPhase
from receiver.core.policy import Policy, Pool
from receiver.core.signals import signals_from, silenced_pools
from receiver.ports import (
    CORDON_ANNOTATION,
    PROTECT_ANNOTATION,
    Alarms,
    Cloud,
    CloudPool,
    Cluster,
    ClusterFacts,
    ClusterNode,
    Instance,
    Store,
    Telemetry,
    TelemetryFacts,
)

SILENT_BEFORE_FALLBACK = timedelta(minutes=1)
PAYLOAD_LIFE = timedelta(
    minutes=4, seconds=30
)  # 2 x repeat_interval (2m) + group_interval (30s) of rules/alertmanager.yml
LOST = (Stage.BOOTING, Stage.INSTALLING)  # where a node that was usable stands when it loses its GPUs or goes NotReady


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where `look` asks. None means that the operator configured no such source."""

    cloud: Cloud
    cluster: Cluster | None
    telemetry: Telemetry | None
    alarms: Alarms | None
    store: Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The facts, and what the ledger should keep of them: node lives and required counts.

    *orphans* are open actions of pools that left the configuration, *pods* every GPU pod of the cluster, those on
    nodes of no configured pool too.
    """

    facts: Facts
    lives: tuple[NodeLife, ...]
    required: Mapping[str, int]
    orphans: tuple[Action, ...] = ()
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What each source said (None: it did not answer), for joining."""

    cloud: Mapping[str, CloudPool] | None
    cluster: ClusterFacts | None
    telemetry: TelemetryFacts | None
    memory: Memory
    lives: Mapping[str, NodeLife]
    silenced: Mapping[str, str]
    nodes: Mapping[str, ClusterNode]  # by instance id
    pods: Mapping[str, tuple[Pod, ...]]  # GPU pods by the node they are bound to
    at: datetime


def look(sources: Sources, policy: Policy, now: datetime) -> Looked:
    """Return what is true at *now*. Raises TryLater only when the store cannot be read."""
    month = month_of(now, policy.budget.timezone if policy.budget else "UTC")
    memory = sources.store.memory(now, month.start)
    states: dict[Source, SourceState] = {Source.STORE: SourceState(source=Source.STORE, up=True, at=now)}
    cloud = ask(Source.CIVO, sources.cloud.look, states, now)
    cluster = ask(Source.KUBERNETES, sources.cluster.look if sources.cluster else None, states, now)
    telemetry = ask(Source.PROMETHEUS, sources.telemetry.look if sources.telemetry else None, states, now)
    alarms = ask(Source.ALERTMANAGER, sources.alarms.look if sources.alarms else None, states, now)
    judge_prometheus(telemetry, states, now)
    judge_heartbeat(memory, policy, states, now)

    lives = _lives(cloud, cluster, memory, policy, now)
    usd, unpriced = spend(lives, month.start, now, policy.billing)
    alerts = [*(alarms.alerts if alarms else ())]
    if alarms is None:
        alerts += sources.store.remembered_alerts(now - PAYLOAD_LIFE)
    seen = _Seen(
        cloud=cloud,
        cluster=cluster,
        telemetry=telemetry,
        memory=memory,
        lives={life.instance: life for life in lives},
        silenced=silenced_pools(alarms.silences if alarms else (), policy),
        nodes={n.instance: n for n in cluster.nodes} if cluster else {},
        pods=_by_node(cluster),
        at=now,
    )
    pools = tuple(_pool_state(p, seen) for p in policy.pools)
    judge_dcgm(pools, telemetry, states, now)
    date_changes(states, sources.store, now)
    facts = Facts(
        at=now,
        pools=pools,
        waiting=_waiting(cluster, telemetry, states[Source.KUBERNETES], now),
        signals=signals_from(alerts, policy),
        sources=states,
        spend=Spend(month=month.name, usd=usd, unpriced=unpriced),
        grown_last_hour=memory.grown_last_hour,
        removed_last_hour=memory.removed_last_hour,
        deliveries=memory.deliveries,
    )
    required = {p.id: cloud[p.id].required for p in policy.pools if p.id in cloud} if cloud is not None else {}
    ours = {p.id for p in policy.pools}
    orphans = tuple(m.open_action for i, m in memory.pools.items() if m.open_action is not None and i not in ours)
    pods = cluster.pods if cluster else ()
    return Looked(facts=facts, lives=lives, required=required, orphans=orphans, pods=pods)


def _waiting(
    cluster: ClusterFacts | None, telemetry: TelemetryFacts | None, kubernetes: SourceState, now: datetime
) -> tuple[Pod, ...]:
    """Pods that may be demand: from Kubernetes, or as kube-state-metrics knows them when it cannot be asked.

    That is older by a scrape and an evaluation, so it is not used before Kubernetes has been silent for a while.
    """
    if cluster is not None:
        return tuple(p for p in cluster.pods if p.phase is PodPhase.WAITING)
    if kubernetes.configured and (kubernetes.since is None or now - kubernetes.since < SILENT_BEFORE_FALLBACK):
        return ()
    return telemetry.waiting if telemetry is not None else ()


def _lives(
    cloud: Mapping[str, CloudPool] | None,
    cluster: ClusterFacts | None,
    memory: Memory,
    policy: Policy,
    now: datetime,
) -> tuple[NodeLife, ...]:
    """Bring the node lives of the ledger up to date with what Civo lists now."""
    known = {life.instance: life for life in memory.lives}
    if cloud is None:
        return memory.lives
    nodes = {n.instance: n for n in cluster.nodes} if cluster else {}
    held = _by_node(cluster)
    listed: dict[str, NodeLife] = {}
    for found in cloud.values():
        pool = policy.pool(found.id)
        for instance in found.instances:
            old = known.get(instance.id)
            if pool is not None:
                stage = _stage(instance, nodes.get(instance.id), cluster is not None, pool)
                known_as = nodes[instance.id].name if instance.id in nodes else instance.hostname
                idle = stage is Stage.USABLE and known_as not in held
                listed[instance.id] = _life(old, instance, pool, stage, idle, now)
            elif old is not None:  # its pool left the configuration: it still costs what it cost
                listed[instance.id] = replace(old, idle_since=None)
    gone = (
        life if life.gone_at else replace(life, gone_at=now, idle_since=None)
        for life in memory.lives
        if life.instance not in listed
    )
    return (*listed.values(), *(_priced(life, policy) for life in gone))


def _life(old: NodeLife | None, instance: Instance, pool: Pool, stage: Stage, idle: bool, now: datetime) -> NodeLife:
    """The life of a listed instance. The first `created_at` counts: while it builds, Civo may leave it out."""
    price = old.price_usd_per_hour if old else None
    return NodeLife(
        instance=instance.id,
        pool=pool.id,
        name=instance.hostname,
        size=pool.size,
        created_at=old.created_at if old else instance.created_at,
        price_usd_per_hour=pool.price_usd_per_hour if price is None else price,
        usable_at=(old.usable_at if old else None) or (now if stage is Stage.USABLE else None),
        idle_since=((old.idle_since if old else None) or now) if idle else None,
        lost_at=((old.lost_at if old else None) or now) if stage in LOST and old and old.usable_at else None,
    )


def _priced(life: NodeLife, policy: Policy) -> NodeLife:
    """Give a life without a price the one that its size has by now."""
    pool = policy.pool(life.pool)
    if life.price_usd_per_hour is not None or pool is None or pool.size != life.size:
        return life
    return replace(life, price_usd_per_hour=pool.price_usd_per_hour)


def _by_node(cluster: ClusterFacts | None) -> Mapping[str, tuple[Pod, ...]]:
    """The GPU pods that hold a node, running or about to, by its name."""
    held: dict[str, list[Pod]] = {}
    for pod in cluster.pods if cluster else ():
        if pod.node:
            held.setdefault(pod.node, []).append(pod)
    return {name: tuple(pods) for name, pods in held.items()}


def _stage(instance: Instance, node: ClusterNode | None, cluster_answers: bool, pool: Pool) -> Stage:
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
    offered = all(node.allocatable.get(r, 0) > 0 for r in pool.resources)
    return Stage.USABLE if offered else Stage.INSTALLING


def _pool_state(pool: Pool, seen: _Seen) -> PoolState:
    past = seen.memory.pools.get(pool.id, PoolMemory())
    found = seen.cloud.get(pool.id) if seen.cloud is not None else None
    required = past.required if seen.cloud is None else (found.required if found else 0)
    instances = found.instances if found else ()
    return PoolState(
        pool=pool.id,
        required=required,
        nodes=tuple(_node(i, pool, seen, past) for i in instances),
        open_action=past.open_action,
        last_grow_at=past.last_grow_at,
        last_shrink_at=past.last_shrink_at,
        backoff=past.backoff,
        removal_backoff=past.removal_backoff,
        required_since=past.required_since if past.required == required else seen.at,
        utilization=seen.telemetry.utilization.get(pool.id) if seen.telemetry else None,
        silenced_by=seen.silenced.get(pool.id),
    )


def _node(instance: Instance, pool: Pool, seen: _Seen, past: PoolMemory) -> Node:
    node, life = seen.nodes.get(instance.id), seen.lives.get(instance.id)
    stage = _stage(instance, node, seen.cluster is not None, pool)
    was_usable = life is not None and life.usable_at is not None
    if was_usable and stage in (Stage.BOOTING, Stage.INSTALLING):
        stage = Stage.BROKEN  # it was usable before: a node that lost its GPUs or went NotReady is not on its way
    cordoned_for = node.annotations.get(CORDON_ANNOTATION) if node else None
    cordoned_by = None
    if node is not None and node.unschedulable:
        cordoned_by = CordonedBy.US if cordoned_for else CordonedBy.SOMEONE
    pods = seen.pods.get(node.name if node else instance.hostname, ())
    return Node(
        name=node.name if node else instance.hostname,
        instance=instance.id,
        stage=Stage.DELETING if _is_deleted(instance.id, past) else stage,
        created_at=life.created_at if life else instance.created_at,
        was_usable=was_usable,
        lost_at=life.lost_at if life else None,
        allocatable=dict(node.allocatable) if node else {},
        pods=pods,
        idle_since=life.idle_since if life and stage is Stage.USABLE and not pods else None,
        cordoned_by=cordoned_by,
        cordoned_for=cordoned_for,
        leaving=instance.status == "DELETING",
        protected=node is not None and node.annotations.get(PROTECT_ANNOTATION, "false").lower() != "false",
        hosts=node.hosts if node else (),
        labels=dict(node.labels) if node else {},
        taints=node.taints if node else (),
    )


def _is_deleted(instance: str, past: PoolMemory) -> bool:
    """True when our own DELETE of *instance* was accepted, whatever Civo's list still says."""
    action = past.open_action
    if action is None or action.kind is not ActionKind.RETIRE:
        return False
    return any(v.instance == instance and v.stage is VictimStage.DELETED for v in action.victims)
