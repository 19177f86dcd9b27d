"""Tell people what a step came to: Kubernetes Events on the pods that wait, notices for everybody else."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import structlog

from receiver.act import Hands
from receiver.core import budget_notices, closing_notices, keep_until, tell, waiting_notices, warn
from receiver.core.actions import Change, Decision, Verdict
from receiver.core.explain import MOST, by_claim
from receiver.core.pods import Pod, Workload
from receiver.core.tell import Notice
from receiver.ports import TryLater, WontWork
from receiver.work import Work

log = structlog.get_logger("receiver")
EVENTS_PER_ACTION = 50  # pods told by a Kubernetes Event about one growth
EVENTS_PER_STEP = 50  # and about not growing: a thousand pods must not keep the loop from scaling
PASSING = ("cooled_down", "one_change_at_a_time")  # holds that end within seconds are no news for the owner of a pod


def tell_who_waits(decision: Decision, work: Work) -> None:
    """Leave an Event on the pods that a growth is for."""
    wanted = work.assignment.pools[decision.pool]
    asking = [p for w in wanted.asking if w.key not in wanted.refused for p in w.pods]
    said = tell.scale_up_event(decision, work.policy, work.facts.pool(decision.pool).ready_in)
    announce(work.hands, asking[:EVENTS_PER_ACTION], "TriggeredScaleUp", said)


def tell_the_rest(work: Work) -> None:
    """Tell, once each, what no action would tell: misfits, budget stages, silent sources, holds, stuck nodes."""
    facts, assignment, policy = work.facts, work.assignment, work.policy
    room = EVENTS_PER_STEP
    for group in waiting_notices.misfit_groups(assignment.misfits):
        if work.store.say(waiting_notices.misfit(group, policy), work.now):
            pods = [p for found in group for p in found.workload.pods][:room]
            announce(work.hands, pods, "NotTriggerScaleUp", group[0].detail)
            room -= len(pods)
    newly_held, refused = _newly_held(work), _refused_before(work)
    for decision in newly_held:
        asking = assignment.pools[decision.pool].asking
        pods = [p for w in asking if refused is None or w.key not in refused for p in w.pods][:room]
        announce(work.hands, pods, "NotTriggerScaleUp", tell.held_event(decision, policy))
        room -= len(pods)
    for workload, said in _newly_refused(work, refused, {d.pool for d in newly_held}):
        pods = list(workload.pods)[:room]
        announce(work.hands, pods, "NotTriggerScaleUp", said)
        room -= len(pods)
    for pod in _newly_claiming(work)[:room]:
        announce(work.hands, [pod], "NotTriggerScaleUp", by_claim(pod))
    closes = work.mode == "act" and work.hands.cluster is not None
    told = work.store.told(budget_notices.TOPIC) if assignment.budgets.views else {}
    # Who waits beside free room may only just have been let in.
    reopened = closing_notices.when_reopened(work.store.told(closing_notices.TOPIC) if facts.waiting else {})
    notices = (
        *budget_notices.lines(assignment.budgets, told, work.now, closes=closes),
        *waiting_notices.held(work.decisions, assignment, facts, policy),
        *warn.found(facts, assignment, work.drifts, policy, reopened),
    )
    for notice in notices:
        work.store.say(_beside_its_decision(notice, work), work.now)
    for notice, ignored in keep_until.ignored(facts.pools, policy.keep_until, work.now).items():
        if work.store.say(notice, work.now):
            announce(work.hands, ignored[:EVENTS_PER_ACTION], "KeepUntilIgnored", notice.body)


def _beside_its_decision(notice: Notice, work: Work) -> Notice:
    """*notice* with the decision of its pool, where whoever reads it finds everything that was known."""
    number = work.numbers.get(notice.pool or "")
    return notice if notice.decision is not None or number is None else replace(notice, decision=number)


def _newly_held(work: Work) -> Sequence[Decision]:
    """The decisions that a guardrail has just begun to hold, while work waits for them."""
    holding = [
        d
        for d in work.decisions.values()
        if d.change is Change.HOLD
        and d.deciding.verdict is Verdict.HOLDS
        and d.deciding.rule not in PASSING
        and work.assignment.pools[d.pool].asking
    ]
    if not holding:
        return ()
    kept = work.before
    known = {e.get("pool"): e.get("decision") for e in (kept[0].get("pools") or ())} if kept else {}
    return [d for d in holding if known.get(d.pool) != work.numbers[d.pool]]


def _refused_before(work: Work) -> Collection[str] | None:
    """The workloads that a budget refused by the last picture; None where more waited than it lists."""
    kept = work.before
    listed = (kept[0].get("waiting") or ()) if kept else ()
    if len(listed) >= MOST:
        return None
    return {e["workload"] for e in listed if e.get("rule") == "within_budget"}


def _newly_refused(work: Work, known: Collection[str] | None, told: Collection[str]) -> Iterator[tuple[Workload, str]]:
    """The workloads beyond the *known* ones that a budget refuses while their pool may grow for others, with the
    sentence; work for the pools *told* was told of the pool. None where nobody can tell which are new."""
    for pool, wanted in work.assignment.pools.items():
        if known is None or pool in told:
            continue
        for workload in wanted.asking:
            if workload.key in wanted.refused and workload.key not in known:
                yield workload, tell.refused_event(pool, wanted.refused[workload.key], work.policy)


def _newly_claiming(work: Work) -> Sequence[Pod]:
    """The pods that ask for devices by claim and that the last picture does not show as waiting; none where more waited
    than it lists, for nobody can tell which are new then."""
    claiming = [p for p in work.facts.waiting if p.claims and not p.daemon and not p.terminating]
    listed = (work.before[0].get("waiting") or ()) if claiming and work.before else ()
    if len(listed) >= MOST:
        return ()
    known = {f"{e.get('namespace')}/{e.get('name')}" for e in listed}
    return [p for p in claiming if p.key not in known]


def announce(hands: Hands, pods: Sequence[Pod], reason: str, message: str) -> None:
    """Leave an Event on each of *pods*; ones that cannot be written must neither fail nor hold up the step."""
    if hands.cluster is None:
        return
    for pod in pods:
        if not pod.uid:
            continue
        try:
            hands.ready()
            hands.cluster.announce(pod, reason=reason, message=message)
        except (TryLater, WontWork) as error:
            log.warning("events not written", pod=pod.key, pods=len(pods), error=str(error))
            return
