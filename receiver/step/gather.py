"""Ask every source once and join what they say into one `Facts` value.

Promises not to decide and not to write. A source that fails becomes a SourceState that says so; what it
would have told is unknown, never zero.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar

import structlog

from receiver.core.model.actions import Action, ActionKind
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.memory import Control, Memory, NodeLife, PoolMemory, is_steady
from receiver.core.model.model import Drift, Facts, PoolState, Source, SourceState, Spend, Stage
from receiver.core.model.overrides import Override
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Policy, Scope
from receiver.core.model.signals import PAYLOAD_LIFE, Alert, numbered, signals_from, silenced_pools
from receiver.core.money.attribution import attribute, by_team
from receiver.core.money.budget import Month, month_of
from receiver.core.money.cost import A_WEEK, elsewhere_per_hour, spend_by_pool
from receiver.core.scaling.waits import why_removals_stop
from receiver.ports import (
    Accounts,
    AlarmFacts,
    Alarms,
    Cloud,
    CloudPool,
    Cluster,
    ClusterFacts,
    Sizes,
    StepStore,
    Telemetry,
    TelemetryFacts,
    TryLater,
    WontWork,
)
from receiver.step.parts import Parts
from receiver.step.pool_states import SourceAnswers, by_node, drift_of, lives_of, pool_state, strays, unjoined_nodes
from receiver.step.reconcile_charges import reconcile_charges

SILENT_BEFORE_FALLBACK = timedelta(minutes=1)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where `look` asks. None means that the operator configured no such source. *goes_on* is called before each is
    asked: a step that waits for one after the other is slow, and not stuck. *payload_life* is how long an alert counts
    after its last delivery where Alertmanager's API does not say what fires."""

    cloud: Cloud
    cluster: Cluster | None
    telemetry: Telemetry | None
    alarms: Alarms | None
    store: StepStore
    accounts: Accounts | None = None
    sizes: Sizes | None = None
    goes_on: Callable[[], None] = lambda: None
    payload_life: timedelta = PAYLOAD_LIFE


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The facts, and what the ledger should keep of them: node lives, required counts as Civo shows them, drifts.

    *works* are the pools of which a node has just become usable, *replaced* those whose removals Civo answers
    otherwise than by one node less, with the sentence that says how. *orphans* are open actions of pools that left
    the configuration, *strays* nodes of such pools that we closed to new work, *resumed* overrides that go on although
    a step under a clock ahead had ended them, *pods* every GPU pod of the cluster, those on nodes of no configured pool
    too. *charged* is a new answer of Civo's on what it charged, *seed* what a month had cost before this store, where
    new. *before* is what the step before this one left. *steady* says that the clock can be believed.
    """

    facts: Facts
    lives: tuple[NodeLife, ...]
    required: Mapping[str, int]
    works: frozenset[str] = frozenset()
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    orphans: tuple[Action, ...] = ()
    resumed: tuple[Override, ...] = ()
    before: Control | None = None
    steady: bool = False
    strays: tuple[str, ...] = ()
    pods: tuple[Pod, ...] = ()
    charged: Charged | None = None
    seed: Seed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """What each source said (None: it did not answer), and the state of all of them."""

    cloud: Mapping[str, CloudPool] | None
    cluster: ClusterFacts | None
    telemetry: TelemetryFacts | None
    alarms: AlarmFacts | None
    states: dict[Source, SourceState]


def gather(sources: Sources, policy: Policy, now: datetime, parts: Parts, *, chores: bool) -> Looked:
    """Look, and store what only a look can tell, before anything is decided from it. Raises TryLater."""
    looked, store = look(sources, policy, now, parts, forecasts=chores), sources.store
    offers = {s.pool: s.offer for s in looked.facts.pools if s.offer is not None}
    store.saw(looked.lives, looked.required, now, works=looked.works, drifts=looked.drifts, offers=offers)
    if looked.charged is not None:
        store.keep_charged(looked.charged)
    if looked.seed is not None:
        store.keep_seed(looked.seed)
    return looked


def look(sources: Sources, policy: Policy, now: datetime, parts: Parts, *, forecasts: bool = True) -> Looked:
    """Return what is true at *now*. Raises TryLater only when the store cannot be read.

    A pool that cannot be worked out is set aside in *parts*. Without the month's spend there is no step.

    Without *forecasts* what the ledger has watched itself is left out, which nothing else needs.
    """
    month = month_of(now, policy.timezone)
    memory = sources.store.memory(now, min(month.start, now - A_WEEK))
    said = _ask_everybody(sources, memory, policy, now)
    before = sources.store.control()
    steady = is_steady(before.at if before is not None else None, now)
    resumed = memory.ran_out_early if steady else ()
    lives = lives_of(said.cloud, said.cluster, said.telemetry, memory, policy, now, parts, steady=steady)
    pools = _pools(sources, said, memory, lives, policy, now, parts)
    judge_dcgm(pools, said.telemetry, said.states, now)
    date_changes(said.states, before, now)
    seen = said.cloud is not None
    sources.goes_on()
    spend = _spend(sources, memory, lives, month, policy, now, parts, forecasts=forecasts)
    books = reconcile_charges(sources.accounts, memory, lives, spend.usd, policy, month, now, nodes_seen=seen)
    orphans = _orphans(memory, policy)
    facts = Facts(
        at=now,
        pools=pools,
        waiting=_waiting(said.cluster, said.telemetry, said.states[Source.KUBERNETES], now),
        signals=signals_from(_alerts(sources, said.alarms, memory, now), policy),
        sources=said.states,
        spend=books.added_to(spend),
        budget_changes=memory.budget_changes,
        grown_last_hour=memory.grown_last_hour,
        removed_last_hour=memory.removed_last_hour,
        first_changed_at=memory.first_changed_at,
        bound_gangs=_bound_gangs(said.cluster),
        deliveries=memory.deliveries,
        charges=books.compared,
        unanswered=(*memory.unanswered, *(a for a in orphans if a.kind is ActionKind.GROW)),
        overrides=(*memory.overrides, *resumed),
    )
    cloud = said.cloud or {}
    required = {p.id: cloud[p.id].required for p in policy.pools if p.id in cloud}
    return Looked(
        facts=facts,
        lives=lives,
        required=required,
        works=_work_since_now(lives, memory),
        drifts=_drifts(required, memory, now, parts),
        replaced=_replaced(pools, required, memory, now, parts),
        orphans=orphans,
        resumed=resumed,
        before=before,
        steady=steady,
        strays=strays(pools, said.cluster, {p.id for p in policy.pools}) if seen else (),
        pods=said.cluster.pods if said.cluster else (),
        charged=books.charged,
        seed=books.seed,
    )


def _ask_everybody(sources: Sources, memory: Memory, policy: Policy, now: datetime) -> _Answers:
    """Ask each source once; who does not answer is marked as silent."""
    states: dict[Source, SourceState] = {Source.STORE: SourceState(source=Source.STORE, up=True, at=now)}

    def answer(source: Source, question: Callable[[], T] | None) -> T | None:
        sources.goes_on()
        return ask(source, question, states, now)

    said = _Answers(
        cloud=answer(Source.CIVO, sources.cloud.look),
        cluster=answer(Source.KUBERNETES, sources.cluster.look if sources.cluster else None),
        telemetry=answer(Source.PROMETHEUS, sources.telemetry.look if sources.telemetry else None),
        alarms=answer(Source.ALERTMANAGER, sources.alarms.look if sources.alarms else None),
        states=states,
    )
    judge_prometheus(said.telemetry, states, now)
    judge_heartbeat(memory, policy, states, now)
    return said


def _pools(
    sources: Sources,
    said: _Answers,
    memory: Memory,
    lives: Sequence[NodeLife],
    policy: Policy,
    now: datetime,
    parts: Parts,
) -> tuple[PoolState, ...]:
    """Return the state of each configured pool; of one that cannot be worked out, only how many nodes it has."""
    seen = SourceAnswers(
        cloud=said.cloud,
        cluster=said.cluster,
        telemetry=said.telemetry,
        memory=memory,
        lives={life.instance: life for life in lives},
        silenced=silenced_pools(said.alarms.silences if said.alarms else (), policy),
        nodes={n.instance: n for n in said.cluster.nodes} if said.cluster else {},
        pods=by_node(said.cluster),
        unjoined=unjoined_nodes(said.cloud, said.cluster),
        at=now,
        machines=_machines(sources, parts),
        startup_taints=policy.startup_taints,
    )
    states = []
    for pool in policy.pools:
        shown = (said.cloud or {}).get(pool.id)
        past = memory.pools.get(pool.id, PoolMemory())
        counted = shown.required if shown is not None else past.required
        state = PoolState(pool=pool.id, required=counted or 0, nodes=(), open_action=past.open_action)
        with parts.part("pool_state", pool.id, sets_aside=True):
            state = pool_state(pool, seen)
        states.append(state)
    return tuple(states)


def _machines(sources: Sources, parts: Parts) -> Mapping[str, Mapping[str, int]]:
    """Return the resources of each size's machine; empty without a source or if the call fails."""
    if sources.sizes is not None:
        sources.goes_on()
        with parts.part("sizes"):
            return sources.sizes.machines()
    return {}


