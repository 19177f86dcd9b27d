"""Messages to the owners of idle workloads: a warning, its end, and what was done."""

from datetime import timedelta

from receiver.capabilities.idle_shutdown.judging import (
    SCALABLE,
    TOPIC,
    Candidate,
    IdleCase,
    IdleStanding,
    key_of,
    shutdown_at,
    standing_of,
)
from receiver.core.model.pods import KEEP_UNTIL
from receiver.core.model.policy import IdleAction
from receiver.core.model.text import dollars, lasting
from receiver.core.model.usage import IdleSpan
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.notices.workload_notices import OBSERVED

IDLE_SHUTDOWN = "gpu-autoscaler.io/idle-shutdown"
NEVER = "never"
BY_POLICY = "the policy idle_shutdown of the autoscaler's configuration covers it"
A_DAY = timedelta(days=1)


def idle_notice(standing: IdleStanding, workload: Candidate, case: IdleCase, detail: str = "") -> Notice:
    """The notice that leaves *workload* at *standing*, which is neither `CALM` nor `TOLD`. *detail* is until when it is
    kept, what was done, or the error."""
    idle = f"idle for {lasting(workload.window)}"
    requested = f"{len(workload.pods)} of its GPU pods opted in with the annotation {IDLE_SHUTDOWN}"
    requested = BY_POLICY if workload.covered else requested
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
            do, severity = f"To start it again: {_command(workload, running=True)}", Severity.SUCCESS
        case IdleStanding.OBSERVED:
            title = "would be scaled to zero (observing, nothing was changed)"
            reason, after = f"{idle}: {detail}", OBSERVED
        case _:
            cause, severity = Cause.IDLE_FAILED, Severity.WARNING  # it is tried again by itself
            title, reason = "could not be scaled to zero", detail
            stop = f"set {IDLE_SHUTDOWN}={NEVER} on its pods" if workload.covered else f"remove {IDLE_SHUTDOWN}"
            after = f"it is tried again for a day while its GPUs are idle; to stop that, {stop}"
    asker = wording.whose(wording.asked_by(workload.pods, case.policy))
    return Notice(
        cause=cause,
        topic=workload.topic,
        key=key_of(standing, case),
        title=f"GPU workload {_name_of(workload.key)} {title}",
        body=wording.worded(happened, why=reason, whose=asker, after=after, do=do),
        severity=severity,
    )


def idle_told(workload: Candidate, case: IdleCase, held: IdleSpan) -> Notice:
    """The notice that *workload* is idle, and that this is all that is done about it. *held* is what its pods hold."""
    after = "nothing is ended; this message comes once"
    if case.policy.idle.action is IdleAction.SCALE_TO_ZERO:
        after = f"it stays as it is, because the policy does not end a {workload.kind}; this message comes once"
    do = _how_to_keep(workload, case)
    if workload.kind in SCALABLE:
        do = f"To free its GPUs: {_command(workload, running=False)}\n{do}"
    price = (
        "the price of its GPUs is not known" if held.usd_per_hour is None else f"{dollars(held.usd_per_hour)} an hour"
    )
    return Notice(
        cause=Cause.IDLE_TOLD,
        topic=workload.topic,
        key=key_of(IdleStanding.TOLD, case),
        title=f"GPU workload {_name_of(workload.key)} has been idle for {lasting(workload.window)}",
        body=wording.worded(
            why=f"no GPU activity (engine, memory, power); {BY_POLICY}",
            whose=wording.whose(wording.asked_by(workload.pods, case.policy)),
            cost=price,
            after=after,
            do=do,
        ),
        severity=Severity.WARNING,
    )


def idle_cleared(topic: str, workload: Candidate | None, case: IdleCase, doubt: str = "") -> Notice:
    """The notice that a warning no longer applies: *workload* is used, or it is gone or does not take part any more, or
    there is a *doubt* (a clause)."""
    was_told = standing_of(topic, case)[0] is IdleStanding.TOLD
    reason = doubt or f"it has no GPU pod with {IDLE_SHUTDOWN} any more"
    if workload is not None and workload.whole:
        reason = "its GPUs are in use, or its pods are new"
    elif workload is not None and workload.covered:
        reason = f"one of its GPU pods has {IDLE_SHUTDOWN}={NEVER}, is protected, or is of a production class"
    elif workload is not None:
        reason = f"not all of its GPU pods have {IDLE_SHUTDOWN} any more, or one is protected"
    elif was_told and not doubt:
        reason = "its GPU pods are gone, or the policy does not cover them any more"
    ends = "is no longer idle for too long" if was_told else "will not be scaled to zero any more"
    return Notice(
        cause=Cause.IDLE_STAYS,
        topic=topic,
        key=key_of(IdleStanding.CALM, case),
        title=f"GPU workload {_name_of(topic.removeprefix(TOPIC))} {ends}",
        body=wording.worded(why=reason, after="it stays as it is"),
        all_clear=True,
    )


def _name_of(key: str) -> str:
    """``Deployment ml/web`` for the key ``ml/Deployment/web``."""
    namespace, kind, name = key.split("/", 2)
    return f"{kind} {namespace}/{name}"


def _how_to_keep(workload: Candidate, case: IdleCase) -> str:
    pod, allowed = workload.pods[0], case.policy.keep_until
    annotate = f"kubectl annotate pod -n {pod.namespace} {pod.name} --overwrite"
    if workload.namespace in allowed.namespaces:
        until = f"{case.now + min(A_DAY, allowed.longest):%Y-%m-%dT%H:%M:%SZ}"
        return f"To keep it for now: {annotate} {KEEP_UNTIL}={until} (at most {lasting(allowed.longest)} ahead)"
    return f"To keep it: {annotate} {IDLE_SHUTDOWN}{f'={NEVER}' if workload.covered else '-'}"


def _command(workload: Candidate, *, running: bool) -> str:
    """The command that starts the owner of *workload* again, or that stops it."""
    resource = f"{workload.kind.lower()}/{workload.name}"
    if workload.kind == "Job":
        suspend = str(not running).lower()
        patch = f"""--type=merge -p '{{"spec":{{"suspend":{suspend}}}}}'"""
        return f"kubectl patch -n {workload.namespace} {resource} {patch}"
    return f"kubectl scale -n {workload.namespace} {resource} --replicas={len(workload.staying) if running else 0}"
