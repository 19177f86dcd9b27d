"""Kubernetes pods as values, from the API server's JSON, and which of them may leave a node."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes.api import entries, key_of, section
from receiver.adapters.kubernetes.gangs import gang_of, whole
from receiver.adapters.kubernetes.nodes import SHOWN, compute, gpus, named, words
from receiver.config.document import parse
from receiver.config.values import LongerThanZero, Wrong
from receiver.core.model.pods import Pod, PodPhase, Preference, Requirement, Toleration
from receiver.core.model.resources import SLOTS
from receiver.core.model.text import cut
from receiver.core.model.usage import EndedPod, workload_name
from receiver.ports import (
    GANG_SIZE_ANNOTATION,
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    PROTECT_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    TryLater,
)

HOST_LABEL = "app.kubernetes.io/name"
HOST_NAMES = frozenset({"gpu-autoscaler", "prometheus", "alertmanager"})
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
CLAIMS = "resource.k8s.io/claims"  # devices claimed by Dynamic Resource Allocation: no count stands in the pod
ANY_CLASS = "deviceclass.resource.kubernetes.io/"  # every DeviceClass answers to this and its name
WHOLE_GPUS = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared"})
SLICES = "nvidia.com/mig-"
READ_OF_CONTAINERS = ("name", "resources", "restartPolicy")
UNSCHEDULABLE = "Unschedulable"
UNTRIED = frozenset({"Schedulable", "Undetermined"})  # Volcano's words for pods of a gang of which another did not fit
Read = Callable[[Mapping[str, Any]], dict[str, int]]
NEVER = Requirement(key="", operator="In")  # an empty node selector term matches no node (NodeSelector v1 core)


class DrainFate(StrEnum):
    """What draining a node means for a pod on it."""

    STAYS = "stays"  # finished, a DaemonSet's or a mirror pod: the node takes it along
    LEAVES = "leaves"  # is being deleted already
    GOES = "goes"  # may be evicted
    HOLDS_GPU = "holds a GPU"
    PROTECTED = "is protected"
    HOSTS = "belongs to the autoscaler or to its monitoring"


SPEAKING = frozenset(
    {DrainFate.HOLDS_GPU, DrainFate.PROTECTED, DrainFate.HOSTS}
)  # with such a pod on it the node stays


class SeenPod:
    """A pod as the API server showed it. Each fact is worked out once, however many steps look at the same version."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = _slim(raw)
        self.key = key_of(raw)
        self.uid = str(section(raw, "metadata").get("uid") or "")
        self.node = str(section(raw, "spec").get("nodeName") or "")

    @cached_property
    def pod(self) -> Pod | None:
        """The pod where it lives and has GPUs. Raises TryLater, as `gpus` does."""
        return pod_from(self.raw)

    @cached_property
    def gpus(self) -> Mapping[str, int]:
        """Its effective GPU requests."""
        return gpu_requests(section(self.raw, "spec"))

    @cached_property
    def compute(self) -> Mapping[str, int]:
        """What it requests beside GPUs."""
        return compute_requests(section(self.raw, "spec"))

    @cached_property
    def terminated(self) -> bool:
        """True when it holds nothing any more."""
        return terminated(self.raw)

    @cached_property
    def daemon(self) -> bool:
        """True for a DaemonSet's or a mirror pod."""
        return comes_with_the_node(section(self.raw, "metadata"))

    @cached_property
    def hosts_us(self) -> bool:
        """True for a pod of ours or of the monitoring that drives us."""
        return hosts_us(self.raw)

    @cached_property
    def untried(self) -> bool:
        """True where Volcano holds it back for its gang."""
        return is_untried(self.raw)

    @cached_property
    def needs_node(self) -> bool:
        """True for a GPU pod that the scheduler left out, or that Volcano holds back for its gang."""
        left_out = phase_of(self.raw) is PodPhase.WAITING or self.untried
        return left_out and bool(self.gpus) and not section(self.raw, "metadata").get("deletionTimestamp")

    @cached_property
    def may_claim(self) -> bool:
        """True for a pod without GPUs that waits; see `claimant_from`."""
        return not self.terminated and phase_of(self.raw) is PodPhase.WAITING and not self.gpus

    @cached_property
    def in_gang(self) -> bool:
        """True where it declares a gang."""
        return gang_of(self.raw) is not None

    @cached_property
    def doubts(self) -> list[str]:
        """What is wrong with its annotations; see `doubts`."""
        return doubts(self.raw)