def _alerts(sources: Sources, alarms: AlarmFacts | None, memory: Memory, now: datetime) -> Sequence[Alert]:
    """Return what fires: by Alertmanager, numbered by the deliveries that brought it, or by the deliveries alone."""
    kept: Sequence[Alert] = ()
    if alarms is None or memory.deliveries:
        kept = sources.store.remembered_alerts(now - sources.payload_life)
    return list(kept) if alarms is None else numbered(alarms.alerts, kept)


def _spend(
    sources: Sources,
    memory: Memory,
    lives: Sequence[NodeLife],
    month: Month,
    policy: Policy,
    now: datetime,
    parts: Parts,
    *,
    forecasts: bool,
) -> Spend:
    """Return what the ledger says of *month*."""
    pools, unpriced = spend_by_pool(lives, month.start, now, policy.billing, memory.ended)
    seen: Mapping[str, Decimal] = {}
    since: datetime | None = None
    if forecasts:
        with parts.part("forecast"):
            since = max(month.start, min(memory.watched_since or now, now))
            seen = spend_by_pool(lives, since, now, policy.billing)[0]
    teams: Mapping[str, Decimal] | None = None
    with parts.part("teams"):  # a budget of a team whose spend is not known holds the team's growth
        teams = _teams(sources, memory, lives, month, policy, now)
    return Spend(
        month=month.name,
        usd=sum(pools.values(), Decimal(0)),
        unpriced=unpriced,
        pools=pools,
        teams=teams,
        elsewhere_per_hour=elsewhere_per_hour(lives, {pool.id for pool in policy.pools}),
        seen=seen,
        seen_since=since,
    )


