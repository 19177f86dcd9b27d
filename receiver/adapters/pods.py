"""Kubernetes pods as values, from the API server's JSON, and which of them may leave a node."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from receiver.adapters.nodes import entries, gpus, section, words
from receiver.adapters.timestamps import moment
from receiver.core.pods import Pod, PodPhase, Requirement, Toleration
from receiver.ports import GANG_ANNOTATION, PROTECT_ANNOTATION, TryLater

HOST_LABEL = "app.kubernetes.io/name"
HOST_NAMES = frozenset({"gpu-autoscaler", "prometheus", "alertmanager"})
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
GANG_LABELS = ("scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name")
CLAIMS = "resource.k8s.io/claims"  # devices claimed by Dynamic Resource Allocation: no count stands in the pod
NEVER = Requirement(key="", operator="In")  # an empty node selector term matches no node (NodeSelector v1 core)


class Fate(StrEnum):
    """What draining a node means for a pod on it."""

    STAYS = "stays"  # finished, a DaemonSet's or a mirror pod: the node takes it along
    LEAVES = "leaves"  # is being deleted already
    GOES = "goes"  # may be evicted
    HOLDS_GPU = "holds a GPU"
    PROTECTED = "is protected"
    HOSTS = "belongs to the autoscaler or to its monitoring"


SPEAKING = frozenset({Fate.HOLDS_GPU, Fate.PROTECTED, Fate.HOSTS})  # with such a pod on it the node stays


def pod_from(raw: Mapping[str, Any]) -> Pod | None:
    """Return the GPU pod in *raw* (Pod v1 core), or None for a terminated pod or one without GPUs."""
    metadata, spec = section(raw, "metadata"), section(raw, "spec")
    requests = gpu_requests(spec)
    if terminated(raw) or not requests:
        return None
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    created_at = moment(metadata.get("creationTimestamp"))
    if created_at is None:
        raise TryLater(
            f"Kubernetes' answer is not understood: creationTimestamp of pod {namespace}/{name}", code="malformed"
        )
    return Pod(
        namespace=namespace,
        name=name,
        uid=str(metadata.get("uid") or ""),
        requests=requests,
        phase=phase_of(raw),
        created_at=created_at,
        node=spec.get("nodeName") or None,
        node_selector=words(spec, "nodeSelector"),
        affinity=_affinity(spec),
        tolerations=tuple(_toleration(t) for t in entries(spec, "tolerations")),
        priority=spec.get("priority") or 0,
        gang=_gang(metadata, namespace),
        owner=_owner(metadata),
        labels=words(metadata, "labels"),
        daemon=_owner(metadata).startswith("DaemonSet/"),
        terminating=bool(metadata.get("deletionTimestamp")),
    )


def terminated(raw: Mapping[str, Any]) -> bool:
    """True for a pod that holds nothing any more."""
    return section(raw, "status").get("phase") in ("Succeeded", "Failed")


def phase_of(raw: Mapping[str, Any]) -> PodPhase:
    """Return where a living pod stands; see `PodPhase`.

    A pod that the scheduler has nominated for a node will get it as soon as others have left: it waits, but
    a new node is not what it waits for.
    """
    spec, status = section(raw, "spec"), section(raw, "status")
    if spec.get("nodeName"):
        return PodPhase.STARTING if status.get("phase") == "Pending" else PodPhase.RUNNING
    if spec.get("schedulingGates") or status.get("nominatedNodeName"):
        return PodPhase.OTHER
    refused = any(
        c.get("type") == "PodScheduled" and c.get("status") == "False" and c.get("reason") == "Unschedulable"
        for c in entries(status, "conditions")
    )
    return PodPhase.WAITING if refused else PodPhase.OTHER


def gpu_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the pod's effective GPU requests, by resource name.

    The scheduler's rule (KEP-753): the larger of all containers with all sidecars, and of each init
    container with the sidecars that start before it. A limit counts where no request stands. Devices
    claimed by Dynamic Resource Allocation count for a bound pod only, so that its node is never idle; as
    demand they cannot be told from other devices.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in entries(spec, "initContainers"):
        own = _container_gpus(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _plus(sidecars, own)
            own = {}
        peak = _larger(peak, _plus(sidecars, own))
    total = sidecars
    for container in entries(spec, "containers"):
        total = _plus(total, _container_gpus(container))
    requests = _larger(total, peak)
    claims = len(entries(spec, "resourceClaims"))
    return {**requests, CLAIMS: claims} if claims and spec.get("nodeName") else requests


def fate(raw: Mapping[str, Any]) -> Fate:
    """Return what draining its node means for the pod in *raw*."""
    metadata = section(raw, "metadata")
    annotations = words(metadata, "annotations")
    if terminated(raw) or _owner(metadata).startswith("DaemonSet/"):
        return Fate.STAYS
    if gpu_requests(section(raw, "spec")):
        return Fate.HOLDS_GPU
    if MIRROR_ANNOTATION in annotations:
        return Fate.STAYS
    if metadata.get("deletionTimestamp"):
        return Fate.LEAVES
    if hosts_us(raw):
        return Fate.HOSTS
    protected = annotations.get(PROTECT_ANNOTATION, "false").lower() != "false"
    if protected or annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "false":
        return Fate.PROTECTED
    return Fate.GOES


def hosts_us(raw: Mapping[str, Any]) -> bool:
    """True for a living pod of our own deployment or of the monitoring that drives it."""
    return not terminated(raw) and words(section(raw, "metadata"), "labels").get(HOST_LABEL) in HOST_NAMES


def key_of(raw: Mapping[str, Any]) -> str:
    """Return ``namespace/name``."""
    metadata = section(raw, "metadata")
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


def _container_gpus(container: Mapping[str, Any]) -> dict[str, int]:
    resources = section(container, "resources")
    return {**gpus(section(resources, "limits")), **gpus(section(resources, "requests"))}


def _plus(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {r: left.get(r, 0) + right.get(r, 0) for r in (*left, *right)}


def _larger(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {r: max(left.get(r, 0), right.get(r, 0)) for r in (*left, *right)}


def _owner(metadata: Mapping[str, Any]) -> str:
    """Return ``Kind/name`` of the controller, or an empty string."""
    for reference in entries(metadata, "ownerReferences"):
        if reference.get("controller") is True:
            return f"{reference.get('kind') or ''}/{reference.get('name') or ''}"
    return ""


def _gang(metadata: Mapping[str, Any], namespace: str) -> str | None:
    """Return the key of a declared gang: our annotation, or the label that names a pod's group to its scheduler."""
    declared = words(metadata, "annotations").get(GANG_ANNOTATION, "").strip()
    labels = words(metadata, "labels")
    name = declared or next((labels[label] for label in GANG_LABELS if labels.get(label)), "")
    return f"{namespace}/{name}" if name else None


def _affinity(spec: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], ...]:
    node = section(section(spec, "affinity"), "nodeAffinity")
    required = section(node, "requiredDuringSchedulingIgnoredDuringExecution")
    return tuple(_term(t) for t in entries(required, "nodeSelectorTerms"))


def _term(term: Mapping[str, Any]) -> tuple[Requirement, ...]:
    wants = [*entries(term, "matchExpressions"), *entries(term, "matchFields")]
    return tuple(_requirement(w) for w in wants) or (NEVER,)


def _requirement(raw: Mapping[str, Any]) -> Requirement:
    values = raw.get("values")
    return Requirement(
        key=str(raw.get("key") or ""),
        operator=str(raw.get("operator") or ""),
        values=tuple(str(v) for v in values) if isinstance(values, list) else (),
    )


def _toleration(raw: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=str(raw.get("key") or ""),
        operator=str(raw.get("operator") or "Equal"),
        value=str(raw.get("value") or ""),
        effect=str(raw.get("effect") or ""),
    )
