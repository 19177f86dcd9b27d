"""The wish ``gpu-autoscaler.io/keep-until``: whose is honoured, and which node it keeps."""

from collections.abc import Iterable
from datetime import datetime

from receiver.core.model.pods import Pod
from receiver.core.model.policy import KeepUntil

KEEP_UNTIL = "gpu-autoscaler.io/keep-until"
Kept = tuple[datetime | None, str]  # until when a node is kept, and for which pod (``namespace/name``)


def honoured(pod: Pod, allowed: KeepUntil, now: datetime) -> datetime | None:
    """Until when *pod* asks to be kept and may: its namespace is listed, and the time is to come and not too far."""
    wish = pod.keep_until
    if wish is None or wish <= now or pod.namespace not in allowed.namespaces:
        return None
    return wish if wish <= now + allowed.longest else None


def kept(before: Kept, pods: Iterable[Pod], allowed: KeepUntil, now: datetime) -> Kept:
    """Until when the node of *pods* is kept, which was kept as *before* says: the latest wish counts.

    A wish outlives its pod; while the pod is there, what it says now counts.
    """
    here = {pod.key: honoured(pod, allowed, now) for pod in pods}
    wishes = {key: wish for key, wish in here.items() if wish is not None}
    until, key = before
    if until is not None and key not in here:  # one that is over stays too: the clock may be ahead just now
        wishes[key] = until
    if not wishes:
        return None, ""
    latest = max(wishes, key=lambda key: (wishes[key], key))
    return wishes[latest], latest
