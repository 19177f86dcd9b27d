"""What is said about idle workloads that consented to be scaled to zero: before, after, and why not."""

from datetime import datetime, timedelta

from receiver.core.idle_shutdown import (
    TOPIC,
    Case,
    Consenting,
    Standing,
    key_of,
    may_be_kept,
    shutdown_at,
)
from receiver.core.keep_until import KEEP_UNTIL
from receiver.core.tell import Cause, Notice, Severity
from receiver.core.words import lasting, some

IDLE_SHUTDOWN = "gpu-autoscaler.io/idle-shutdown"
A_DAY = timedelta(days=1)
CAUSES = {
    Standing.CALM: Cause.IDLE_STAYS,
    Standing.WARNED: Cause.IDLE_WARNED,
    Standing.KEPT: Cause.IDLE_KEPT,
    Standing.OBSERVED: Cause.IDLE_WARNED,
    Standing.FAILED: Cause.IDLE_FAILED,
    Standing.DONE: Cause.IDLE_SHUT_DOWN,
    Standing.CANNOT: Cause.IDLE_CANNOT,
}


def name_of(key: str) -> str:
    """``Deployment ml/web`` for the key ``ml/Deployment/web``."""
    namespace, kind, name = key.split("/", 2)
    return f"{kind} {namespace}/{name}"


def warning(workload: Consenting, case: Case) -> Notice:
    """The notice before: when it is scaled to zero, and how to keep it."""
    when = f"{shutdown_at(workload, case):%H:%M} UTC"
    idle = f"GPU workload {name_of(workload.key)} has been idle for {lasting(workload.window)}"
    if case.mode == "observe":
        return _notice(
            workload,
            Standing.WARNED,
            case,
            f"{idle}: it would be scaled to zero at {when} (observing, nothing is changed)",
            f"{some(len(workload.pods), 'GPU pod')} of it asked for that with {IDLE_SHUTDOWN}.",
        )
    return _notice(
        workload,
        Standing.WARNED,
        case,
        f"{idle}: it will be scaled to zero at {when}",
        f"{some(len(workload.pods), 'GPU pod')} of it asked for that with {IDLE_SHUTDOWN}; engine, memory and power"
        f" have been at rest.\n{_how_to_keep(workload, case)}",
        Severity.WARNING,
    )


def kept(workload: Consenting, until: datetime, case: Case) -> Notice:
    """The notice that a warned workload is put off."""
    return _notice(
        workload,
        Standing.KEPT,
        case,
        f"GPU workload {name_of(workload.key)} is kept until {until:%Y-%m-%d %H:%M} UTC",
        f"{KEEP_UNTIL} on a pod of it says so. If it is idle then, it is announced anew.",
    )


def cleared(workload: Consenting, case: Case) -> Notice:
    """The notice that a warning no longer holds because the workload is used, or does not take part any more."""
    why = (
        "Its GPUs are in use, or its pods are new."
        if workload.whole
        else f"Not all of its GPU pods ask for it with {IDLE_SHUTDOWN} any more, or one is protected."
    )
    return _clear(workload.topic, f"{why} It is not scaled to zero.", case)


def gone(topic: str, case: Case) -> Notice:
    """The notice that a warned workload is gone, or that no pod of it takes part any more."""
    return _clear(topic, f"It has no GPU pod with {IDLE_SHUTDOWN} any more.", case)


def cannot(workload: Consenting, case: Case) -> Notice:
    """The notice that a workload asks for what cannot be done."""
    why = (
        "Nothing owns this pod, so nothing can be scaled."
        if workload.kind == "Pod"
        else f"A {workload.kind} cannot be scaled to zero by us."
    )
    return _notice(
        workload,
        Standing.CANNOT,
        case,
        f"GPU workload {name_of(workload.key)} cannot be scaled to zero",
        f"{why} {IDLE_SHUTDOWN} works on pods of Deployments, StatefulSets, ReplicaSets and Jobs."
        " It stays as it is; this is told once.",
        Severity.WARNING,
    )


def done(workload: Consenting, sentence: str, case: Case) -> Notice:
    """The notice after: what was done (*sentence*) and how to undo it."""
    return _notice(
        workload,
        Standing.DONE,
        case,
        f"GPU workload {name_of(workload.key)} was scaled to zero: idle for {lasting(workload.window)}",
        f"{sentence[:1].upper()}{sentence[1:]}.\nTo start it again: `{_undo(workload)}`",
        Severity.SUCCESS,
    )


def observed(workload: Consenting, sentence: str, case: Case) -> Notice:
    """The notice of what observe mode did not do."""
    return _notice(
        workload,
        Standing.OBSERVED,
        case,
        f"GPU workload {name_of(workload.key)} would be scaled to zero (observing, nothing was changed)",
        f"It has been idle for {lasting(workload.window)}: {sentence}.",
    )


def failed(workload: Consenting, error: str, case: Case) -> Notice:
    """The notice that it could not be scaled to zero; told once, tried again for a day."""
    return _notice(
        workload,
        Standing.FAILED,
        case,
        f"GPU workload {name_of(workload.key)} could not be scaled to zero",
        f"{error}\nIt is tried again while it stays idle. Without {IDLE_SHUTDOWN} on its pods it is left alone.",
        Severity.FAILURE,
    )


def _notice(
    workload: Consenting, standing: Standing, case: Case, title: str, body: str, severity: Severity = Severity.INFO
) -> Notice:
    return Notice(
        cause=CAUSES[standing],
        topic=workload.topic,
        key=key_of(standing, case),
        title=title,
        body=body,
        severity=severity,
    )


def _clear(topic: str, body: str, case: Case) -> Notice:
    name = name_of(topic.removeprefix(TOPIC))
    title = f"GPU workload {name} is no longer about to be scaled to zero"
    return Notice(
        cause=CAUSES[Standing.CALM],
        topic=topic,
        key=key_of(Standing.CALM, case),
        title=title,
        body=body,
        all_clear=True,
    )


def _how_to_keep(workload: Consenting, case: Case) -> str:
    pod, allowed = workload.pods[0], case.policy.keep_until
    annotate = f"kubectl annotate pod -n {pod.namespace} {pod.name} --overwrite"
    if may_be_kept(workload, allowed):
        until = _rfc3339(case.now + min(A_DAY, allowed.longest))
        return f"To keep it for now: `{annotate} {KEEP_UNTIL}={until}`, at most {lasting(allowed.longest)} ahead."
    return f"To keep it: `{annotate} {IDLE_SHUTDOWN}-`"


def _rfc3339(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _undo(workload: Consenting) -> str:
    resource = f"{workload.kind.lower()}/{workload.name}"
    if workload.kind == "Job":
        return f"""kubectl patch -n {workload.namespace} {resource} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""
    return f"kubectl scale -n {workload.namespace} {resource} --replicas={len(workload.staying)}"
