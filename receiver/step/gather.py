"""Gather: ask every source once and join the answers into one `Facts` value.

Decides nothing. A source that fails becomes a SourceState that says so; what it would have told is unknown, never zero.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar

import structlog

from receiver.core.model.actions import Action, ActionKind, VictimStage
from receiver.core.model.charges import Charged, Comparison, Seed, beside, is_due, new_seed, seeded_by_pool, seeded_usd
from receiver.core.model.configuration import ConfigurationFile
from receiver.core.model.flights import flights_of, late_after
from receiver.core.model.installations import ALONE, OtherInstallations
from receiver.core.model.memory import Control, Memory, NodeLife, PoolMemory, follows, slow_starts
from receiver.core.model.model import (
    Backoff,
    CordonedBy,
    Drift,
    EarlierSteps,
    Facts,
    Instructions,
    OtherWork,
    PoolState,
    Source,
    SourceState,
    Spend,
    Stage,
)
from receiver.core.model.overrides import Override
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Policy, Pool, Scope
from receiver.core.model.signals import PAYLOAD_LIFE, Alert, forgotten, numbered, signals_from, silenced_pools
from receiver.core.model.text import some
from receiver.core.money.attribution import MonthToDate, attribute, by_team
from receiver.core.money.budget import Month, month_of
from receiver.core.money.cost import A_WEEK, dearer_per_hour, elsewhere_per_hour, spend_by_pool
from receiver.core.money.reconciliation import account, compare
from receiver.core.scaling.nominations import believed
from receiver.core.scaling.ownership import own_work
from receiver.core.scaling.waits import drift, removals_stop
from receiver.ports import (
    Accounts,
    AlarmFacts,
    Alarms,
    Cloud,
    Cluster,
    Sizes,
    StepStore,
    Telemetry,
    TryLater,
    WontWork,
)
from receiver.reports.observed import ObservedDocument
from receiver.step.devices import DeviceJoin
from receiver.step.hosts import beside_other_nodes
from receiver.step.node_objects import deleted_node_objects
from receiver.step.parts import Parts
from receiver.step.pool_states import Answers, is_recent, lives_of, pool_state, strays, templates, with_nominations

STALE = timedelta(days=1)  # older answers are not used for the account
SILENT_BEFORE_FALLBACK = timedelta(minutes=1)
MISSED_HEARTBEATS = 3
KNOWS_AGAIN_AFTER = timedelta(minutes=5)  # Prometheus sends an alert that fires to Alertmanager every minute or so
RECENT_ACTIONS = 50  # of a pool
COVERAGE_NEEDED = 0.8  # share of usable nodes whose GPUs must report before their activity is believed
WARMS_UP = timedelta(minutes=15)  # until then a node without DCGM data is starting its exporter, as in rules/
T = TypeVar("T")
log = structlog.get_logger("receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a step; None: not configured. *beat* is called before each is asked: a step that waits for one
    after the other is slow, not stuck. *file* tells what the last look at the configuration file found. *payload_life*
    is how long an alert counts after its last delivery where Alertmanager's API does not say what fires. *join* judges
    claims of devices. *waited* are the pods that waited when Kubernetes last answered, by namespace and name.
    *observed* is the last replay of what observe mode saw, for pages alone (None: not known in this process). With
    *readers* the store is a `RecordStore` as well; a replay has none, and its steps write nothing for them. A simulated
    clock *never_jumps*: it is trusted without a look at the step before."""

    cloud: Cloud
    cluster: Cluster | None
    telemetry: Telemetry | None
    alarms: Alarms | None
    store: StepStore
    readers: bool = True
    accounts: Accounts | None = None
    sizes: Sizes | None = None
    beat: Callable[[], None] = lambda: None
    file: Callable[[], ConfigurationFile] = ConfigurationFile
    payload_life: timedelta = PAYLOAD_LIFE
    join: DeviceJoin = field(default_factory=DeviceJoin)
    waited: dict[tuple[str, str], Pod] = field(default_factory=dict)
    observed: Callable[[], ObservedDocument | None] = lambda: None
    never_jumps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The facts, and what the rest of the step needs beside them.

    *stopped* are the stops of pools whose removals Civo answers with other than one node less. *orphans* are
    open actions of pools that left the configuration, *strays* nodes of such pools that we closed to new work,
    *resumed* overrides that go on although a step under a clock ahead had ended them, *pods* every GPU pod of the
    cluster. *before* is what the previous step left. The clock is *trusted* when that was a moment ago; else it may
    have jumped, and the step only looks. *others* are the installations that share the
    cluster.
    """

    facts: Facts
    lives: tuple[NodeLife, ...]
    drifts: Mapping[str, Drift]
    stopped: Mapping[str, Backoff]
    orphans: tuple[Action, ...]
    resumed: tuple[Override, ...]
    before: Control | None
    trusted: bool
    strays: tuple[str, ...]
    pods: tuple[Pod, ...]
    others: OtherInstallations = ALONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledCharges:
    """The month's *spend*, completed by the account's charges and by the seed.

    *charged* and *seed* are to be stored, None if unchanged.
    """

    spend: Spend
    charged: Charged | None
    seed: Seed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What every part of one look works with; *month* is the one of *now*."""

    sources: Sources
    policy: Policy
    memory: Memory
    month: Month
    now: datetime
    parts: Parts


