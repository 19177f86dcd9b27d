"""Warn idle workloads that opted in, and scale them to zero after their idle time.

Every part may be repeated: a workload's standing is read from the store, and its owner is read again before it is
changed. A failed read or write is left to a later step.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from receiver.core.idle.idle_shutdown import (
    TOPIC,
    Consenting,
    Courses,
    IdleCase,
    IdleStanding,
    IdleVerdict,
    can_tell,
    case_of,
    consenting,
    judge,
    kept_until,
    left,
    overdue,
    standing_of,
    windows,
)
from receiver.core.model.memory import is_new_minute
from receiver.core.model.policy import Policy
from receiver.core.notices import workload_notices
from receiver.core.notices.concerns import SILENT_FOR
from receiver.core.notices.notice import Notice
from receiver.ports import Cluster, Did, StepStore, Telemetry, TryLater, WontWork
from receiver.step.carry_out import Hands
from receiver.step.gather import Looked, Sources

log = structlog.get_logger("receiver")
EVENTS_PER_WORKLOAD = 10  # pods of it that get a Kubernetes Event
MOST_AT_ONCE = 20  # workloads scaled to zero by one step: each takes a few calls


def scale_idle_workloads_to_zero(
    looked: Looked, sources: Sources, hands: Hands, policy: Policy, mode: str, now: datetime
) -> None:
    """Check the workloads that opted in, once a minute. Raises TryLater when the store fails, WriterLostError when this
    replica may not write."""
    telemetry, cluster, store = sources.telemetry, hands.cluster, sources.store
    if telemetry is None or cluster is None or not can_tell(looked.facts) or not is_new_minute(looked.before, now):
        return
    workloads = consenting(looked.pods)
    told = store.told(TOPIC)
    courses = _courses(telemetry, windows(workloads, now))
    case = case_of(looked.facts, policy, mode, told, courses)
    for topic in left(workloads, case):
        store.say(workload_notices.idle_cleared(topic, None, case), now)
    room = MOST_AT_ONCE
    for workload in workloads:
        verdict = judge(workload, case)
        _tell(workload, verdict, case, store, hands, cluster)
        if verdict is IdleVerdict.SCALE and room:
            room -= 1
            _scale(workload, case, store, hands, cluster)


def _courses(telemetry: Telemetry, asked: Sequence[timedelta]) -> Courses:
    """Return GPU utilization over each window; a window without an answer is missing."""
    found = {}
    for window in asked:
        try:
            found[window] = telemetry.courses(window)
        except (TryLater, WontWork) as error:
            log.warning("cannot read GPU utilization", window=str(window), error=str(error))
    return found


def _tell(
    workload: Consenting, verdict: IdleVerdict, case: IdleCase, store: StepStore, hands: Hands, cluster: Cluster
) -> None:
    """Send the message that the verdict asks for. A warning is also recorded as an Event on the pods."""
    notice: Notice | None = None
    until = kept_until(workload, case)
    if verdict is IdleVerdict.WARN:
        notice = workload_notices.idle_notice(IdleStanding.WARNED, workload, case)
    elif verdict is IdleVerdict.CLEAR:
        notice = workload_notices.idle_cleared(workload.topic, workload, case)
    elif verdict is IdleVerdict.CANNOT:
        notice = workload_notices.idle_notice(IdleStanding.CANNOT, workload, case)
    elif verdict is IdleVerdict.KEEP and until is not None:
        notice = workload_notices.idle_notice(IdleStanding.KEPT, workload, case, f"{until:%Y-%m-%d %H:%M} UTC")
    if notice is not None and store.say(notice, case.now) and verdict is IdleVerdict.WARN:
        _announce(workload, notice, hands, cluster)


def _announce(workload: Consenting, notice: Notice, hands: Hands, cluster: Cluster) -> None:
    message = f"{notice.title}. {notice.body}"
    for pod in workload.staying[:EVENTS_PER_WORKLOAD]:
        try:
            hands.ready()
            cluster.record_event(pod, reason="IdleShutdown", message=message)
        except (TryLater, WontWork) as error:
            log.warning("Events not written", pod=pod.key, error=str(error))
            return


def _scale(workload: Consenting, case: IdleCase, store: StepStore, hands: Hands, cluster: Cluster) -> None:
    """Scale its owner to zero and send a message. A transient error is reported only when it lasts, a failure once."""
    hands.ready()
    try:
        receipt = cluster.scale_to_zero(workload.staying[0])
    except (TryLater, WontWork) as error:
        log.warning("idle workload not scaled to zero", workload=workload.key, error=str(error))
        told = standing_of(workload.topic, case)[0] is IdleStanding.FAILED
        if not told and (isinstance(error, WontWork) or overdue(workload, case) >= SILENT_FOR):
            store.say(workload_notices.idle_notice(IdleStanding.FAILED, workload, case, str(error)), case.now)
    else:
        if receipt.did is not Did.DIFFERS:  # what differs is decided on anew
            standing = IdleStanding.OBSERVED if receipt.did is Did.OBSERVED else IdleStanding.DONE
            store.say(workload_notices.idle_notice(standing, workload, case, receipt.sentence), case.now)
        log.info("idle workload", workload=workload.key, did=receipt.did.value, detail=receipt.sentence)
