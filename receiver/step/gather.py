"""Gather: ask every source once and join the answers into one `Facts` value.

Decides nothing. A source that fails becomes a SourceState that says so; what it would have told is unknown, never zero.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from receiver.core.model.actions import Action, ActionKind, VictimStage
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
    Stage,
)
from receiver.core.model.overrides import Override
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import CommittedNodes, Policy, Pool
from receiver.core.model.signals import Alert, forgotten, numbered, signals_from
from receiver.core.money.budget import month_of
from receiver.core.money.cost import A_WEEK, with_committed
from receiver.core.scaling.ownership import own_work
from receiver.core.scaling.waits import drift, removals_stop
from receiver.ports import (
    AlarmFacts,
    StepStore,
)
from receiver.step.asking import Look, ask_all
from receiver.step.asking import Sources as Sources
from receiver.step.books import ReconciledCharges, reconcile_charges, spend_of
from receiver.step.parts import Parts
from receiver.step.pool_states import Answers, is_recent, lives_of, pool_state, strays, with_nominations

SILENT_BEFORE_FALLBACK = timedelta(minutes=1)
MISSED_HEARTBEATS = 3
KNOWS_AGAIN_AFTER = timedelta(minutes=5)  # Prometheus sends an alert that fires to Alertmanager every minute or so
RECENT_ACTIONS = 50  # of a pool
COVERAGE_NEEDED = 0.8  # share of usable nodes whose GPUs must report before their activity is believed
WARMS_UP = timedelta(minutes=15)  # until then a node without DCGM data is starting its exporter, as in rules/


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The facts, and what the rest of the step needs beside them.

    *stopped* are the stops of pools whose removals Civo answers with other than one node less. *orphans* are
    open actions of pools that left the configuration, *strays* nodes of such pools that we closed to new work,
    *resumed* overrides that go on although a step under a clock ahead had ended them, *pods* every GPU pod of the
    cluster. *before* is what the previous step left, *committed* every commitment so far. The clock is *trusted* when
    that was a moment ago; else it may have jumped, and the step only looks. *others* are the installations that share
    the cluster.
    """

    facts: Facts
    lives: tuple[NodeLife, ...]
    drifts: Mapping[str, Drift]
    stopped: Mapping[str, Backoff]
    orphans: tuple[Action, ...]
    resumed: tuple[Override, ...]
    before: Control | None
    committed: tuple[CommittedNodes, ...]
    trusted: bool
    strays: tuple[str, ...]
    pods: tuple[Pod, ...]
    others: OtherInstallations = ALONE


def gather(sources: Sources, policy: Policy, now: datetime, parts: Parts, *, chores: bool = True) -> Looked:
    """Return what is true at *now*, and store what only a look can tell. Raises TryLater only when the store fails.

    A pool that cannot be worked out is set aside in *parts*. Without the month's spend there is no step. Without
    *chores* there is no forecast of it.
    """
    store, month = sources.store, month_of(now, policy.timezone)
    memory = store.memory(now, min(month.start, now - A_WEEK))
    before = store.control()
    policy = _with_commitments(policy, before, now)
    look = Look(sources=sources, policy=policy, memory=memory, month=month, now=now, parts=parts)
    answers = _without_older(ask_all(look), memory)
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
    spend = spend_of(lives, look, forecasts=chores)
    nodes_seen = answers.cloud is not None and not any(civo_pool.unreadable for civo_pool in answers.cloud.values())
    books = reconcile_charges(lives, spend, look, nodes_seen=nodes_seen)
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
        other_work=_other_work(answers, pods, before),
        signals=signals_from(_firing(answers.alarms, look), policy),
        sources=answering,
        spend=books.spend,
        instructions=Instructions(
            overrides=(*memory.overrides, *memory.ran_out_early), budget_changes=memory.budget_changes
        ),
        earlier=_earlier(memory, orphans),
        deliveries=memory.deliveries,
    )
    others = answers.cluster.others if answers.cluster is not None else ALONE
    return Looked(
        facts=_own(facts, others, look),
        lives=lives,
        drifts=drifts,
        stopped={state.pool: stop for state, _, stop in joined if stop is not None},
        orphans=orphans,
        resumed=memory.ran_out_early,
        before=before,
        committed=policy.billing.committed,
        trusted=trusted,
        strays=strays(pools, answers.cluster, ids) if nodes_seen else (),
        pods=pods,
        others=others,
    )


def _with_commitments(policy: Policy, before: Control | None, now: datetime) -> Policy:
    """Return *policy* with every commitment that the ledger knows of: what one was in force for, it paid for."""
    committed = with_committed(before.committed if before is not None else (), policy.billing, now)
    if committed == policy.billing.committed:
        return policy
    return replace(policy, billing=replace(policy.billing, committed=committed))


def _other_work(answers: Answers, pods: Sequence[Pod], before: Control | None) -> OtherWork:
    return OtherWork(
        deferred=tuple(p for p in pods if p.phase is PodPhase.DEFERRED),
        requests=answers.cluster.requests if answers.cluster else (),
        bound_gangs=Counter(p.gang for p in pods if p.gang is not None and p.node and not p.terminating),
        refusals=before.refusals if before is not None else (),
    )


def _earlier(memory: Memory, orphans: Sequence[Action]) -> EarlierSteps:
    return EarlierSteps(
        grown_last_hour=memory.grown_last_hour,
        removed_last_hour=memory.removed_last_hour,
        first_changed_at=memory.first_changed_at,
        unanswered=(*memory.unanswered, *(a for a in orphans if a.kind is ActionKind.GROW)),
    )


def _own(facts: Facts, others: OtherInstallations, look: Look) -> Facts:
    """Return *facts* without what is left to *others*. If that fails, all keep the room that they have, no
    trial is answered, and no gate opened."""
    with look.parts.part("ownership"):
        return own_work(facts, look.policy, others)
    requests = tuple(request for request in facts.other_work.requests if not request.trial)
    return replace(facts, other_work=replace(facts.other_work, requests=requests, deferred=()))


def _firing(alarms: AlarmFacts | None, look: Look) -> Sequence[Alert]:
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
    look: Look,
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


def _joined(
    pool: Pool, answers: Answers, lives: Mapping[str, NodeLife], look: Look
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