def gather(sources: Sources, policy: Policy, now: datetime, parts: Parts, *, chores: bool = True) -> Looked:
    """Return what is true at *now*, and store what only a look can tell. Raises TryLater only when the store fails.

    A pool that cannot be worked out is set aside in *parts*. Without the month's spend there is no step. Without
    *chores* there is no forecast of it.
    """
    store, month = sources.store, month_of(now, policy.timezone)
    memory = store.memory(now, min(month.start, now - A_WEEK))
    look = _Look(sources=sources, policy=policy, memory=memory, month=month, now=now, parts=parts)
    answers = _without_older(_ask_all(look), memory)
    before = store.control()
    trusted = sources.never_jumps or follows(before.at if before is not None else None, now)
    lives = lives_of(answers, memory, policy, parts)
    by_instance = {life.instance: life for life in lives}
    joined = [_joined(pool, answers, by_instance, look) for pool in policy.pools]
    states, again = with_nominations([state for state, _, _ in joined], now, parts)
    slow: Mapping[str, timedelta] = {}
    with parts.part("slow_starts"):
        slow = slow_starts(lives)
    pools = tuple(replace(state, startup=replace(state.startup, slow=slow.get(state.pool))) for state in states)
    drifts = {state.pool: drifted for state, drifted, _ in joined if drifted is not None}
    answering = _judged(answers, pools, memory, policy, before)
    sources.beat()
    spend = _spend(lives, look, forecasts=chores)
    nodes_seen = answers.cloud is not None and not any(civo_pool.unreadable for civo_pool in answers.cloud.values())
    books = _reconcile_charges(lives, spend, look, nodes_seen=nodes_seen)
    _keep(answers, lives, pools, drifts, books, look, trusted=trusted)
    ids = {pool.id for pool in policy.pools}
    open_actions = [past.open_action for pool, past in memory.pools.items() if pool not in ids]
    orphans = tuple(action for action in open_actions if action is not None)
    lapsed = {pod.uid: pod for pod in again}
    pods = tuple(lapsed.get(pod.uid, pod) for pod in answers.cluster.pods) if answers.cluster else ()
    facts = Facts(
        at=now,
        pools=pools,
        waiting=(*_waiting(answers, answering[Source.KUBERNETES], sources.waited), *again),
        other_work=OtherWork(
            deferred=tuple(p for p in pods if p.phase is PodPhase.DEFERRED),
            requests=answers.cluster.requests if answers.cluster else (),
            bound_gangs=Counter(p.gang for p in pods if p.gang is not None and p.node and not p.terminating),
            refusals=before.refusals if before is not None else (),
        ),
        signals=signals_from(_firing(answers.alarms, look), policy),
        sources=answering,
        spend=books.spend,
        instructions=Instructions(
            overrides=(*memory.overrides, *memory.ran_out_early), budget_changes=memory.budget_changes
        ),
        earlier=EarlierSteps(
            grown_last_hour=memory.grown_last_hour,
            removed_last_hour=memory.removed_last_hour,
            first_changed_at=memory.first_changed_at,
            unanswered=(*memory.unanswered, *(a for a in orphans if a.kind is ActionKind.GROW)),
        ),
        deliveries=memory.deliveries,
    )
    others = answers.cluster.others if answers.cluster is not None else ALONE
    unjudged = replace(facts.other_work, requests=(), deferred=())  # if it fails: no request answered, no gate opened
    own_facts = replace(facts, other_work=unjudged)
    with parts.part("ownership"):
        own_facts = own_work(facts, policy, others)
    return Looked(
        facts=own_facts,
        lives=lives,
        drifts=drifts,
        stopped={state.pool: stop for state, _, stop in joined if stop is not None},
        orphans=orphans,
        resumed=memory.ran_out_early,
        before=before,
        trusted=trusted,
        strays=strays(pools, answers.cluster, ids) if nodes_seen else (),
        pods=pods,
        others=others,
    )


