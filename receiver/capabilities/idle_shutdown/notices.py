"""Messages to the owners of idle workloads: a warning, its end, and what was done."""

from datetime import timedelta

from receiver.capabilities.idle_shutdown.judging import (
    TOPIC,
    Consenting,
    IdleCase,
    IdleStanding,
    key_of,
    shutdown_at,
)
from receiver.core.model.pods import KEEP_UNTIL
from receiver.core.model.text import lasting
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.notices.workload_notices import OBSERVED

IDLE_SHUTDOWN = "gpu-autoscaler.io/idle-shutdown"
A_DAY = timedelta(days=1)


def idle_notice(standing: IdleStanding, workload: Consenting, case: IdleCase, detail: str = "") -> Notice:
    """The notice that leaves *workload* at *standing*, which is not `CALM`. *detail* is until when it is kept, what
    was done, or the error."""
    idle = f"idle for {lasting(workload.window)}"
    requested = f"{len(workload.pods)} of its GPU pods opted in with the annotation {IDLE_SHUTDOWN}"
    when = wording.moment(shutdown_at(workload, case), case.now)
    cause, severity, happened, do = Cause.IDLE_WARNED, Severity.INFO, "", ""
    match standing:
        case IdleStanding.WARNED if case.mode == "observe":
            title, reason, after = f"would be scaled to zero at {when} (observing)", f"{idle}; {requested}", OBSERVED
        case IdleStanding.WARNED:
            title, severity = f"will be scaled to zero at {when}", Severity.WARNING
            reason = f"{idle}: no GPU activity (engine, memory, power); {requested}"
            after, do = (
                f"at {when} it is scaled to zero, unless its GPUs are used before then",
                _how_to_keep(workload, case),
            )
        case IdleStanding.KEPT:
            title, reason = f"is kept until {detail}", f"one of its pods has {KEEP_UNTIL}"
            cause, after = Cause.IDLE_KEPT, "if it is idle then, a new warning follows"
        case IdleStanding.CANNOT:
            cause, title, severity = Cause.IDLE_CANNOT, "cannot be scaled to zero", Severity.WARNING
            no = "this pod has no owner to scale" if workload.kind == "Pod" else f"a {workload.kind} has no scale"
            reason = f"{no}; {IDLE_SHUTDOWN} works on pods of Deployments, StatefulSets, ReplicaSets and Jobs"
            after = "it stays as it is; this message comes once"
        case IdleStanding.DONE:
            cause, title, happened = Cause.IDLE_SHUT_DOWN, f"was scaled to zero: {idle}", detail
            reason, after = requested, "its nodes are removed when they are idle"
            do, severity = f"To start it again: {_undo(workload)}", Severity.SUCCESS
        case IdleStanding.OBSERVED:
            title = "would be scaled to zero (observing, nothing was changed)"
            reason, after = f"{idle}: {detail}", OBSERVED
        case _:
            cause, severity = Cause.IDLE_FAILED, Severity.WARNING  # it is tried again by itself
            title, reason = "could not be scaled to zero", detail
            after = f"it is tried again for a day while its GPUs are idle; to stop that, remove {IDLE_SHUTDOWN}"
    asker = wording.whose(wording.asked_by(workload.pods, case.policy))
    return Notice(
        cause=cause,
        topic=workload.topic,
        key=key_of(standing, case),
        title=f"GPU workload {_name_of(workload.key)} {title}",
        body=wording.worded(happened, why=reason, whose=asker, after=after, do=do),
        severity=severity,
    )


def idle_cleared(topic: str, workload: Consenting | None, case: IdleCase, doubt: str = "") -> Notice:
    """The notice that a warning no longer applies: *workload* is used, or it is gone or does not take part any more, or
    there is a *doubt* (a clause)."""
    reason = doubt or f"it has no GPU pod with {IDLE_SHUTDOWN} any more"
    if workload is not None and workload.whole:
        reason = "its GPUs are in use, or its pods are new"
    elif workload is not None:
        reason = f"not all of its GPU pods have {IDLE_SHUTDOWN} any more, or one is protected"
    return Notice(
        cause=Cause.IDLE_STAYS,
        topic=topic,
        key=key_of(IdleStanding.CALM, case),
        title=f"GPU workload {_name_of(topic.removeprefix(TOPIC))} will not be scaled to zero any more",
        body=wording.worded(why=reason, after="it stays as it is"),
        all_clear=True,
    )


def _name_of(key: str) -> str:
    """``Deployment ml/web`` for the key ``ml/Deployment/web``."""
    namespace, kind, name = key.split("/", 2)
    return f"{kind} {namespace}/{name}"


def _how_to_keep(workload: Consenting, case: IdleCase) -> str:
    pod, allowed = workload.pods[0], case.policy.keep_until
    annotate = f"kubectl annotate pod -n {pod.namespace} {pod.name} --overwrite"
    if workload.namespace in allowed.namespaces:
        until = f"{case.now + min(A_DAY, allowed.longest):%Y-%m-%dT%H:%M:%SZ}"
        return f"To keep it for now: {annotate} {KEEP_UNTIL}={until} (at most {lasting(allowed.longest)} ahead)"
    return f"To keep it: {annotate} {IDLE_SHUTDOWN}-"


def _undo(workload: Consenting) -> str:
    resource = f"{workload.kind.lower()}/{workload.name}"
    if workload.kind == "Job":
        return f"""kubectl patch -n {workload.namespace} {resource} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""
    return f"kubectl scale -n {workload.namespace} {resource} --replicas={len(workload.staying)}"