def _slim(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *raw* without what nothing here reads and most of a pod's text is made of: it stays in memory."""
    spec = dict(section(raw, "spec"))
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [{k: c[k] for k in READ_OF_CONTAINERS if k in c} for c in entries(spec, name)]
    metadata = {name: value for name, value in section(raw, "metadata").items() if name != "managedFields"}
    return {"metadata": metadata, "spec": spec, "status": section(raw, "status")}


def pod_from(raw: Mapping[str, Any]) -> Pod | None:
    """Return the GPU pod in *raw* (Pod v1 core), or None for a terminated pod or one without GPUs."""
    return None if terminated(raw) else gpu_pod_from(raw)


def gpu_pod_from(raw: Mapping[str, Any]) -> Pod | None:
    """Return the pod in *raw*, terminated or not, or None for one without GPUs. Raises TryLater, see `gpu_requests`."""
    requests = asked_or_held(raw)
    return _pod(raw, requests) if requests else None


def claimant_from(raw: Mapping[str, Any], served: Collection[str]) -> Pod | None:
    """Return the pod in *raw* if it waits and asks for devices by Dynamic Resource Allocation alone: by claim, or by a
    resource that a DeviceClass has (one of *served*, or its implicit name). It is no demand. Raises TryLater."""
    spec = section(raw, "spec")
    if terminated(raw) or phase_of(raw) is not PodPhase.WAITING or gpu_requests(spec):
        return None
    named = [str(claim.get("name") or "") for claim in entries(spec, "resourceClaims")]
    for container in (*entries(spec, "initContainers"), *entries(spec, "containers")):
        limits = section(section(container, "resources"), "limits")
        named += [name for name in limits if name in served or name.startswith(ANY_CLASS)]
    return replace(_pod(raw, {}), claims=tuple(dict.fromkeys(named))) if named else None


def asked_or_held(raw: Mapping[str, Any]) -> dict[str, int]:
    """Return the GPU requests of the pod in *raw*. One that the scheduler gave devices of a DeviceClass for a resource
    of another name holds them, whatever they are: its node must not look empty."""
    requests = gpu_requests(section(raw, "spec"))
    given = section(section(raw, "status"), "extendedResourceClaimStatus")
    return requests or ({CLAIMS: 1} if given and section(raw, "spec").get("nodeName") else {})


def _pod(raw: Mapping[str, Any], requests: Mapping[str, int]) -> Pod:
    metadata, spec = section(raw, "metadata"), section(raw, "spec")
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    created_at = moment(metadata.get("creationTimestamp"))
    annotations, gang = words(metadata, "annotations"), gang_of(raw)
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
        preferred=_preferred(spec),
        tolerations=tuple(toleration_from(t) for t in entries(spec, "tolerations")),
        priority=spec.get("priority") or 0,
        priority_class=str(spec.get("priorityClassName") or ""),
        gang=gang.key if gang else None,
        gang_min=gang.size if gang else None,
        owner=controller_of(metadata),
        owner_uid=controller_uid(metadata),
        labels=words(metadata, "labels"),
        daemon=controller_of(metadata).startswith("DaemonSet/"),
        terminating=bool(metadata.get("deletionTimestamp")),
        evictable=_is_evictable(annotations),
        protected=is_protected(annotations),
        idle_shutdown=_length(annotations.get(IDLE_SHUTDOWN_ANNOTATION, "")),
        keep_until=moment(annotations.get(KEEP_UNTIL_ANNOTATION)),
        bound_at=_bound_at(raw),
        running_since=_running_since(raw),
        scheduler_says=_refusal(raw).get("message") or "",
        compute=compute_requests(spec),
    )