def _firing(alarms: AlarmFacts | None, look: _Look) -> Sequence[Alert]:
    """Return the firing alerts: those of Alertmanager's API, and those that it may have forgotten in a restart. Without
    its answer (None), the delivered ones."""
    sources, now = look.sources, look.now
    started_at = alarms.started_at if alarms is not None else None
    restarted = started_at is not None and abs(now - started_at) < KNOWS_AGAIN_AFTER
    remembered = alarms is None or look.memory.deliveries or restarted
    remembered_alerts = sources.store.remembered_alerts(now - sources.payload_life) if remembered else ()
    if alarms is None:
        return remembered_alerts
    fires = numbered(alarms.alerts, remembered_alerts)
    return [*fires, *forgotten(remembered_alerts, fires, alarms.silences)] if restarted else fires


def _without_older(answers: Answers, memory: Memory) -> Answers:
    """Mark what Civo says of a pool as not readable where it lists a node that was gone a moment ago, by our removal:
    the answer is older than the one before, and so is its count, on which nothing may be bought."""
    if answers.cloud is None:
        return answers
    lately = {name for name, past in memory.pools.items() if is_recent(past.last_shrink_at, answers.at)}
    removed_lives = {
        life.instance: life for life in memory.lives if life.pool in lately and is_recent(life.gone_at, answers.at)
    }
    cloud = dict(answers.cloud)
    for pool, civo_pool in answers.cloud.items():
        again = [removed_lives[instance.id].name for instance in civo_pool.instances if instance.id in removed_lives]
        if again and not civo_pool.unreadable:
            reason = f"it lists {', '.join(again)}, which was gone in an earlier answer"
            cloud[pool] = replace(civo_pool, unreadable=reason)
    return replace(answers, cloud=cloud)


def _with_deleted(state: PoolState, store: StepStore) -> PoolState:
    """Mark the nodes that carry the cordon of a removal, open or ended, that counts them as deleted."""
    cordoned = [n for n in state.living if n.cordon.by is CordonedBy.US and n.cordon.removal is not None]
    if not cordoned:
        return state
    removals = [state.open_action] if state.open_action is not None else []
    if any(n.cordon.action not in {r.id for r in removals} for n in cordoned):
        removals += [stored.action for stored in store.actions(pool=state.pool, limit=RECENT_ACTIONS)]
    deletions = {(r.id, v.instance) for r in removals for v in r.victims if v.stage is VictimStage.DELETED}
    new = {n.instance: replace(n.cordon, deleted=(n.cordon.action, n.instance) in deletions) for n in cordoned}
    return replace(state, nodes=tuple(replace(n, cordon=new.get(n.instance, n.cordon)) for n in state.nodes))


