"""Pods that a queue announces and that do not exist yet, from the template that they will be made of."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from receiver.adapters.nodes import section
from receiver.adapters.pods import pod_from
from receiver.core.pods import Pod, PodPhase


def announced_pod(origin: Mapping[str, Any], template: Mapping[str, Any], *, priority: int) -> Pod | None:
    """Return a waiting GPU pod of *template* (PodTemplateSpec v1 core), or None for one without GPUs.

    It has namespace, name, age and owner of *origin*, the object that announces it, and no uid: there is
    nothing yet that an Event could be left on.
    """
    metadata, described = section(origin, "metadata"), section(template, "metadata")
    inherited = ("namespace", "name", "creationTimestamp", "ownerReferences")
    own = {name: metadata[name] for name in inherited if name in metadata}
    said = {name: described[name] for name in ("labels", "annotations") if name in described}
    pod = pod_from({"metadata": {**said, **own}, "spec": {**section(template, "spec"), "nodeName": None}})
    return None if pod is None else replace(pod, phase=PodPhase.WAITING, priority=priority, gang=None, gang_min=None)


def as_gang(key: str, pods: Sequence[Pod], least: int | None = None) -> tuple[Pod, ...]:
    """Return *pods* as the gang *key*, of which *least* must run together; a single pod is none."""
    return tuple(replace(p, gang=key, gang_min=least) for p in pods) if len(pods) > 1 else tuple(pods)