def doubts(raw: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every annotation of ours on the pod in *raw* that is not understood and has no effect."""
    annotations = words(section(raw, "metadata"), "annotations")
    return [
        f'pod {key_of(raw)}: annotation {name} is "{cut(annotations[name], SHOWN)}", not {wanted}; it has no effect'
        for name, (read, wanted) in READERS.items()
        if name in annotations and read(annotations[name]) is None
    ]


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
    return PodPhase.WAITING if _refusal(raw).get("reason") == UNSCHEDULABLE else PodPhase.OTHER


def is_untried(raw: Mapping[str, Any]) -> bool:
    """True for a pod that Volcano holds back for the sake of its gang, not because it would fit nowhere itself.

    Of a gang that does not fit, Volcano calls only the pods at which it gave up unschedulable.
    """
    nominated = section(raw, "status").get("nominatedNodeName")
    return phase_of(raw) is PodPhase.OTHER and not nominated and _refusal(raw).get("reason") in UNTRIED


def gpu_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the pod's effective GPU requests, by resource name."""
    devices = _effective(spec, gpus)
    return _held(spec, devices) if spec.get("nodeName") else _gpus_of(devices)


def compute_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return what the pod requests of a node's compute resources (`receiver.core.model.resources`): 1 slot or more."""
    return {**{r: n for r, n in _effective(spec, compute).items() if n}, SLOTS: 1}


def comes_with_the_node(metadata: Mapping[str, Any]) -> bool:
    """True for a DaemonSet's pod and a mirror pod: every new node has one like it."""
    return controller_of(metadata).startswith("DaemonSet/") or MIRROR_ANNOTATION in words(metadata, "annotations")


def _effective(spec: Mapping[str, Any], read: Read) -> dict[str, int]:
    """Return what a pod requests of the resources that *read* finds.

    The scheduler's rule (KEP-753): the larger of all containers with all sidecars, and of each init
    container with the sidecars that start before it; a limit counts where no request stands. What the pod as
    a whole asks for takes the place of that (KEP-2837), and the overhead of its runtime comes on top.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in entries(spec, "initContainers"):
        own = _asked(container, read)
        if container.get("restartPolicy") == "Always":
            sidecars = _plus(sidecars, own)
            own = {}
        peak = _larger(peak, _plus(sidecars, own))
    total = sidecars
    for container in entries(spec, "containers"):
        total = _plus(total, _asked(container, read))
    return _plus({**_larger(total, peak), **_asked(spec, read)}, read(section(spec, "overhead")))


def fate(raw: Mapping[str, Any], agreed: Callable[[Pod], bool] | None = None) -> DrainFate:
    """Return what draining its node means for the pod in *raw*; *agreed* says which GPU pods may go (None: none)."""
    metadata = section(raw, "metadata")
    annotations = words(metadata, "annotations")
    daemon = controller_of(metadata).startswith("DaemonSet/")
    if terminated(raw):
        return DrainFate.STAYS
    if asked_or_held(raw):
        if daemon and agreed is None:
            return DrainFate.STAYS
        if agreed is None or not _agrees(raw, agreed):
            return DrainFate.HOLDS_GPU
    elif daemon or MIRROR_ANNOTATION in annotations:
        return DrainFate.STAYS
    if metadata.get("deletionTimestamp"):
        return DrainFate.LEAVES
    if hosts_us(raw):
        return DrainFate.HOSTS
    return DrainFate.PROTECTED if is_protected(annotations) else DrainFate.GOES


def is_protected(annotations: Mapping[str, str]) -> bool:
    """True for a pod whose owner wants its node to stay."""
    protected = annotations.get(PROTECT_ANNOTATION, "false").lower() != "false"
    return protected or annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "false"


def hosts_us(raw: Mapping[str, Any]) -> bool:
    """True for a living pod of our own deployment or of the monitoring that drives it."""
    return not terminated(raw) and words(section(raw, "metadata"), "labels").get(HOST_LABEL) in HOST_NAMES


def _is_evictable(annotations: Mapping[str, str]) -> bool:
    """True when the pod's owner agreed that it is moved. The kubelet starts a mirror pod again on its own node."""
    agreed = annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "true"
    return agreed and MIRROR_ANNOTATION not in annotations and not is_protected(annotations)


def _agrees(raw: Mapping[str, Any], agreed: Callable[[Pod], bool]) -> bool:
    pod = pod_from(raw)
    return pod is not None and MIRROR_ANNOTATION not in words(section(raw, "metadata"), "annotations") and agreed(pod)


def _asked(raw: Mapping[str, Any], read: Read) -> dict[str, int]:
    """Return what stands under ``resources`` of a container or of a pod's spec."""
    resources = section(raw, "resources")
    return {**read(section(resources, "limits")), **read(section(resources, "requests"))}


def _gpus_of(devices: Mapping[str, int]) -> dict[str, int]:
    """Return the GPUs among NVIDIA's *devices*: whole ones, time-sliced ones, MIG slices; no network cards."""
    return {name: n for name, n in devices.items() if name in WHOLE_GPUS or name.startswith(SLICES)}


def _held(spec: Mapping[str, Any], devices: Mapping[str, int]) -> dict[str, int]:
    """Return what a bound pod holds. It must never look like one without GPUs, for its node would be removed.

    So any device of NVIDIA's counts where no GPU is named, and so do devices claimed by Dynamic Resource
    Allocation. As demand neither can be told from other devices.
    """
    claims = len(entries(spec, "resourceClaims"))
    return {**(_gpus_of(devices) or devices), **({CLAIMS: claims} if claims else {})}


def _plus(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {r: left.get(r, 0) + right.get(r, 0) for r in (*left, *right)}


def _larger(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {r: max(left.get(r, 0), right.get(r, 0)) for r in (*left, *right)}


def controller_of(metadata: Mapping[str, Any]) -> str:
    """Return ``Kind/name`` of the controller, or an empty string."""
    for reference in entries(metadata, "ownerReferences"):
        if reference.get("controller") is True:
            return f"{named(reference.get('kind'))}/{named(reference.get('name'))}"
    return ""


def controller_uid(metadata: Mapping[str, Any]) -> str:
    """Return the uid of the controller, or an empty string."""
    references = entries(metadata, "ownerReferences")
    return next((named(r.get("uid")) for r in references if r.get("controller") is True), "")


def _refusal(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition with which the scheduler left the pod out, empty when there is none."""
    conditions = entries(section(raw, "status"), "conditions")
    return next((c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False"), {})


def _length(text: str) -> timedelta | None:
    try:
        length: timedelta = parse(LongerThanZero, text)
    except Wrong:
        return None
    return length


def _bound_at(raw: Mapping[str, Any]) -> datetime | None:
    conditions = entries(section(raw, "status"), "conditions")
    bound = (c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "True")
    return next((moment(c.get("lastTransitionTime")) for c in bound), None)


def _running_since(raw: Mapping[str, Any]) -> datetime | None:
    """Return when the last container began to run, None unless all of them do."""
    states = [section(c, "state") for c in entries(section(raw, "status"), "containerStatuses")]
    started = [moment(section(state, "running").get("startedAt")) for state in states]
    return max((s for s in started if s), default=None) if all(started) else None


READERS: Mapping[str, tuple[Callable[[str], object], str]] = {
    IDLE_SHUTDOWN_ANNOTATION: (_length, "a duration such as 30m or 2h"),
    KEEP_UNTIL_ANNOTATION: (moment, "a time such as 2026-11-21T18:00:00Z"),
    GANG_SIZE_ANNOTATION: (whole, "a number of pods such as 8"),
}


def _affinity(spec: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], ...]:
    node = section(section(spec, "affinity"), "nodeAffinity")
    required = section(node, "requiredDuringSchedulingIgnoredDuringExecution")
    return tuple(_term(t) for t in entries(required, "nodeSelectorTerms"))


def _preferred(spec: Mapping[str, Any]) -> tuple[Preference, ...]:
    """Return the preferences that say something: an empty term prefers nothing (PreferredSchedulingTerm v1 core)."""
    node = section(section(spec, "affinity"), "nodeAffinity")
    wishes = [
        Preference(weight=whole(p.get("weight")) or 0, term=_requirements(section(p, "preference")))
        for p in entries(node, "preferredDuringSchedulingIgnoredDuringExecution")
    ]
    return tuple(w for w in wishes if w.term)


def _term(term: Mapping[str, Any]) -> tuple[Requirement, ...]:
    return _requirements(term) or (NEVER,)


def _requirements(term: Mapping[str, Any]) -> tuple[Requirement, ...]:
    return tuple(requirement_from(w) for w in (*entries(term, "matchExpressions"), *entries(term, "matchFields")))


def requirement_from(raw: Mapping[str, Any]) -> Requirement:
    values = raw.get("values")
    return Requirement(
        key=str(raw.get("key") or ""),
        operator=str(raw.get("operator") or ""),
        values=tuple(str(v) for v in values) if isinstance(values, list) else (),
    )


def toleration_from(raw: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=str(raw.get("key") or ""),
        operator=str(raw.get("operator") or "Equal"),
        value=str(raw.get("value") or ""),
        effect=str(raw.get("effect") or ""),
    )


TERMINATED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"  # a field selector knows no "or"


def ended_from(raw: Mapping[str, Any]) -> EndedPod | None:
    """Return how the GPU pod in *raw* ended, or None for one that lives or has no GPUs."""
    if not terminated(raw) or not gpu_requests(section(raw, "spec")):
        return None
    metadata, status = section(raw, "metadata"), section(raw, "status")
    namespace, _, name = key_of(raw).partition("/")
    states = [section(c, "state") for c in entries(status, "containerStatuses")]
    ends = [moment(section(state, "terminated").get("finishedAt")) for state in states]
    uid = str(metadata.get("uid") or "")
    return EndedPod(
        uid=uid,
        life=controller_uid(metadata) or uid,
        workload=workload_name(namespace, controller_of(metadata), name),
        succeeded=status.get("phase") == "Succeeded",
        at=max((end for end in ends if end), default=None),
    )


Load = dict[str, dict[str, int]]  # by node name


def load_of(pods: Iterable[SeenPod], names: Collection[str]) -> tuple[Load, Load]:
    """Return what those of *pods* without GPUs request on each node of *names*, and what DaemonSets' and mirror pods
    do. A sum for each node is all that is kept of them."""
    others: Load = {}
    daemons: Load = {}
    for pod in pods:
        if pod.node not in names or pod.terminated:
            continue
        if not pod.gpus:
            _add(others.setdefault(pod.node, {}), pod.compute)
        if pod.daemon:
            _add(daemons.setdefault(pod.node, {}), pod.compute)
    return others, daemons


def _add(total: dict[str, int], asked: Mapping[str, int]) -> None:
    for resource, amount in asked.items():
        total[resource] = total.get(resource, 0) + amount