def _keep(
    answers: Answers,
    lives: Sequence[NodeLife],
    pools: Sequence[PoolState],
    drifts: Mapping[str, Drift],
    books: ReconciledCharges,
    look: _Look,
    *,
    trusted: bool,
) -> None:
    if books.charged is not None:
        look.sources.store.keep_charged(books.charged)
    if not trusted:
        return
    store, cloud = look.sources.store, answers.cloud or {}
    counted = [state.pool for state in pools if state.pool in cloud and not cloud[state.pool].unreadable]
    required = {pool: cloud[pool].required for pool in counted}
    worked = {life.instance for life in look.memory.lives if life.usable_at is not None}
    works = {life.pool for life in lives if life.usable_at is not None and life.instance not in worked}
    offers = {state.pool: state.offer for state in pools if state.offer is not None}
    store.saw(lives, required, answers.at, works=works, drifts=drifts, offers=offers)
    if books.seed is not None:
        store.keep_seed(books.seed)


def _ask_all(look: _Look) -> Answers:
    sources, now, parts = look.sources, look.now, look.parts
    states = {Source.STORE: SourceState(source=Source.STORE, up=True, at=now)}

    def answer(source: Source, question: Callable[[], T] | None) -> T | None:
        sources.beat()
        if question is None:
            states[source] = SourceState(source=source, up=False, detail="not configured", configured=False)
            return None
        try:
            response = question()
        except (TryLater, WontWork) as error:
            states[source] = SourceState(source=source, up=False, at=now, detail=str(error))
            return None
        except Exception as error:  # an unexpected response must not stop every pool for good
            log.exception("an answer was not understood", source=source.value)
            detail = f"its answer was not understood ({type(error).__name__}); the log has where"
            states[source] = SourceState(source=source, up=False, at=now, detail=detail)
            return None
        states[source] = SourceState(source=source, up=True, at=now)
        return response

    cloud = answer(Source.CIVO, sources.cloud.look)
    cluster = answer(Source.KUBERNETES, sources.cluster.look if sources.cluster else None)
    if cluster is not None:
        states[Source.KUBERNETES] = replace(states[Source.KUBERNETES], detail=cluster.unread)
        with parts.part("claims"):  # without it pods that claim devices are no demand
            cluster = sources.join.join(cluster, templates(look.policy, look.memory))
        if any(pod.reserved for pod in cluster.pods):
            names = {node.name for node in cluster.nodes}
            cluster = replace(cluster, pods=tuple(believed(pod, names, now) for pod in cluster.pods))
        with parts.part("hosts"):
            cluster = beside_other_nodes(cluster, look.policy)
    telemetry = answer(Source.PROMETHEUS, sources.telemetry.look if sources.telemetry else None)
    alarms = answer(Source.ALERTMANAGER, sources.alarms.look if sources.alarms else None)
    machines: Mapping[str, Mapping[str, int]] = {}
    if sources.sizes is not None:
        sources.beat()
        with parts.part("sizes"):
            machines = sources.sizes.machines()
    deleted_instances: Collection[str] = ()
    if sources.cluster is not None and cloud is not None and cluster is not None:
        sources.beat()
        with parts.part("node_objects"):
            listed = {n.instance for n in cluster.nodes}
            deleted_instances = deleted_node_objects(sources.cluster, look.memory, cloud, listed, now)
    pods: dict[str, list[Pod]] = {}
    for pod in cluster.pods if cluster else ():
        if pod.node:
            pods.setdefault(pod.node, []).append(pod)
    listed = {i.id for p in (cloud or {}).values() for i in p.instances}
    nodes = cluster.nodes if cluster else ()
    return Answers(
        at=now,
        cloud=cloud,
        cluster=cluster,
        telemetry=telemetry,
        alarms=alarms,
        states=states,
        nodes={n.instance: n for n in nodes},
        pods=pods,
        deleted=deleted_instances,
        unjoined=[n for n in nodes if n.ready and n.instance not in listed] if cloud is not None else (),
        foreign=all(n.instance not in listed for n in nodes),
        silenced=silenced_pools(alarms.silences if alarms else (), look.policy),
        machines=machines,
        join=sources.join,
    )


