"""Warn idle workloads that consented, and scale them to zero when their time has come.

Every part may be repeated: how a workload stands is read from the store, and its owner is read again before it is
changed. Whatever cannot be asked or written now is left to a later step.
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
from receiver.core.model.control import is_new_minute
from receiver.core.model.policy import Policy
from receiver.core.notices import idle_notices as notices
from receiver.core.notices.sentences import Notice
from receiver.core.notices.warnings import SILENT_FOR
from receiver.ports import Cluster, Did, StepStore, Telemetry, TryLater, WontWork
from receiver.step.carry_out import Hands
from receiver.step.gather import Looked, Sources

log = structlog.get_logger("receiver")
EVENTS_PER_WORKLOAD = 10  # pods of it that get a Kubernetes Event
MOST_AT_ONCE = 20  # workloads scaled to zero by one step: each takes a few calls


def scale_idle_workloads_to_zero(
    looked: Looked, sources: Sources, hands: Hands, policy: Policy, mode: str, now: datetime
) -> None:
    """Serve the workloads that consented to it, once a minute. Raises TryLater when the store fails, WriterLostError
    when we may not write."""
    telemetry, cluster, store = sources.telemetry, hands.cluster, sources.store
    if telemetry is None or cluster is None or not can_tell(looked.facts) or not is_new_minute(looked.before, now):
        return
    workloads = consenting(looked.pods)
    told = store.told(TOPIC)
    courses = _courses(telemetry, windows(workloads, now))
    case = case_of(looked.facts, policy, mode, told, courses)
    for topic in left(workloads, case):
        store.say(notices.gone(topic, case), now)
    room = MOST_AT_ONCE
    for workload in workloads:
        verdict = judge(workload, case)
        _tell(workload, verdict, case, store, hands, cluster)
        if verdict is IdleVerdict.SCALE and room:
            room -= 1
            _scale(workload, case, store, hands, cluster)


def _courses(telemetry: Telemetry, asked: Sequence[timedelta]) -> Courses:
    """Return what the GPUs did; a window that nobody could answer for is missing."""
    found = {}
    for window in asked:
        try:
            found[window] = telemetry.courses(window)
        except (TryLater, WontWork) as error:
            log.warning("the course of GPUs is not known", window=str(window), error=str(error))
    return found


def _tell(
    workload: Consenting, verdict: IdleVerdict, case: IdleCase, store: StepStore, hands: Hands, cluster: Cluster
) -> None:
    """Say what the verdict asks for; a warning also reaches the pods as an Event, where their owner looks."""
    notice: Notice | None = None
    until = kept_until(workload, case)
    if verdict is IdleVerdict.WARN:
        notice = notices.warning(workload, case)
    elif verdict is IdleVerdict.CLEAR:
        notice = notices.cleared(workload, case)
    elif verdict is IdleVerdict.CANNOT:
        notice = notices.cannot(workload, case)
    elif verdict is IdleVerdict.KEEP and until is not None:
        notice = notices.kept(workload, until, case)
    if notice is not None and store.say(notice, case.now) and verdict is IdleVerdict.WARN:
        _announce(workload, notice, hands, cluster)


def _announce(workload: Consenting, notice: Notice, hands: Hands, cluster: Cluster) -> None:
    message = f"{notice.title}. {notice.body}"
    for pod in workload.staying[:EVENTS_PER_WORKLOAD]:
        try:
            hands.ready()
            cluster.announce(pod, reason="IdleShutdown", message=message)
        except (TryLater, WontWork) as error:
            log.warning("events not written", pod=pod.key, error=str(error))
            return


def _scale(workload: Consenting, case: IdleCase, store: StepStore, hands: Hands, cluster: Cluster) -> None:
    """Scale its owner to zero and tell. What may pass by itself is told only when it lasts; a failure once."""
    hands.ready()
    try:
        receipt = cluster.scale_to_zero(workload.staying[0])
    except (TryLater, WontWork) as error:
        log.warning("idle workload not scaled to zero", workload=workload.key, error=str(error))
        told = standing_of(workload.topic, case)[0] is IdleStanding.FAILED
        if not told and (isinstance(error, WontWork) or overdue(workload, case) >= SILENT_FOR):
            store.say(notices.failed(workload, str(error), case), case.now)
    else:
        if receipt.did is Did.OBSERVED:
            store.say(notices.observed(workload, receipt.sentence, case), case.now)
        elif receipt.did is not Did.DIFFERS:  # what differs is decided on anew
            store.say(notices.done(workload, receipt.sentence, case), case.now)
        log.info("idle workload", workload=workload.key, did=receipt.did.value, detail=receipt.sentence)