def _orphans(memory: Memory, policy: Policy) -> tuple[Action, ...]:
    """Return the open actions of pools that left the configuration."""
    ours = {p.id for p in policy.pools}
    return tuple(m.open_action for i, m in memory.pools.items() if m.open_action is not None and i not in ours)


def _work_since_now(lives: Sequence[NodeLife], memory: Memory) -> frozenset[str]:
    """Return the pools of which a node has just become usable."""
    worked = {life.instance for life in memory.lives if life.usable_at is not None}
    return frozenset(x.pool for x in lives if x.usable_at is not None and x.instance not in worked)


def _teams(
    sources: Sources, memory: Memory, lives: Sequence[NodeLife], month: Month, policy: Policy, now: datetime
) -> Mapping[str, Decimal] | None:
    """What the workloads of each team held this month; None where no team has a budget or no cluster says who holds
    what. Sharing out a month of thousands of nodes takes a while, so it is done only for those who need it."""
    set_now = any(c.scope is Scope.TEAM and c.month == month.name for c in memory.budget_changes)
    if sources.cluster is None or policy.budget is None or not (policy.budget.teams or set_now):
        return None
    return by_team(attribute(lives, sources.store.usage(month.name), (), month, now, policy.billing))


def _drifts(required: Mapping[str, int], memory: Memory, now: datetime, parts: Parts) -> Mapping[str, Drift]:
    found: dict[str, Drift] = {}
    for pool, shown in required.items():
        with parts.part("drift", pool, sets_aside=True):
            drift = drift_of(pool, shown, memory, now)
            if drift is not None:
                found[pool] = drift
    return found


