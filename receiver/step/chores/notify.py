"""Send what no action sends: standing notices, Kubernetes Events on waiting pods, announcements of window evictions.

An announcement is stored, and the grace period counts from it: without an announcement no pod is evicted.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import islice

from receiver.core.explain.explain import Fate, State, by_claim, fates
from receiver.core.explain.rollouts import Rollouts, surge
from receiver.core.model.actions import Decision
from receiver.core.model.configuration import ConfigurationFile
from receiver.core.model.model import Source
from receiver.core.model.pods import Pod, Workload
from receiver.core.notices import configuration_notices, money_notices, workload_notices
from receiver.core.notices.concerns import concerns, good_news, notices_of
from receiver.core.notices.notice import Notice, Seen, behind, scale_up_event
from receiver.core.promises.promise import UNKNOWN, Promise, Promises
from receiver.core.scaling.bounds import evicts
from receiver.core.scaling.decide import case_of
from receiver.ports import RecordStore, TryLater
from receiver.step.parts import StepContext, Write, WriteKind

EVENTS = WriteKind("events not written")
CLAIMS = f"{State.NOT_DEMAND}:None:None"  # of a pod that asks for devices by claim, as the last picture has it
EVENTS_PER_POOL = 50  # pods that get an Event about one growth or one eviction
EVENTS_PER_STEP = 50  # and about not growing: a thousand pods must not keep the loop from scaling
MOST_LOOKED_AT = 5_000  # workloads that a step checks for missing Events
REASONS = {State.ON_ITS_WAY: "WaitsForNode", State.MAY_WAIT: "MayWait"}  # of Events; others do not grow for it
SECOND = timedelta(seconds=1)  # Kubernetes cuts moments to it


def record_pod_events(decision: Decision, work: StepContext) -> None:
    """Write an Event for the pods that a growth is for."""
    wanted, facts, room = work.assignment.pools[decision.pool], work.facts, EVENTS_PER_POOL
    pool = work.policy.pool(decision.pool)
    assert pool is not None
    promises = Promises(pool, facts.pool(pool.id), wanted, decision, work.learnt, work.now)
    workload_fates = fates(facts, work.assignment, {**work.decisions, pool.id: decision}, work.policy)
    fates_by_key = {workload.key: fate for workload, fate in islice(workload_fates, MOST_LOOKED_AT)}
    rollouts = Rollouts(facts.pool(pool.id).nodes, work.now)
    for workload in wanted.work.asking:
        fate = fates_by_key.get(workload.key)
        if room > 0 and (fate is None or fate.state is not State.HELD):
            promise = promises.of(workload)
            if workload.gang and fate is not None and fate.promise.after(promise):
                promise = fate.promise  # it waits longer for nodes of another pool
            bought_for = surge((workload,), rollouts, pool.price_usd_per_hour)
            message = scale_up_event(decision, work.policy, promise, work.now, bought_for)
            pods = workload.pods[:room]
            record_events(work, pods, "TriggeredScaleUp", message, f"{State.ON_ITS_WAY}:None:{pool.id}", promise)
            room -= len(pods)


def send_standing_notices(work: StepContext, records: RecordStore, file: ConfigurationFile) -> None:
    """Send, once each, what no action sends: misfits, budget stages, silent sources, holds, stuck nodes."""
    facts, assignment, policy = work.facts, work.assignment, work.policy
    observing = work.mode == "observe"
    any_waits = bool(facts.waiting or facts.other_work.deferred)
    workload_fates = fates(facts, assignment, work.decisions, policy, observing=observing, learnt=work.learnt)
    waiting = list(islice(workload_fates, MOST_LOOKED_AT)) if any_waits else []
    if any_waits and facts.up(Source.KUBERNETES):
        _record_why_pods_wait(work, records, waiting)
    closes = work.mode == "act" and work.hands.cluster is not None
    sent_notices = work.store.told(money_notices.BUDGET_TOPIC) if assignment.budgets.views else {}
    # Pods that wait beside free room may only just have been admitted.
    reopened = money_notices.when_reopened(work.store.told(money_notices.CLOSED_TOPIC) if facts.waiting else {})
    observation = Seen(
        facts=facts,
        assignment=assignment,
        decisions=work.decisions,
        policy=policy,
        drifts=work.drifts,
        numbers=work.numbers,
        reopened=reopened,
        behind=behind((fate for _, fate in waiting), assignment),
        file=file,
    )
    work.concerns.extend(concerns(observation, work.additions.concerns))
    standing: list[Notice] = [
        *notices_of(work.concerns, policy, work.now),
        *good_news(facts),
        *configuration_notices.news_of(file, work.store.told(configuration_notices.TOPIC)),
        *money_notices.budget_lines(
            assignment.budgets, sent_notices, work.now, refusing=observation.refusing(), closes=closes
        ),
        *money_notices.of_charges(facts, policy),
    ]
    # The page of a pool's decision shows all facts behind a notice.
    numbered = [n if n.decision is not None else replace(n, decision=work.numbers.get(n.pool or "")) for n in standing]
    ignored = workload_notices.ignored_wishes(facts.pools, policy.keep_until, work.now)
    complete = facts.up(Source.CIVO) and facts.up(Source.KUBERNETES)  # otherwise it is unknown what has ended
    news = records.stand([*numbered, *ignored], work.now, complete=complete)
    for notice, pods in ignored.items():
        if notice in news:
            record_events(work, pods[:EVENTS_PER_POOL], "KeepUntilIgnored", notice.body)


def _record_why_pods_wait(work: StepContext, records: RecordStore, waiting: Sequence[tuple[Workload, Fate]]) -> None:
    """Write one Event for each *waiting* pod on what it waits for; later steps go on where this one stops."""
    sent_events, facts, room = work.hands.told, work.facts, EVENTS_PER_STEP
    if not sent_events.begun:
        snapshot = records.snapshot()
        sent_events.begin(snapshot[0] if snapshot is not None else {}, (*facts.waiting, *facts.other_work.deferred))
    details = {misfit.workload.key: misfit.detail for misfit in work.assignment.misfits}
    for workload, fate in waiting:
        if not workload_notices.is_told(fate):
            continue
        about, promise = workload_notices.about_of(fate.state, fate.rule, fate.pool, fate.todo), fate.promise
        pods = [p for p in workload.pods if sent_events.wants(p, about, promise, work.now)][:room]
        reason = REASONS.get(fate.state, "NotTriggerScaleUp")
        message = details.get(workload.key, fate.detail) + (
            f". {fate.todo[:1].upper()}{fate.todo[1:]}" if fate.todo else ""
        )
        record_events(work, pods, reason, message, about, promise)
        room -= len(pods)
        if room <= 0:
            return
    claiming = (p for p in facts.waiting if p.claiming.not_bought and not p.daemon and not p.terminating)
    for pod in [p for p in claiming if sent_events.wants(p, CLAIMS, UNKNOWN, work.now)][:room]:
        record_events(work, [pod], "NotTriggerScaleUp", by_claim(pod), CLAIMS)


def record_events(
    work: StepContext, pods: Sequence[Pod], reason: str, message: str, about: str = "", promise: Promise = UNKNOWN
) -> None:
    """Write an Event for each of *pods*; *about* identifies what keeps it waiting, if anything does.

    A failed write neither fails nor delays the step, and no pod gets the same message again within minutes.
    """
    hands, sent_events, now = work.hands, work.hands.told, work.now
    if hands.cluster is None:
        return
    for pod in pods:
        if not sent_events.may_tell(pod, message, now):
            continue
        record = partial(hands.cluster.record_event, pod, reason=reason, message=message)
        error = hands.write(EVENTS, Write({"pod": pod.key}, record)).error
        if isinstance(error, TryLater):
            sent_events.rest(now)
            return
        sent_events.told(pod, about, message, now, promise.starts_p90)
        if error is not None:  # this one will never succeed
            return


def announce_window_evictions(work: StepContext, doubt: str = "") -> None:
    """Send the announcements that are due, pool by pool, and take back those that no longer hold.

    In *doubt* (a clause) nothing is announced and earlier announcements are taken back. While a source is silent, only
    what holds whatever the nodes show is taken back.
    """
    facts, policy, store, now = work.facts, work.policy, work.store, work.now
    pools = [pool for pool in policy.pools if any(evicts(window, pool) for window in pool.windows)]
    announces = not doubt and facts.up(Source.CIVO) and facts.up(Source.KUBERNETES)
    announcements = facts.earlier.announced
    for notice in workload_notices.windows_gone(announcements, policy) if announces and announcements else ():
        store.say(notice, now)
    for pool in pools:
        case = case_of(facts.pool(pool.id), work.assignment.pools[pool.id], facts, policy)
        if not announces:
            for notice in workload_notices.evictions_taken_back(case, announcements, doubt):
                store.say(notice, now)
            continue
        for eviction in workload_notices.evictions_due(case, announcements, work.mode):
            if eviction.notice is not None and store.say(eviction.notice, now):
                record_events(work, eviction.pods[:EVENTS_PER_POOL], "WindowEviction", eviction.event)
        if work.before is not None and work.mode == "act":
            for late in workload_notices.evictions_of_latecomers(case, work.before.at - SECOND):
                record_events(work, late.pods[:EVENTS_PER_POOL], "WindowEviction", late.event)
