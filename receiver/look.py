"""Ask every source once and join what they say into one `Facts` value.

Promises not to decide and not to write. A source that fails becomes a SourceState that says so; what it
would have told is unknown, never zero.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.answers import ask, date_changes, judge_dcgm, judge_heartbeat, judge_prometheus
from receiver.books import keep_books
from receiver.core.actions import Action, ActionKind, VictimStage
from receiver.core.attribution import attribute, by_team
from receiver.core.budget import Month, month_of
from receiver.core.charges import Charged
from receiver.core.cost import A_WEEK, elsewhere_per_hour, last_week
from receiver.core.counts import drift, expected_count, why_removals_stop
from receiver.core.demand import offer_of
from receiver.core.ended import spent
from receiver.core.memory import Memory, NodeLife, PoolMemory
from receiver.core.model import CordonedBy, Drift, Facts, Node, PoolState, Source, SourceState, Spend, Stage
from receiver.core.overrides import Override
from receiver.core.pods import Pod, PodPhase
from receiver.core.policy import Policy, Pool, Scope
from receiver.core.seed import Seed
from receiver.core.signals import numbered, signals_from
from receiver.core.silences import PoolSilence, silenced_pools
from receiver.core.steady import is_steady
from receiver.core.unanswered import highest
from receiver.lives import by_node, lives_of, stage_of
from receiver.ports import (
    CORDON_ANNOTATION,
    PROTECT_ANNOTATION,
    STOP_ANNOTATION,
    Accounts,
    Alarms,
    Cloud,
    CloudPool,
    Cluster,
    ClusterFacts,
    ClusterNode,
    Instance,
    Snapshot,
    Store,
    Telemetry,
    TelemetryFacts,
)
from receiver.stray_nodes import strays, unjoined

SILENT_BEFORE_FALLBACK = timedelta(minutes=1)
PAYLOAD_LIFE = timedelta(
    minutes=4, seconds=30
)  # 2 x repeat_interval (2m) + group_interval (30s) of rules/alertmanager.yml


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where `look` asks. None means that the operator configured no such source."""

    cloud: Cloud
    cluster: Cluster | None
    telemetry: Telemetry | None
    alarms: Alarms | None
    store: Store
    accounts: Accounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The facts, and what the ledger should keep of them: node lives, required counts as Civo shows them, drifts.

    *works* are the pools of which a node has just become usable, *replaced* those whose removals Civo answers
    otherwise than by one node less, with the sentence that says how. *orphans* are open actions of pools that left
    the configuration, *strays* nodes of such pools that we closed to new work, *resumed* overrides that go on although
    a step under a clock ahead had ended them, *pods* every GPU pod of the cluster, those on nodes of no configured pool
    too. *charged* is a new answer of Civo's on what it charged, *seed* what a month had cost before this store, where
    new. *before* is the picture that the step before this one left. *steady* says that the clock can be believed.
    """

    facts: Facts
    lives: tuple[NodeLife, ...]
    required: Mapping[str, int]
    works: frozenset[str] = frozenset()
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    orphans: tuple[Action, ...] = ()
    resumed: tuple[Override, ...] = ()
    before: Snapshot | None = None
    steady: bool = False
    strays: tuple[str, ...] = ()
    pods: tuple[Pod, ...] = ()
    charged: Charged | None = None
    seed: Seed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
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


def look(sources: Sources, policy: Policy, now: datetime, *, forecasts: bool = True) -> Looked:
    """Return what is true at *now*. Raises TryLater only when the store cannot be read.

    Without *forecasts* what the last week cost is left out, which nothing else needs.
    """
    month = month_of(now, policy.timezone)
    memory = sources.store.memory(now, min(month.start, now - A_WEEK))
    states: dict[Source, SourceState] = {Source.STORE: SourceState(source=Source.STORE, up=True, at=now)}
    cloud = ask(Source.CIVO, sources.cloud.look, states, now)
    cluster = ask(Source.KUBERNETES, sources.cluster.look if sources.cluster else None, states, now)
    telemetry = ask(Source.PROMETHEUS, sources.telemetry.look if sources.telemetry else None, states, now)
    alarms = ask(Source.ALERTMANAGER, sources.alarms.look if sources.alarms else None, states, now)
    judge_prometheus(telemetry, states, now)
    judge_heartbeat(memory, policy, states, now)

    before = sources.store.snapshot()
    steady = is_steady(before[1] if before is not None else None, now)
    resumed = memory.ran_out_early if steady else ()
    lives = lives_of(cloud, cluster, telemetry, memory, policy, now, steady=steady)
    pools_usd, unpriced = spent(memory.ended, lives, month.start, now, policy.billing)
    usd = sum(pools_usd.values(), Decimal(0))
    week, week_hours = last_week(lives, now, policy.billing) if forecasts else ({}, Decimal(0))
    nodes_seen = cloud is not None
    books = keep_books(sources.accounts, memory, lives, usd, policy, month, now, nodes_seen=nodes_seen)
    kept = sources.store.remembered_alerts(now - PAYLOAD_LIFE) if alarms is None or memory.deliveries else ()
    alerts = list(kept) if alarms is None else numbered(alarms.alerts, kept)
    seen = _Seen(
        cloud=cloud,
        cluster=cluster,
        telemetry=telemetry,
        memory=memory,
        lives={life.instance: life for life in lives},
        silenced=silenced_pools(alarms.silences if alarms else (), policy),
        nodes={n.instance: n for n in cluster.nodes} if cluster else {},
        pods=by_node(cluster),
        at=now,
    )
    pools = tuple(_pool_state(p, seen) for p in policy.pools)
    judge_dcgm(pools, telemetry, states, now)
    date_changes(states, before, now)
    ours = {p.id for p in policy.pools}
    orphans = tuple(m.open_action for i, m in memory.pools.items() if m.open_action is not None and i not in ours)
    facts = Facts(
        at=now,
        pools=pools,
        waiting=_waiting(cluster, telemetry, states[Source.KUBERNETES], now),
        signals=signals_from(alerts, policy),
        sources=states,
        spend=books.added_to(
            Spend(
                month=month.name,
                usd=usd,
                unpriced=unpriced,
                pools=pools_usd,
                teams=_teams(sources, memory, lives, month, policy, now),
                elsewhere_per_hour=elsewhere_per_hour(lives, {pool.id for pool in policy.pools}),
                week=week,
                week_hours=week_hours,
            )
        ),
        budget_changes=memory.budget_changes,
        grown_last_hour=memory.grown_last_hour,
        removed_last_hour=memory.removed_last_hour,
        first_changed_at=memory.first_changed_at,
        bound_gangs=_bound_gangs(cluster),
        deliveries=memory.deliveries,
        charges=books.compared,
        unanswered=(*memory.unanswered, *(a for a in orphans if a.kind is ActionKind.GROW)),
        overrides=(*memory.overrides, *resumed),
    )
    required = {p.id: cloud[p.id].required for p in policy.pools if p.id in cloud} if cloud is not None else {}
    worked = {life.instance for life in memory.lives if life.usable_at is not None}
    return Looked(
        facts=facts,
        lives=lives,
        required=required,
        works=frozenset(x.pool for x in lives if x.usable_at is not None and x.instance not in worked),
        drifts={i: d for i, n in required.items() if (d := _drift(i, n, memory, now)) is not None},
        replaced=_replaced(pools, required, memory, now),
        orphans=orphans,
        resumed=resumed,
        before=before,
        steady=steady,
        strays=strays(pools, cluster, ours) if cloud is not None else (),
        pods=cluster.pods if cluster else (),
        charged=books.charged,
        seed=books.seed,
    )


def _teams(
    sources: Sources, memory: Memory, lives: Sequence[NodeLife], month: Month, policy: Policy, now: datetime
) -> Mapping[str, Decimal] | None:
    """What the workloads of each team held this month; None where no team has a budget or no cluster says who holds
    what. Sharing out a month of thousands of nodes takes a while, so it is done only for those who need it."""
    set_now = any(c.scope is Scope.TEAM and c.month == month.name for c in memory.budget_changes)
    if sources.cluster is None or policy.budget is None or not (policy.budget.teams or set_now):
        return None
    return by_team(attribute(lives, sources.store.usage(month.name), (), month, now, policy.billing))


def _replaced(
    pools: Sequence[PoolState], required: Mapping[str, int], memory: Memory, now: datetime
) -> Mapping[str, str]:
    found = {
        state.pool: why_removals_stop(memory.pools[state.pool].late, required[state.pool], len(state.living), now)
        for state in pools
        if state.pool in required and state.pool in memory.pools
    }
    return {pool: why for pool, why in found.items() if why is not None}


def _bound_gangs(cluster: ClusterFacts | None) -> Mapping[str, int]:
    """How many pods of each gang have a node."""
    bound = (p.gang for p in cluster.pods if p.node and not p.terminating) if cluster else ()
    return Counter(gang for gang in bound if gang is not None)


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


def _pool_state(pool: Pool, seen: _Seen) -> PoolState:
    past = seen.memory.pools.get(pool.id, PoolMemory())
    found = seen.cloud.get(pool.id) if seen.cloud is not None else None
    shown = past.required if seen.cloud is None else (found.required if found else 0)
    required = expected_count(past.late, shown, seen.at)
    nodes = tuple(_node(i, pool, seen, past) for i in (found.instances if found else ()))
    found_drift = _drift(pool.id, shown, seen.memory, seen.at) if found is not None else None
    return PoolState(
        pool=pool.id,
        required=required,
        nodes=nodes,
        open_action=past.open_action,
        last_grow_at=past.last_grow_at,
        last_shrink_at=past.last_shrink_at,
        backoff=past.backoff,
        removal_backoff=past.removal_backoff,
        required_since=past.required_since if past.required == shown else seen.at,
        uncounted=shown - required,
        provisioning=past.provisioning,
        ready_in=past.ready_in,
        drifts=(*past.drifts, *([found_drift] if found_drift else [])),
        offer=offer_of(pool, nodes, past.offer, seen.at),
        unjoined=unjoined(pool, seen.cloud, seen.cluster),
        utilization=seen.telemetry.utilization.get(pool.id) if seen.telemetry else None,
        silence=seen.silenced.get(pool.id),
    )


def _node(instance: Instance, pool: Pool, seen: _Seen, past: PoolMemory) -> Node:
    node, life = seen.nodes.get(instance.id), seen.lives.get(instance.id)
    stage = stage_of(instance, node, seen.cluster is not None, pool)
    was_usable = life is not None and life.usable_at is not None
    if was_usable and stage in (Stage.BOOTING, Stage.INSTALLING):
        stage = Stage.BROKEN  # it was usable before: a node that lost its GPUs or went NotReady is not on its way
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
        allocatable=dict(node.allocatable) if node else {},
        pods=pods,
        idle_since=life.idle_since if life and stage is Stage.USABLE and not pods else None,
        cordoned_by=cordoned_by,
        cordoned_for=cordoned_for,
        closed_for=closed_for,
        leaving=instance.status == "DELETING",
        protected=node is not None and node.annotations.get(PROTECT_ANNOTATION, "false").lower() != "false",
        hosts=node.hosts if node else (),
        labels=dict(node.labels) if node else {},
        taints=node.taints if node else (),
        activity=seen.telemetry.nodes.get(node.name) if seen.telemetry and node else None,
    )


def _drift(pool: str, shown: int, memory: Memory, now: datetime) -> Drift | None:
    return drift(memory.pools.get(pool), shown, now, highest(memory.unanswered, pool))


def _is_deleted(instance: str, past: PoolMemory) -> bool:
    """True when our own DELETE of *instance* was accepted, whatever Civo's list still says."""
    action = past.open_action
    if action is None or action.kind is not ActionKind.RETIRE:
        return False
    return any(v.instance == instance and v.stage is VictimStage.DELETED for v in action.victims)
