"""Warn idle workloads that opted in, and scale them to zero after their idle time.

Every part may be repeated: a workload's standing is read from the store. A failure is left to a later step.
"""

from functools import partial

import structlog

from receiver.capabilities.idle_shutdown import judging, notices
from receiver.capabilities.idle_shutdown.judging import Consenting, IdleCase, IdleStanding, IdleVerdict
from receiver.core.model.memory import is_new_minute
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


def scale_idle_workloads_to_zero(work: StepContext, looked: Looked, sources: Sources) -> None:
    """Check the workloads that opted in, once a minute. Raises TryLater when the store fails, WriterLostError when this
    replica may not write."""
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
    workloads, sent_notices = judging.consenting(looked.pods), store.told(judging.TOPIC)
    workloads = tuple(w for w in workloads if judging.shuts_down(w.pods, looked.facts, looked.others))
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
    room = MOST_AT_ONCE
    for workload in workloads:
        verdict = judging.judge(workload, case)
        notice = _notice(workload, verdict, case)
        if notice is not None and store.say(notice, now) and verdict is IdleVerdict.WARN:
            _record_warning(workload, notice, work.hands, cluster)
        if verdict is IdleVerdict.SCALE and room:
            room -= 1
            _scale(workload, case, store, work.hands, cluster)


def _notice(workload: Consenting, verdict: IdleVerdict, case: IdleCase) -> Notice | None:
    until = judging.kept_until(workload, case)
    if verdict is IdleVerdict.WARN:
        return notices.idle_notice(IdleStanding.WARNED, workload, case)
    if verdict is IdleVerdict.CLEAR:
        return notices.idle_cleared(workload.topic, workload, case)
    if verdict is IdleVerdict.CANNOT:
        return notices.idle_notice(IdleStanding.CANNOT, workload, case)
    if verdict is IdleVerdict.KEEP and until is not None:
        return notices.idle_notice(IdleStanding.KEPT, workload, case, f"{until:%Y-%m-%d %H:%M} UTC")
    return None


def _record_warning(workload: Consenting, notice: Notice, hands: Hands, cluster: Cluster) -> None:
    record = partial(cluster.record_event, reason="IdleShutdown", message=f"{notice.title}. {notice.body}")
    for pod in workload.staying[:EVENTS_PER_WORKLOAD]:
        if hands.write(EVENTS, Write({"pod": pod.key}, partial(record, pod))).error is not None:
            return


def _scale(workload: Consenting, case: IdleCase, store: StepStore, hands: Hands, cluster: Cluster) -> None:
    """Scale its owner to zero and send a message. A transient error is reported only when it lasts, a failure once."""
    written = hands.write(
        SCALING, Write({"workload": workload.key}, partial(cluster.scale_to_zero, workload.staying[0]))
    )
    if (receipt := written.receipt) is None:
        failed = judging.standing_of(workload.topic, case)[0] is IdleStanding.FAILED
        lasts = case.now - judging.shutdown_at(workload, case) >= SILENT_FOR
        if not failed and (lasts or isinstance(written.error, WontWork)):
            store.say(notices.idle_notice(IdleStanding.FAILED, workload, case, str(written.error)), case.now)
    elif receipt.did is not Did.DIFFERS:  # what differs is decided on anew
        standing = IdleStanding.OBSERVED if receipt.did is Did.OBSERVED else IdleStanding.DONE
        store.say(notices.idle_notice(standing, workload, case, receipt.sentence), case.now)