def _replaced(
    pools: Sequence[PoolState], required: Mapping[str, int], memory: Memory, now: datetime, parts: Parts
) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for state in pools:
        with parts.part("removals", state.pool, sets_aside=True):
            if state.pool in required and state.pool in memory.pools:
                late, living = memory.pools[state.pool].late, len(state.living)
                why = why_removals_stop(late, required[state.pool], living, now)
                if why is not None:
                    found[state.pool] = why
    return found


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


log = structlog.get_logger("receiver")
MISSED_HEARTBEATS = 3
COVERAGE_NEEDED = 0.8  # share of usable nodes whose GPUs must report before their activity is believed


def ask(source: Source, question: Callable[[], T] | None, states: dict[Source, SourceState], now: datetime) -> T | None:
    """Call *source* and record the outcome in *states*; None if it did not answer or is not configured."""
    if question is None:
        states[source] = SourceState(source=source, up=False, detail="not configured", configured=False)
        return None
    try:
        answer = question()
    except (TryLater, WontWork) as error:
        states[source] = SourceState(source=source, up=False, at=now, detail=str(error))
        return None
    except Exception as error:  # an unexpected response must not stop every pool for good
        log.exception("an answer was not understood", source=source.value)
        detail = f"its answer was not understood ({type(error).__name__}); the log has where"
        states[source] = SourceState(source=source, up=False, at=now, detail=detail)
        return None
    states[source] = SourceState(source=source, up=True, at=now)
    return answer


def judge_prometheus(telemetry: TelemetryFacts | None, states: dict[Source, SourceState], now: datetime) -> None:
    """Prometheus counts as up only while it evaluates our rules: an answer without them is silence, not calm."""
    if telemetry is not None and not telemetry.rules_alive:
        detail = "it answers, but GpuAutoscalerHeartbeat does not fire there: are the rules loaded?"
        states[Source.PROMETHEUS] = SourceState(source=Source.PROMETHEUS, up=False, at=now, detail=detail)


def judge_heartbeat(memory: Memory, policy: Policy, states: dict[Source, SourceState], now: datetime) -> None:
    """The heartbeat counts as heard until three of its intervals have passed without a delivery of it."""
    heard = memory.heartbeat_at
    life = MISSED_HEARTBEATS * policy.heartbeat_interval
    late = heard is None or abs(now - heard) > life  # one from the future came under a wrong clock
    detail = "" if not late else ("none heard yet" if heard is None else f"the last one came at {heard:%H:%M:%S} UTC")
    states[Source.HEARTBEAT] = SourceState(source=Source.HEARTBEAT, up=not late, at=heard, detail=detail)


def judge_dcgm(
    pools: Sequence[PoolState], telemetry: TelemetryFacts | None, states: dict[Source, SourceState], now: datetime
) -> None:
    """DCGM is up when every pool with usable nodes reports activity for enough of them."""
    blind = [
        p.pool
        for p in pools
        if p.of(Stage.USABLE) and (telemetry is None or telemetry.coverage.get(p.pool, 0.0) < COVERAGE_NEEDED)
    ]
    detail = f"no activity reported for pools {', '.join(blind)}" if blind else ""
    states[Source.DCGM] = SourceState(source=Source.DCGM, up=not blind, at=now, detail=detail)


def date_changes(states: dict[Source, SourceState], before: Control | None, now: datetime) -> None:
    """Set `since` of every state: when it last went up or down, as the step *before* this one saw it."""
    for source, state in states.items():
        old = before.sources.get(source) if before is not None else None
        states[source] = SourceState(
            source=source,
            up=state.up,
            at=state.at,
            since=old.since if old is not None and old.up == state.up else now,
            detail=state.detail,
            configured=state.configured,
        )