def _joined(
    pool: Pool, answers: Answers, lives: Mapping[str, NodeLife], look: _Look
) -> tuple[PoolState, Drift | None, Backoff | None]:
    """Return the pool's state, the change of its count that is not ours, and the stop of its removals.

    Of a pool that cannot be worked out, the state has only the number of nodes.
    """
    memory, parts = look.memory, look.parts
    past, civo_pool = memory.pools.get(pool.id, PoolMemory()), (answers.cloud or {}).get(pool.id)
    civo_pool = civo_pool if civo_pool is not None and not civo_pool.unreadable else None
    civo_count = past.required if civo_pool is None else civo_pool.required
    drifted, stop = None, None
    state = PoolState(pool=pool.id, required=civo_count or 0, nodes=(), open_action=past.open_action)
    with parts.part("drift", pool.id, sets_aside=True):
        if civo_pool is not None:
            drifted = drift(past, civo_count, answers.at, flights_of(memory.unanswered, pool.id))
    with parts.part("pool_state", pool.id, sets_aside=True):
        state = _with_deleted(pool_state(pool, answers, memory, lives, look.policy, drifted), look.sources.store)
    with parts.part("removals", pool.id, sets_aside=True):
        if civo_pool is not None:
            open_action = state.open_action  # of its nodes some may be gone while others cannot be emptied
            late = past.late or (late_after(open_action, state, answers.at) if open_action is not None else None)
            stop = removals_stop(late, civo_count, state.living, answers.at)
    return state, drifted, stop


def _judged(
    answers: Answers, pools: Sequence[PoolState], memory: Memory, policy: Policy, before: Control | None
) -> Mapping[Source, SourceState]:
    """Return the state of every source, with the time since which it is up or down as the step *before* saw it."""
    states, now, telemetry = dict(answers.states), answers.at, answers.telemetry
    # An answer of Prometheus without our rules is silence, not calm.
    if telemetry is not None and not telemetry.rules_alive:
        detail = "it answers, but GpuAutoscalerHeartbeat does not fire there: are the rules loaded?"
        states[Source.PROMETHEUS] = SourceState(source=Source.PROMETHEUS, up=False, at=now, detail=detail)
    heard = memory.heartbeat_at
    late = heard is None or abs(now - heard) > MISSED_HEARTBEATS * policy.heartbeat_interval  # or from the future
    detail = "" if not late else ("none heard yet" if heard is None else f"the last one came at {heard:%H:%M:%S} UTC")
    states[Source.HEARTBEAT] = SourceState(source=Source.HEARTBEAT, up=not late, at=heard, detail=detail)
    reported = telemetry.coverage if telemetry is not None else {}
    state_of = {state.pool: state for state in pools}
    blind = [
        p.name for p in policy.pools if p.id in state_of and _is_blind(p, state_of[p.id], reported.get(p.id, 0.0), now)
    ]
    detail = f"no activity reported for {'pool' if len(blind) == 1 else 'pools'} {', '.join(blind)}" if blind else ""
    lacks = {c: tuple(n) for c, n in telemetry.missing.items()} if telemetry is not None and not blind else {}
    states[Source.DCGM] = SourceState(source=Source.DCGM, up=not blind, at=now, detail=detail, lacks=lacks)
    if not states[Source.PROMETHEUS].configured:  # it is read through Prometheus alone
        states[Source.DCGM] = replace(states[Source.PROMETHEUS], source=Source.DCGM)
    for source, state in states.items():
        old = before.sources.get(source) if before is not None else None
        states[source] = replace(state, since=old.since if old is not None and old.up == state.up else now)
    return states


