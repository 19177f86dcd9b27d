"""Tell people what a step came to: Kubernetes Events on the pods that wait, notices for everybody else."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import structlog

from receiver.core.explain.explain import State, by_claim, fates
from receiver.core.model.actions import Decision
from receiver.core.model.model import Source
from receiver.core.model.pods import Pod
from receiver.core.notices import money_notices, workload_notices
from receiver.core.notices.concerns import concerns, good_news, notices_of
from receiver.core.notices.notice import Notice, Seen, scale_up_event
from receiver.core.notices.workload_notices import held_events
from receiver.ports import TryLater, WontWork
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")
CLAIMS = f"{State.NOT_DEMAND}:None:None"  # of a pod that asks for devices by claim, as the last picture has it
EVENTS_PER_ACTION = 50  # pods told by a Kubernetes Event about one growth
EVENTS_PER_STEP = 50  # and about not growing: a thousand pods must not keep the loop from scaling
MOST_LOOKED_AT = 5_000  # workloads of which a step looks whether they were told


def record_pod_events(decision: Decision, work: StepContext) -> None:
    """Leave an Event on the pods that a growth is for."""
    wanted = work.assignment.pools[decision.pool]
    asking = [p for w in wanted.asking if w.key not in wanted.refused for p in w.pods]
    said = scale_up_event(decision, work.policy, work.facts.pool(decision.pool).ready_in)
    record_events(work, asking[:EVENTS_PER_ACTION], "TriggeredScaleUp", said)


def send_standing_notices(work: StepContext) -> None:
    """Tell, once each, what no action would tell: misfits, budget stages, silent sources, holds, stuck nodes."""
    facts, assignment, policy = work.facts, work.assignment, work.policy
    _tell_held(work)
    closes = work.mode == "act" and work.hands.cluster is not None
    told = work.store.told(money_notices.BUDGET_TOPIC) if assignment.budgets.views else {}
    # Who waits beside free room may only just have been let in.
    reopened = money_notices.when_reopened(work.store.told(money_notices.CLOSED_TOPIC) if facts.waiting else {})
    work.concerns.extend(
        concerns(
            Seen(
                facts=facts,
                assignment=assignment,
                decisions=work.decisions,
                policy=policy,
                drifts=work.drifts,
                numbers=work.numbers,
                reopened=reopened,
            )
        )
    )
    standing: list[Notice] = [
        *notices_of(work.concerns, policy, work.now),
        *good_news(facts),
        *money_notices.budget_lines(assignment.budgets, told, work.now, closes=closes),
        *money_notices.of_charges(facts, policy),
    ]
    for notice in standing:
        work.store.say(_beside_its_decision(notice, work), work.now)
    for notice, ignored in workload_notices.ignored_wishes(facts.pools, policy.keep_until, work.now).items():
        standing.append(notice)
        if work.store.say(notice, work.now):
            record_events(work, ignored[:EVENTS_PER_ACTION], "KeepUntilIgnored", notice.body)
    if facts.up(Source.CIVO) and facts.up(Source.KUBERNETES):  # otherwise it is unknown what has ended
        work.store.stand(standing, work.now)


def _beside_its_decision(notice: Notice, work: StepContext) -> Notice:
    """Return *notice* with its pool's decision, whose page shows all facts behind it."""
    number = work.numbers.get(notice.pool or "")
    return notice if notice.decision is not None or number is None else replace(notice, decision=number)


def _tell_held(work: StepContext) -> None:
    """Tell each pod once, by an Event, why it gets no node; what is too much for one step is told in the next ones."""
    told, facts, room = work.hands.told, work.facts, EVENTS_PER_STEP
    if not facts.up(Source.KUBERNETES):
        return
    if not told.begun:
        kept = work.store.snapshot()
        told.begin(kept[0] if kept is not None else {}, facts.waiting)
    known = {misfit.workload.key: misfit.detail for misfit in work.assignment.misfits}
    observing = work.mode == "observe"
    found = fates(facts, work.assignment, work.decisions, work.policy, observing=observing)
    for event in held_events(islice(found, MOST_LOOKED_AT), known):
        pods = [p for p in event.pods if told.wants(p, event.about)][:room]
        record_events(work, pods, "NotTriggerScaleUp", event.message, event.about)
        room -= len(pods)
        if room <= 0:
            return
    claiming = [p for p in facts.waiting if p.claims and not p.daemon and not p.terminating]
    for pod in [p for p in claiming if told.wants(p, CLAIMS)][:room]:
        record_events(work, [pod], "NotTriggerScaleUp", by_claim(pod), CLAIMS)


def record_events(work: StepContext, pods: Sequence[Pod], reason: str, message: str, about: str = "") -> None:
    """Leave an Event on each of *pods*, *about* what keeps it waiting if anything does; ones that cannot be written
    must neither fail nor hold up the step, and none gets the same message again within minutes."""
    hands, told, now = work.hands, work.hands.told, work.now
    if hands.cluster is None:
        return
    for pod in pods:
        if not told.may_tell(pod, message, now):
            continue
        try:
            hands.ready()
            hands.cluster.record_event(pod, reason=reason, message=message)
        except (TryLater, WontWork) as error:
            log.warning("events not written", pod=pod.key, pods=len(pods), error=str(error))
            if isinstance(error, TryLater):
                told.rest(now)
            else:
                told.told(pod, about, message, now)  # it never will be
            return
        told.told(pod, about, message, now)
