"""What is said about idle workloads that consented to be scaled to zero, and of keep-until wishes that are ignored."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from receiver.core.idle.idle_shutdown import TOPIC, Consenting, IdleCase, IdleStanding, key_of, may_be_kept, shutdown_at
from receiver.core.model.model import PoolState
from receiver.core.model.pods import KEEP_UNTIL, Pod, honoured
from receiver.core.model.policy import KeepUntil
from receiver.core.model.text import lasting, some
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity

IDLE_SHUTDOWN = "gpu-autoscaler.io/idle-shutdown"
A_DAY = timedelta(days=1)
CAUSES = {
    IdleStanding.CALM: Cause.IDLE_STAYS,
    IdleStanding.WARNED: Cause.IDLE_WARNED,
    IdleStanding.KEPT: Cause.IDLE_KEPT,
    IdleStanding.OBSERVED: Cause.IDLE_WARNED,
    IdleStanding.FAILED: Cause.IDLE_FAILED,
    IdleStanding.DONE: Cause.IDLE_SHUT_DOWN,
    IdleStanding.CANNOT: Cause.IDLE_CANNOT,
}


def name_of(key: str) -> str:
    """``Deployment ml/web`` for the key ``ml/Deployment/web``."""
    namespace, kind, name = key.split("/", 2)
    return f"{kind} {namespace}/{name}"


def warning(workload: Consenting, case: IdleCase) -> Notice:
    """The notice before: when it is scaled to zero, and how to keep it."""
    when = wording.moment(shutdown_at(workload, case), case.now)
    name, idle = f"GPU workload {name_of(workload.key)}", f"idle for {lasting(workload.window)}"
    if case.mode == "observe":
        return _notice(
            workload,
            IdleStanding.WARNED,
            case,
            f"{name} would be scaled to zero at {when} (observing)",
            wording.worded(
                why=f"{idle}; {_asked(workload)}", whose=_whose(workload, case), after="nothing while mode is observe"
            ),
        )
    return _notice(
        workload,
        IdleStanding.WARNED,
        case,
        f"{name} will be scaled to zero at {when}",
        wording.worded(
            why=f"{idle}: engine, memory and power at rest; {_asked(workload)}",
            whose=_whose(workload, case),
            after=f"at {when} it is scaled to zero, unless its GPUs are used before that",
            do=_how_to_keep(workload, case),
        ),
        Severity.WARNING,
    )


def kept(workload: Consenting, until: datetime, case: IdleCase) -> Notice:
    """The notice that a warned workload is put off."""
    return _notice(
        workload,
        IdleStanding.KEPT,
        case,
        f"GPU workload {name_of(workload.key)} is kept until {until:%Y-%m-%d %H:%M} UTC",
        wording.worded(
            why=f"{KEEP_UNTIL} on a pod of it says so",
            whose=_whose(workload, case),
            after="if it is idle then, it is announced anew",
        ),
    )


def cleared(workload: Consenting, case: IdleCase) -> Notice:
    """The notice that a warning no longer holds because the workload is used, or does not take part any more."""
    why = (
        "its GPUs are in use, or its pods are new"
        if workload.whole
        else f"not all of its GPU pods ask for it with {IDLE_SHUTDOWN} any more, or one is protected"
    )
    return _clear(workload.topic, why, case)


def gone(topic: str, case: IdleCase) -> Notice:
    """The notice that a warned workload is gone, or that no pod of it takes part any more."""
    return _clear(topic, f"it has no GPU pod with {IDLE_SHUTDOWN} any more", case)


def cannot(workload: Consenting, case: IdleCase) -> Notice:
    """The notice that a workload asks for what cannot be done."""
    why = (
        "nothing owns this pod, so nothing can be scaled"
        if workload.kind == "Pod"
        else f"a {workload.kind} cannot be scaled to zero by us"
    )
    return _notice(
        workload,
        IdleStanding.CANNOT,
        case,
        f"GPU workload {name_of(workload.key)} cannot be scaled to zero",
        wording.worded(
            why=f"{why}; {IDLE_SHUTDOWN} works on pods of Deployments, StatefulSets, ReplicaSets and Jobs",
            whose=_whose(workload, case),
            after="it stays as it is; this is told once",
        ),
        Severity.WARNING,
    )


def done(workload: Consenting, sentence: str, case: IdleCase) -> Notice:
    """The notice after: what was done (*sentence*) and how to undo it."""
    return _notice(
        workload,
        IdleStanding.DONE,
        case,
        f"GPU workload {name_of(workload.key)} was scaled to zero: idle for {lasting(workload.window)}",
        wording.worded(
            sentence,
            why=_asked(workload),
            whose=_whose(workload, case),
            after="its nodes go when they idle",
            do=f"To start it again: {_undo(workload)}",
        ),
        Severity.SUCCESS,
    )


def observed(workload: Consenting, sentence: str, case: IdleCase) -> Notice:
    """The notice of what observe mode did not do."""
    return _notice(
        workload,
        IdleStanding.OBSERVED,
        case,
        f"GPU workload {name_of(workload.key)} would be scaled to zero (observing, nothing was changed)",
        wording.worded(
            why=f"it has been idle for {lasting(workload.window)}: {sentence}",
            whose=_whose(workload, case),
            after="nothing while mode is observe",
        ),
    )


def failed(workload: Consenting, error: str, case: IdleCase) -> Notice:
    """The notice that it could not be scaled to zero; told once, tried again for a day."""
    return _notice(
        workload,
        IdleStanding.FAILED,
        case,
        f"GPU workload {name_of(workload.key)} could not be scaled to zero",
        wording.worded(
            why=error,
            whose=_whose(workload, case),
            after=f"it is tried again for a day while no GPU of it is used; without {IDLE_SHUTDOWN} it is left alone",
        ),
        Severity.FAILURE,
    )


def _notice(
    workload: Consenting,
    standing: IdleStanding,
    case: IdleCase,
    title: str,
    body: str,
    severity: Severity = Severity.INFO,
) -> Notice:
    return Notice(
        cause=CAUSES[standing],
        topic=workload.topic,
        key=key_of(standing, case),
        title=title,
        body=body,
        severity=severity,
    )


def _clear(topic: str, why: str, case: IdleCase) -> Notice:
    return Notice(
        cause=CAUSES[IdleStanding.CALM],
        topic=topic,
        key=key_of(IdleStanding.CALM, case),
        title=f"GPU workload {name_of(topic.removeprefix(TOPIC))} is no longer about to be scaled to zero",
        body=wording.worded(why=why, after="it stays as it is"),
        all_clear=True,
    )


def _asked(workload: Consenting) -> str:
    return f"{some(len(workload.pods), 'GPU pod')} of it asked for that with {IDLE_SHUTDOWN}"


def _whose(workload: Consenting, case: IdleCase) -> str:
    return wording.whose(wording.asked_by(workload.pods, case.policy))


def _how_to_keep(workload: Consenting, case: IdleCase) -> str:
    pod, allowed = workload.pods[0], case.policy.keep_until
    annotate = f"kubectl annotate pod -n {pod.namespace} {pod.name} --overwrite"
    if may_be_kept(workload, allowed):
        until = _rfc3339(case.now + min(A_DAY, allowed.longest))
        return f"To keep it for now: {annotate} {KEEP_UNTIL}={until} (at most {lasting(allowed.longest)} ahead)"
    return f"To keep it: {annotate} {IDLE_SHUTDOWN}-"


def _rfc3339(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _undo(workload: Consenting) -> str:
    resource = f"{workload.kind.lower()}/{workload.name}"
    if workload.kind == "Job":
        return f"""kubectl patch -n {workload.namespace} {resource} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""
    return f"kubectl scale -n {workload.namespace} {resource} --replicas={len(workload.staying)}"


