"""A world's pods and nodes as the core knows them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from receiver.config.mistakes import longer_than_zero
from receiver.core.model.compute import COMPUTE
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.usage import EndedPod, workload_name
from receiver.ports import (
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    PROTECT_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    ClusterNode,
)
from receiver.replay.world.config import CLAIMS
from receiver.replay.world.objects import WorldNode, WorldPod

T = TypeVar("T")


def as_pod(pod: WorldPod) -> Pod:
    """Return a world's pod as the core knows pods."""
    waits = _phase(pod)
    claims = waits is PodPhase.WAITING and CLAIMS in pod.requests
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        requests={} if claims else pod.requests,
        claims=("gpu",) if claims else (),
        phase=waits,
        created_at=pod.created_at,
        node=pod.node,
        node_selector=pod.node_selector,
        affinity=pod.affinity,
        preferred=pod.preferred,
        tolerations=pod.tolerations,
        priority=pod.priority,
        priority_class=pod.priority_class,
        gang=None if pod.gang is None else f"{pod.namespace}/{pod.gang}",
        gang_min=pod.gang_size or None if pod.gang is not None else None,
        owner=f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else "",
        labels=pod.labels,
        daemon=pod.owner_kind == "DaemonSet",
        terminating=pod.deletion_at is not None,
        evictable=_is_evictable(pod),
        protected=protects(pod),
        idle_shutdown=_said(pod.annotations, IDLE_SHUTDOWN_ANNOTATION, longer_than_zero),
        keep_until=_said(pod.annotations, KEEP_UNTIL_ANNOTATION, _moment),
        bound_at=pod.scheduled_since if pod.scheduled else None,
        running_since=pod.started_at,
        scheduler_says=pod.message if waits is PodPhase.WAITING else "",
        compute=pod.compute,
    )


def as_ended(pod: WorldPod) -> EndedPod:
    """Return how a world's pod ended as the core knows it."""
    owner = f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else ""
    return EndedPod(
        uid=pod.uid,
        workload=workload_name(pod.namespace, owner, pod.name),
        succeeded=pod.phase == "Succeeded",
        at=pod.finished_at,
    )


def as_node(node: WorldNode, hosts: tuple[str, ...], kept_by: tuple[str, ...] = ()) -> ClusterNode:
    """Return a world's node as the port shows nodes; *hosts* are our own and the monitoring pods on it, *kept_by* those
    that draining it would lose."""
    return ClusterNode(
        name=node.name,
        instance=node.instance,
        ready=node.ready,
        unschedulable=node.unschedulable,
        allocatable={} if node.dra else node.gpus,
        dra=node.dra and any(node.gpus.values()),
        labels=node.labels,
        annotations=node.annotations,
        taints=node.taints,
        hosts=hosts,
        compute={r: n for r, n in node.allocatable.items() if r in COMPUTE},
        kept_by=kept_by,
    )


def protects(pod: WorldPod) -> bool:
    """True when its owner wants the pod's node to stay."""
    wished = pod.annotations.get(PROTECT_ANNOTATION, "false").lower() != "false"
    return wished or pod.annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "false"


def _is_evictable(pod: WorldPod) -> bool:
    """True when its owner agreed that the pod is moved; the kubelet would start a mirror pod again where it is."""
    agreed = pod.annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "true"
    return agreed and pod.owner_kind != "Node" and not protects(pod)


def _phase(pod: WorldPod) -> PodPhase:
    if pod.phase == "Running":
        return PodPhase.RUNNING
    if pod.node is not None:
        return PodPhase.STARTING
    return PodPhase.WAITING if pod.scheduled is False and pod.reason == "Unschedulable" else PodPhase.OTHER


def _said(annotations: Mapping[str, str], key: str, read: Callable[[str], T]) -> T | None:
    """Return what an annotation says; one that cannot be read says nothing."""
    if key not in annotations:
        return None
    try:
        return read(annotations[key])
    except ValueError:
        return None


def _moment(text: str) -> datetime:
    """Read RFC 3339. Raises ValueError, also for a time without a zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a moment needs a zone")
    return found.astimezone(UTC)


def with_minimums(pods: Sequence[Pod], active: Iterable[WorldPod], every: Iterable[WorldPod]) -> tuple[Pod, ...]:
    """Return *pods*, where a waiting gang asks for no more than still need a node.

    As `adapters.kubernetes.gangs` counts over HTTP: those of its pods that have succeeded and those without GPUs need
    none. *every* pod of the world is gone through only where a gang has lost some of its *active* ones.
    """
    sizes = {p.gang: p.gang_min for p in pods if p.gang and p.gang_min and p.phase is PodPhase.WAITING}
    if not sizes:
        return tuple(pods)
    members = [p for p in active if _gang(p) in sizes]
    living = Counter(_gang(p) for p in members)
    settled = Counter(_gang(p) for p in members if not p.requests)
    short = {gang for gang, size in sizes.items() if living[gang] < size}
    if short:
        controllers = {(_gang(p), p.owner_kind, p.owner_name) for p in members}
        done = (p for p in every if p.phase == "Succeeded" and _gang(p) in short)
        settled.update(_gang(p) for p in done if (_gang(p), p.owner_kind, p.owner_name) in controllers)
    least = {gang: max(1, sizes[gang] - count) for gang, count in settled.items()}
    return tuple(replace(p, gang_min=least[p.gang]) if p.gang in least else p for p in pods)


def _gang(pod: WorldPod) -> str:
    return f"{pod.namespace}/{pod.gang}" if pod.gang else ""
