"""Warn idle workloads that opted in or that the policy covers, and scale them to zero after their idle time, or only
tell.

Every part may be repeated: a workload's standing is read from the store. A failure is left to a later step.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import structlog

from receiver.capabilities.idle_shutdown import judging, notices
from receiver.capabilities.idle_shutdown.judging import Candidate, IdleCase, IdleStanding, IdleVerdict
from receiver.capabilities.idle_shutdown.spans import UNSEEN, Holdings, is_overdue, seen_idle, started_again
from receiver.core.model.memory import is_new_minute
from receiver.core.model.usage import IdleSpan
from receiver.core.notices.concerns import SILENT_FOR
from receiver.core.notices.notice import Notice
from receiver.ports import Cluster, Did, StepStore, TryLater, WontWork
from receiver.step.gather import Looked, Sources
from receiver.step.parts import Hands, StepContext, Write, WriteKind

log = structlog.get_logger("receiver")
EVENTS_PER_WORKLOAD = 10  # pods of it that get a Kubernetes Event
EVENTS = WriteKind("Events not written")
SCALING = WriteKind("idle workload not scaled to zero", "idle workload", tuple(Did))
IN_DOUBT = "the clock changed, or the autoscaler paused; if the workload stays idle, a new warning follows"
MOST_AT_ONCE = 20  # workloads scaled to zero by one step: each takes a few calls
SAID_ON_PODS = frozenset({IdleVerdict.WARN, IdleVerdict.TELL})


def scale_idle_workloads_to_zero(work: StepContext, looked: Looked, sources: Sources) -> None:
    """Check the workloads that must not be idle for long, once a minute. Raises TryLater when the store fails,
    WriterLostError when this replica may not write."""
    policy, mode, now, store = work.policy, work.mode, work.now, work.store
    cluster, telemetry = work.hands.cluster, sources.telemetry
    if not looked.trusted:
        case = judging.case_of(looked.facts, policy, mode, store.told(judging.TOPIC), {})
        for topic in judging.warned(case):  # how much of its grace has passed is unknown
            store.say(notices.idle_cleared(topic, None, case, IN_DOUBT), now)
        return
    if telemetry is None or cluster is None:
        return
    if not is_new_minute(looked.before, now) or not judging.can_tell(looked.facts):
        return
    every, sent_notices = judging.candidates(looked.pods, policy), store.told(judging.TOPIC)
    workloads = tuple(w for w in every if judging.shuts_down(w.pods, looked.facts, looked.others))
    if not workloads and not sent_notices:
        return
    courses = {}
    for window in judging.windows(workloads, now):
        try:
            courses[window] = telemetry.courses(window)
        except (TryLater, WontWork) as error:
            log.warning("cannot read GPU utilization", window=str(window), error=str(error))
    case = judging.case_of(looked.facts, policy, mode, sent_notices, courses)
    for topic in judging.left(workloads, case):
        store.say(notices.idle_cleared(topic, None, case), now)
    before = store.idle_spans(now - UNSEEN)
    ended = _serve(workloads, case, before, work, Holdings(looked.facts, policy))
    store.keep_idle([*started_again(before, every), *ended])


def _serve(
    workloads: Iterable[Candidate], case: IdleCase, before: Iterable[IdleSpan], work: StepContext, holdings: Holdings
) -> Iterator[IdleSpan]:
    """Do what is due about *workloads*; yield what they hold idle for too long now, or have just freed."""
    store, hands, cluster, room = work.store, work.hands, work.hands.cluster, MOST_AT_ONCE
    if cluster is None:
        return
    spans = {span.workload: span for span in before}
    for workload in workloads:
        verdict = judging.judge(workload, case)
        notice = _notice(workload, verdict, case, holdings)
        if notice is not None and store.say(notice, case.now) and verdict in SAID_ON_PODS:
            _record_event(workload, notice, hands, cluster)
        if verdict is IdleVerdict.SCALE and room:
            room -= 1
            if _scale(workload, case, store, hands, cluster):
                yield replace(holdings.of(workload), ended=True)
        elif is_overdue(workload, case):
            yield seen_idle(holdings.of(workload), spans.get(workload.key))


def _notice(workload: Candidate, verdict: IdleVerdict, case: IdleCase, holdings: Holdings) -> Notice | None:
    until = judging.kept_until(workload, case)
    if verdict is IdleVerdict.WARN:
        return notices.idle_notice(IdleStanding.WARNED, workload, case)
    if verdict is IdleVerdict.TELL:
        return notices.idle_told(workload, case, holdings.of(workload))
    if verdict is IdleVerdict.CLEAR:
        return notices.idle_cleared(workload.topic, workload, case)
    if verdict is IdleVerdict.CANNOT:
        return notices.idle_notice(IdleStanding.CANNOT, workload, case)
    if verdict is IdleVerdict.KEEP and until is not None:
        return notices.idle_notice(IdleStanding.KEPT, workload, case, f"{until:%Y-%m-%d %H:%M} UTC")
    return None


def _record_event(workload: Candidate, notice: Notice, hands: Hands, cluster: Cluster) -> None:
    record = partial(cluster.record_event, reason="IdleShutdown", message=f"{notice.title}. {notice.body}")
    for pod in workload.staying[:EVENTS_PER_WORKLOAD]:
        if hands.write(EVENTS, Write({"pod": pod.key}, partial(record, pod))).error is not None:
            return


def _scale(workload: Candidate, case: IdleCase, store: StepStore, hands: Hands, cluster: Cluster) -> bool:
    """Scale its owner to zero and send a message; return True if that ended it. A transient error is reported only when
    it lasts, a failure once."""
    scale = partial(cluster.scale_to_zero, workload.staying[0], covered=workload.covered)
    written = hands.write(SCALING, Write({"workload": workload.key}, scale))
    if (receipt := written.receipt) is None:
        failed = judging.standing_of(workload.topic, case)[0] is IdleStanding.FAILED
        lasts = case.now - judging.shutdown_at(workload, case) >= SILENT_FOR
        if not failed and (lasts or isinstance(written.error, WontWork)):
            store.say(notices.idle_notice(IdleStanding.FAILED, workload, case, str(written.error)), case.now)
    elif receipt.did is not Did.DIFFERS:  # what differs is decided on anew
        standing = IdleStanding.OBSERVED if receipt.did is Did.OBSERVED else IdleStanding.DONE
        store.say(notices.idle_notice(standing, workload, case, receipt.sentence), case.now)
        return receipt.did is not Did.OBSERVED
    return False
