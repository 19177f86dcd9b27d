"""Publish a step after everything else is done: messages, Kubernetes Events, usage, the picture, samples.

Each part is guarded separately. A failure here changes neither this step nor the next one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import structlog

from receiver.core.explain.explain import MOST, Explanation, explain
from receiver.core.explain.prospects import first_act
from receiver.core.explain.rules import SPEAKS_UP, sentence, why
from receiver.core.explain.samples import PoolSample, minute_of, turns
from receiver.core.model.actions import Decision, Verdict
from receiver.core.model.devices import CLAIMS, is_claim
from receiver.core.model.model import Facts, Node, PoolState, Source, Stage
from receiver.core.model.pods import gpus_of
from receiver.core.model.policy import Policy, Pool
from receiver.core.money.accounting import StepSight, account, ended_in, is_due
from receiver.core.money.cost import next_unit_at
from receiver.core.notices.held_concerns import one_cause
from receiver.core.report.rightsizing import in_use
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.demand import deferred
from receiver.core.scaling.failures import Failure
from receiver.core.scaling.waits import awaited_since, waits
from receiver.core.scaling.wanted import Wanted
from receiver.ports import RecordStore, Snapshot, TryLater, WontWork
from receiver.reports.observed import ObservedDocument
from receiver.reports.picture import (
    ChargesDocument,
    ConcernDocument,
    FitDocument,
    GangDocument,
    KeptOut,
    MisfitDocument,
    NodeDocument,
    OpenAction,
    OverrideInForce,
    Picture,
    PoolDocument,
    RightsDocument,
    ScopedBudget,
    WaitingPod,
)
from receiver.step.chores.notify import send_standing_notices
from receiver.step.gather import Looked, Sources
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")
A_DAY = timedelta(days=1)


def publish(work: StepContext, looked: Looked, sources: Sources, records: RecordStore) -> None:
    """Write messages, usage, the picture and the log line. Raises WriterLostError when this replica may not write.

    Stops at the first store failure: every other part would wait for the same database. Time is accounted for only by
    a clock that is trusted.
    """
    publishers = work.additions.publishers
    makers: list[tuple[str, Callable[[], object]]] = [
        *(("messages", say) for say in work.unsaid),
        ("messages", lambda: send_standing_notices(work, records, sources.file())),
        ("usage", lambda: account_for_usage(looked, sources, records, work.policy, work.now)),
        *((publisher.name, partial(publisher.make, work, looked, records)) for publisher in publishers),
        ("picture", lambda: _show(work, looked, records, sources.observed())),
        ("log", lambda: _log_step(work.facts, work.decisions, work.mode)),
    ]
    timed = {"usage", *(publisher.name for publisher in publishers)}
    try:
        for name, make in makers if looked.trusted else (m for m in makers if m[0] not in timed):
            with work.parts.part(name):
                make()
    except TryLater as error:
        log.warning("not everything was published", error=str(error), code=error.code)


def _show(work: StepContext, looked: Looked, records: RecordStore, observed: ObservedDocument | None) -> None:
    """Store what this step found for pages, API and metrics and, by a clock that is trusted, the minute's samples.
    Without *observed*, in a process that has just started, the one of the last picture stays."""
    facts, new_picture = work.facts, picture(work, records.snapshot)
    if work.mode == "observe":
        before = None if observed is not None else records.snapshot()
        document = observed if before is None else before[0].get("observed")
        new_picture = new_picture.model_copy(
            update={"observed": document and ObservedDocument.model_validate(document)}
        )
    work.parts.log()
    records.keep_snapshot(new_picture.document(), work.now)
    if looked.trusted:  # a stored minute is never replaced
        with work.parts.part("samples"):
            records.keep_samples(samples(new_picture, facts.at), turns(facts), facts.at)


def picture(work: StepContext, before: Callable[[], Snapshot | None]) -> Picture:
    """Return the picture of one step. A pool that raises is noted and stays as in the picture that *before* reads."""
    facts, assignment = work.facts, work.assignment
    pools: list[PoolDocument] = []
    for p in work.policy.pools:
        try:
            pools.append(_pool(p, work))
        except Exception as error:  # noqa: BLE001  # noted; the other pools are shown
            work.parts.failures.note(Failure(part="picture", error=error, pool=p.id))
            snapshot = before()
            pools += [x for x in Picture.model_validate(snapshot[0] if snapshot else {}).pools if x.pool == p.id]
    observing = work.mode == "observe"
    every = explain(facts, assignment, work.decisions, work.policy, observing=observing, learnt=work.learnt)
    explained = list(islice(every, MOST))
    shapes = {id(each.fits): each.fits for each in explained}  # pods of one shape share them
    fits = {key: [FitDocument(pool=f.pool, name=f.name, why_not=f.why) for f in shape] for key, shape in shapes.items()}
    waiting_total = len(facts.waiting) + sum(len(gated.pods) for gated in deferred(facts))
    kept_out, charges = facts.earlier.kept_out, facts.spend.charges
    return Picture.of(
        facts,
        mode=work.mode,
        pools=pools,
        budget=None if assignment.budget is None else ScopedBudget.of_view(assignment.budget),
        budgets=[ScopedBudget.of_view(view) for view in assignment.budgets.views],
        kept_out=None if kept_out is None else [KeptOut(place=p, since=at) for p, at in sorted(kept_out.items())],
        rights=None if facts.rights is None else RightsDocument.of_rights(facts.rights, facts.at),
        sources=list(facts.sources.values()),
        charges=None if charges is None else ChargesDocument.of_comparison(charges),
        misfits=[
            MisfitDocument(workload=m.workload.key, gpus=m.workload.gpus, detail=m.detail) for m in assignment.misfits
        ],
        waiting=[_waiting(each, work, fits[id(each.fits)]) for each in explained],
        waiting_total=waiting_total if _demand_is_known(facts) else None,
        concerns=[ConcernDocument.of(concern) for concern in one_cause(work.concerns, work.decisions)],
    )


def _pool(pool: Pool, work: StepContext) -> PoolDocument:
    facts, policy, mode = work.facts, work.policy, work.mode
    wanted, decision = work.assignment.pools[pool.id], work.decisions[pool.id]
    state, bounds = facts.pool(pool.id), wanted.bounds
    usable = state.of(Stage.USABLE)
    action = state.open_action
    return PoolDocument.of(
        pool,
        **(_counts(state, wanted) if facts.up(Source.CIVO) and not state.count.unreadable else dict.fromkeys(COUNTED)),
        pool=pool.id,
        mode=mode,
        pending_gpus=wanted.work.gpus if _demand_is_known(facts) else None,
        min_nodes=bounds.min_nodes,
        max_nodes=bounds.max_nodes,
        windows=bounds.names,
        utilization=state.utilization if usable else None,  # an average outlives the nodes it was taken from
        because=why(decision),
        held_by=[r.rule for r in decision.reasons if r.verdict in SPEAKS_UP],
        reasons=[r for r in decision.reasons if r.verdict is not Verdict.ALLOWS],
        what_would_change=decision.evidence.get("what_would_change", []),
        verdict=decision.change,
        decision=work.numbers[pool.id],
        reconsider_at=decision.reconsider_at,
        would=first_act(decision, case_of(state, wanted, facts, policy), sentence) if mode == "observe" else None,
        waits=waits(pool, state, policy, facts.at),
        provisioning=state.backoffs.trial,
        ready_in_seconds=None if state.startup.usual is None else state.startup.usual.total_seconds(),
        uncounted=state.count.uncounted,
        drifts=sum(facts.at - d.at < A_DAY for d in state.count.drifts),
        silenced_by=None if state.silence is None else str(state.silence),
        silence=state.silence,
        overrides=[OverrideInForce.of(o, every_pool=o.pool is None) for o in bounds.overrides.all],
        **{field.name: field.of(pool, work) for field in work.additions.pool_fields},
        open_action=None if action is None else OpenAction.of(action),
        nodes=[_node(n, policy, facts.at) for n in state.nodes],
    )


def _demand_is_known(facts: Facts) -> bool:
    """False while neither Kubernetes nor Prometheus says which pods wait: none seen is not none waiting."""
    return facts.up(Source.KUBERNETES) or facts.up(Source.PROMETHEUS)


COUNTED = ("required", "ready", "building", "busy", "idle", "unknown", "sick", "wanted", "awaited_since", "held_gpus")


def _counts(state: PoolState, wanted: Wanted) -> dict[str, Any]:
    """The counts of nodes, which are not known while Civo does not answer."""
    usable = state.of(Stage.USABLE)
    busy = sum(1 for n in usable if n.busy)
    return {
        "required": state.required,
        "ready": len(usable),
        "building": len(state.coming) + state.unlisted,
        "busy": busy,
        "idle": len(usable) - busy,
        "unknown": len(state.living) - len(usable) - len(state.coming),
        "sick": sum(1 for n in state.living if n.health.sick),
        "wanted": state.required + wanted.new_nodes,
        "awaited_since": awaited_since(state),
        "held_gpus": round(sum(gpus_of(pod.requests, n.labels) for n in usable for pod in n.pods), 2),
    }


def _node(node: Node, policy: Policy, now: datetime) -> NodeDocument:
    is_kept = node.keep.lasts(now)
    return NodeDocument.of(
        node,
        note=node.note or None,
        pods=[p.key for p in node.pods],
        kept_until=node.keep.until if is_kept else None,
        kept_for=node.keep.pod if is_kept else None,
        kept_by=node.keep.drain_losses,
        cordoned_by=node.cordon.by,
        paid_until=next_unit_at(node.created_at, now, policy.billing),
    )


def _waiting(explained: Explanation, work: StepContext, fits: list[FitDocument]) -> WaitingPod:
    pod, workload, fate = explained.pod, explained.workload, explained.fate
    first = work.hands.promised.open.get(workload.key) if workload else None
    gang = workload if workload is not None and workload.gang else None
    return WaitingPod.of(
        pod,
        workload=workload.key if workload else None,
        gang=GangDocument(waiting=len(gang.pods), least=gang.least, bound=gang.bound) if gang else None,
        resources={CLAIMS if is_claim(resource) else resource: n for resource, n in pod.requests.items()},
        since=pod.created_at,
        state=fate.state,
        detail=fate.detail,
        **({"what_to_do": fate.todo} if fate.todo else {}),
        pool=fate.pool,
        rule=fate.rule,
        decision=work.numbers[fate.pool] if fate.pool else None,
        node=fate.node,
        nodes=fate.nodes,
        expected_at=fate.promise.starts_p50,
        expected_by=fate.promise.starts_p90,
        held_until=fate.promise.until,
        promised_at=first.starts_p50 if first else None,
        promised_by=first.starts_p90 if first else None,
        fits=fits,
    )


def samples(step_picture: Picture, at: datetime) -> tuple[PoolSample, ...]:
    """Return the counts of every pool of *step_picture*, the picture of a step at *at*, dated to its minute."""
    counts = PoolSample.__slots__[2:]
    return tuple(
        PoolSample(pool=pool.pool, at=minute_of(at), **{name: getattr(pool, name) for name in counts})
        for pool in step_picture.pools
    )


def account_for_usage(looked: Looked, sources: Sources, records: RecordStore, policy: Policy, now: datetime) -> None:
    """Account for usage up to *now* once a minute, and whenever other pods hold GPUs. Raises TryLater (store down).

    While Civo or Kubernetes does not answer, usage is unknown: the account stays, and the next accounting covers that
    time.
    """
    cluster, facts = sources.cluster, looked.facts
    if cluster is None or not (facts.up(Source.CIVO) and facts.up(Source.KUBERNETES)):
        return
    before = records.accounted()
    nodes = tuple(node for pool in facts.pools for node in pool.nodes)
    sight = StepSight(at=now, lives=looked.lives, nodes=nodes, pods=looked.pods)
    if not is_due(before, sight):
        return
    if sources.telemetry is not None:  # without samples the time counts as not measured
        try:
            sight = replace(sight, samples=sources.telemetry.samples())
        except (TryLater, WontWork) as error:
            log.warning("GPU activity is not measured", error=str(error))
    if namespaces := ended_in(before, sight):
        try:
            sight = replace(sight, ended=cluster.ended(namespaces))
        except (TryLater, WontWork) as error:
            log.warning("the results of ended pods are unknown", error=str(error))
    if not records.account(account(before, sight, policy), before.at, now):
        log.warning("another process has accounted for this time")
        return
    records.keep_in_use(in_use(before, sight, policy))


def _log_step(facts: Facts, decisions: Mapping[str, Decision], mode: str) -> None:
    for source in facts.sources.values():
        if source.configured and not source.up and source.since == facts.at:
            log.warning("source is silent", source=source.source.value, detail=source.detail)
    log.info(
        "step",
        mode=mode,
        woken_by=list(facts.deliveries),
        waiting=len(facts.waiting),
        silent=[s.source.value for s in facts.sources.values() if s.configured and not s.up],
        pools={d.pool: f"{d.present}->{d.target} {d.deciding.rule}" for d in decisions.values()},
    )