def _is_blind(pool: Pool, state: PoolState, coverage: float, now: datetime) -> bool:
    """True if too few of the usable nodes report what their GPUs do, apart from those that are new."""
    usable = state.of(Stage.USABLE)
    # A node may have been usable long before this receiver first saw it.
    well = (n for n in usable if not n.health.sick)
    began = (min(n.times.usable_since or now, n.created_at + pool.provision_timeout) for n in well)
    return coverage * len(usable) < COVERAGE_NEEDED * sum(now - at >= WARMS_UP for at in began)


def _spend(lives: Sequence[NodeLife], look: _Look, *, forecasts: bool) -> Spend:
    """Return what the ledger says of the month."""
    memory, policy, now = look.memory, look.policy, look.now
    pools, unpriced = spend_by_pool(lives, look.month.start, now, policy.billing, memory.ended)
    watched_usd: Mapping[str, Decimal] = {}
    since: datetime | None = None
    if forecasts:
        with look.parts.part("forecast"):
            began = max(look.month.start, min(memory.watched_since or now, now))
            watched_usd, since = spend_by_pool(lives, began, now, policy.billing)[0], began
    teams: Mapping[str, Decimal] | None = None
    with look.parts.part("teams"):  # a budget of a team whose spend is not known holds the team's growth
        # Sharing out a month of thousands of nodes takes a while: only where a team has a budget.
        set_now = any(c.scope is Scope.TEAM and c.month == look.month.name for c in memory.budget_changes)
        if look.sources.cluster is not None and policy.budget is not None and (policy.budget.teams or set_now):
            used = look.sources.store.usage(look.month.name)
            teams = by_team(attribute(lives, used, (), MonthToDate(look.month, now, policy.billing)))
    return Spend(
        month=look.month.name,
        usd=sum(pools.values(), Decimal(0)),
        unpriced=unpriced,
        pools=pools,
        teams=teams,
        elsewhere_per_hour=elsewhere_per_hour(lives, {pool.id for pool in policy.pools}),
        dearer_per_hour=dearer_per_hour(lives, policy.pools),
        seen=watched_usd,
        seen_since=since,
    )


def _waiting(answers: Answers, kubernetes: SourceState, waited: dict[tuple[str, str], Pod]) -> tuple[Pod, ...]:
    """Return the pods that may be demand: from Kubernetes, or as kube-state-metrics knows them when it cannot be asked.

    That is older by a scrape and an evaluation, so it is not used before Kubernetes has been silent for a while. It
    shows neither node selectors nor gangs: of a pod that *waited* when Kubernetes last answered, those are remembered.
    """
    if answers.cluster is not None:
        waiting = tuple(p for p in answers.cluster.pods if p.phase is PodPhase.WAITING)
        waited.clear()
        waited.update(((p.namespace, p.name), p) for p in waiting)
        return waiting
    if kubernetes.configured and (kubernetes.since is None or answers.at - kubernetes.since < SILENT_BEFORE_FALLBACK):
        return ()
    return tuple(waited.get((p.namespace, p.name), p) for p in answers.telemetry.waiting) if answers.telemetry else ()


