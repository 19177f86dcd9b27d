"""Notices of ``gpu-autoscaler.io/keep-until`` wishes that are not honoured."""

from collections.abc import Iterable
from datetime import datetime

from receiver.core.model.model import PoolState
from receiver.core.model.pods import Pod
from receiver.core.model.policy import KeepUntil
from receiver.core.model.text import lasting
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity
from receiver.core.scaling.keep_until import KEEP_UNTIL, honoured

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