WISH_TOPIC = "keep-until:"


def ignored(states: Iterable[PoolState], allowed: KeepUntil, now: datetime) -> dict[Notice, tuple[Pod, ...]]:
    """The notices of wishes that keep no node, one per owner and time, with the pods that made them."""
    found: dict[Notice, tuple[Pod, ...]] = {}
    for pod in (p for state in states for node in state.nodes for p in node.pods):
        if pod.keep_until is None or pod.keep_until <= now or honoured(pod, allowed, now) is not None:
            continue
        notice = _not_honoured(pod, pod.keep_until, allowed)
        found[notice] = (*found.get(notice, ()), pod)
    return found


def _not_honoured(pod: Pod, wish: datetime, allowed: KeepUntil) -> Notice:
    whose = f"{pod.namespace}/{pod.owner or pod.name}"
    return Notice(
        cause=Cause.KEEP_UNTIL_IGNORED,
        topic=f"{WISH_TOPIC}{whose}:{wish.isoformat()}",  # pods of one owner may name several times
        key=wish.isoformat(),
        title=f"GPU workload {whose}: {KEEP_UNTIL} is not honoured",
        body=wording.worded(
            why=f"it says {wish:%Y-%m-%d %H:%M} UTC, but {_why_ignored(pod.namespace, allowed)}",
            after="it keeps no node, and puts no shutdown off",
            do="To keep its node all the same: kubectl annotate node NODE gpu-autoscaler.io/protect=true",
        ),
        severity=Severity.WARNING,
    )


def _why_ignored(namespace: str, allowed: KeepUntil) -> str:
    """Why a wish of *namespace* that lies ahead is not honoured."""
    if namespace in allowed.namespaces:
        return f"it lies more than {lasting(allowed.longest)} ahead (keep_until.longest)"
    return f"the namespace {namespace} is not listed under keep_until.namespaces"