def _reconcile_charges(lives: Sequence[NodeLife], spend: Spend, look: _Look, *, nodes_seen: bool) -> ReconciledCharges:
    """Return *spend*, what *lives* cost by the ledger, completed by the account's charges, which are compared with it.

    *nodes_seen* is True when Civo listed the nodes in this step, which a seed requires.
    """
    accounts, policy, month, now = look.sources.accounts, look.policy, look.month, look.now
    held, seed = look.memory.charged, look.memory.seed
    new_charges: Charged | None = None
    awaited = seed is None and policy.budget is not None
    set_now = any(
        c.scope is Scope.ACCOUNT and c.month == month.name and c.monthly_usd is not None
        for c in look.memory.budget_changes
    )
    # A budget of the account blocks growth until its spend is known.
    limits_account = policy.budget is not None and (set_now or policy.budget.account_usd is not None)
    urgent = awaited or (limits_account and not (held is not None and _is_fresh(held, now)))
    if accounts is not None and is_due(held, month.name, now, urgent=urgent):
        held = new_charges = _ask_charges(accounts, held, month, now)
    compared: Comparison | None = None
    account_usd: Decimal | None = None
    if held is not None and held.month == month.name:
        compared = compare(held, lives, policy, month.start, seed.at if seed else None)
        account_usd = account(compared, spend.usd, month.start, policy, seed)
        compared = replace(compared, account_usd=account_usd if _is_fresh(held, now) else None)
    fresh_seed = new_seed(seed, compared, spend.usd, policy, month.name, now) if nodes_seen else None
    seed = fresh_seed or seed
    counted = beside(seed, ((life.instance, life.name) for life in lives))
    seeded, unpriced = seeded_usd(counted, policy, month.name)
    usd, unpriced = spend.usd + seeded, tuple(sorted({*spend.unpriced, *unpriced}))
    pools = dict(spend.pools)
    for pool, seed_usd in seeded_by_pool(counted, policy, month.name):
        pools[pool] = pools.get(pool, Decimal(0)) + seed_usd
    fresh_usd = compared.account_usd if compared is not None else None
    completed = replace(
        spend,
        usd=usd,
        unpriced=unpriced,
        pools=pools,
        seeded=seeded,
        unknown=_why_unknown(held, nodes_seen=nodes_seen) if awaited and seed is None and accounts is not None else "",
        account=None if fresh_usd is None else max(fresh_usd, usd),
        account_at_least=max(account_usd or Decimal(0), usd),
        account_unpriced=_without_price(compared, unpriced),
        charges=compared,
    )
    return ReconciledCharges(spend=completed, charged=new_charges, seed=fresh_seed)


def _ask_charges(accounts: Accounts, held: Charged | None, month: Month, now: datetime) -> Charged:
    """Ask Civo for the month up to *now*; after a failure the last answer of the month remains."""
    last = held if held is not None and held.month == month.name else None
    try:
        charges = accounts.charges(month.start, now)
    except (TryLater, WontWork) as error:
        before = last or Charged(month=month.name, asked_at=now)
        return replace(before, asked_at=now, failure=str(error), failing_since=before.failing_since or now)
    return Charged(
        month=month.name, asked_at=now, answered_at=now, records=charges.records, unreadable=charges.unreadable
    )


def _is_fresh(charged: Charged, now: datetime) -> bool:
    return charged.answered_at is not None and now - charged.answered_at <= STALE


def _why_unknown(charged: Charged | None, *, nodes_seen: bool) -> str:
    if not nodes_seen:
        return "Civo does not list the nodes"
    if charged is not None and charged.unreadable and not charged.failure:
        return f"{some(len(charged.unreadable), 'charge')} cannot be read ({charged.unreadable[0]})"
    return f"Civo's charges cannot be read ({charged.failure if charged and charged.failure else 'not asked yet'})"


def _without_price(compared: Comparison | None, unpriced_sizes: Sequence[str]) -> tuple[str, ...]:
    """The parts of the account without a price, in words."""
    if compared is None:
        return ()
    words = [f"{hours.normalize():f} hours of {code}" for code, hours in compared.unpriced]
    charged = {code for code, _ in compared.unpriced}
    words += [f"nodes of {size}" for size in unpriced_sizes if f"kube-node-{size}" not in charged]
    unreadable = len(compared.charged.unreadable)
    return (*words, f"{some(unreadable, 'charge')} that cannot be read") if unreadable else tuple(words)
