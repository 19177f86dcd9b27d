"""Kubernetes pods as values, from the API server's JSON, and which of them may leave a node."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from receiver import ports
from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes import sharing
from receiver.adapters.kubernetes.affinity import host_rules, preferred_nodes, required_nodes
from receiver.adapters.kubernetes.api import Json, condition, controller_of, entries, key_of, section, text, words
from receiver.adapters.kubernetes.nodes import GPU_PREFIX, SHOWN, compute, gpus, named, named_resources
from receiver.adapters.kubernetes.requests import effective
from receiver.config.values import LongerThanZero, Wrong, parse
from receiver.core.model.devices import CLAIMS
from receiver.core.model.pods import SLOTS, Pod, PodPhase, PodTimes, Scheduling, Toleration, Wishes
from receiver.core.model.shares import is_share
from receiver.core.model.text import cut
from receiver.core.model.usage import EndedPod, workload_name
from receiver.ports import TryLater

HOST_LABEL = "app.kubernetes.io/name"
HOST_NAMES = frozenset({"gpu-autoscaler", "prometheus", "alertmanager"})
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
ANY_CLASS = "deviceclass.resource.kubernetes.io/"  # every DeviceClass answers to this and its name
WHOLE_GPUS = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared"})
SLICES = "nvidia.com/mig-"
DEFAULT_SCHEDULER = "default-scheduler"
READ_OF_CONTAINERS = ("name", "image", "resources", "restartPolicy")
UNTRIED = frozenset({"Schedulable", "Undetermined"})  # Volcano's words for pods of a gang of which another did not fit
TERMINATED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"  # a field selector knows no "or"
LONG_AGO = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)

COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
KUEUE_LABEL = "kueue.x-k8s.io/pod-group-name"
KUEUE_SIZE_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
JOB_SET_LABEL, REPLICATED_JOB = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
LWS = "leaderworkerset.sigs.k8s.io/"  # begins the labels of a LeaderWorkerSet, and the annotation with a group's size
ONE_BY_ONE = "false"  # our gang annotation with this: pods of a JobSet or LeaderWorkerSet are independent


class DrainFate(StrEnum):
    STAYS = "stays"  # finished, a DaemonSet's or a mirror pod: the node takes it along
    LEAVES = "leaves"  # is being deleted already
    GOES = "goes"  # may be evicted
    HOLDS_GPU = "holds a GPU"
    PROTECTED = "is protected"
    HOSTS = "belongs to the autoscaler or to its monitoring"


# With such a pod on it the node stays.
SPEAKING = frozenset({DrainFate.HOLDS_GPU, DrainFate.PROTECTED, DrainFate.HOSTS})


class Declaration(StrEnum):
    """How a pod names its gang; the first of these that it uses counts."""

    OURS = "gpu-autoscaler.io/gang"
    POD_GROUP = "PodGroup of kube-scheduler"
    WORKLOAD = "Workload of kube-scheduler"
    WORKER_SET = "LeaderWorkerSet"  # its PodGroup of Volcano needs the leader alone where workers start after it
    COSCHEDULING = "PodGroup of coscheduling"
    VOLCANO = "PodGroup of Volcano"
    KUEUE = "pod group of Kueue"
    JOB_SET = "JobSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A gang as one of its pods declares it; *size* counts all its pods, where the pod itself says so."""

    key: str
    by: Declaration
    size: int | None = None


def whole(value: object) -> int | None:
    """Return *value* (``4`` or ``"4"``) as a whole number above zero, or None when it is none."""
    digits = str(value).strip()
    return int(digits) or None if digits.isascii() and digits.isdigit() and len(digits) <= 9 else None


def latest(texts: Iterable[Any]) -> datetime | None:
    """Return the latest of the times among *texts*, or None without any."""
    return max((at for timestamp in texts if (at := moment(timestamp)) is not None), default=None)


def length(phrase: str) -> timedelta | None:
    """Return *phrase* (``2h``) as a duration, or None when it is none."""
    if not phrase:  # as on almost every pod
        return None
    try:
        duration: timedelta = parse(LongerThanZero, phrase)
    except Wrong:
        return None
    return duration


def idle_wish(phrase: str) -> timedelta | str | None:
    """Return *phrase* as a duration, or as the word that refuses a shutdown; None when it is neither."""
    return phrase if phrase == ports.NEVER else length(phrase)


READERS: Mapping[str, tuple[Callable[[str], object], str]] = {
    ports.IDLE_SHUTDOWN_ANNOTATION: (idle_wish, f"a duration such as 30m or 2h, or {ports.NEVER}"),
    ports.MAY_WAIT: (length, "a duration such as 30m or 4h"),
    ports.KEEP_UNTIL_ANNOTATION: (moment, "a time such as 2026-11-21T18:00:00Z"),
    ports.GANG_SIZE_ANNOTATION: (whole, "a number of pods such as 8"),
}


class SeenPod:
    """A pod as the API server showed it (Pod v1 core), without what nothing reads and most of its text is made of.
    Each cached fact is worked out once, however many steps look at the same version. Whatever depends on its GPUs
    raises TryLater for a quantity that cannot be read."""

    def __init__(self, raw: Json) -> None:
        self.metadata = {name: value for name, value in section(raw, "metadata").items() if name != "managedFields"}
        self.spec, self.status = dict(section(raw, "spec")), section(raw, "status")
        for name in ("containers", "initContainers"):
            if name in self.spec:
                self.spec[name] = [{k: c[k] for k in READ_OF_CONTAINERS if k in c} for c in entries(self.spec, name)]
        self.key, self.uid, self.node = key_of(raw), text(self.metadata, "uid"), text(self.spec, "nodeName")
        self._watches_only = False

    @property
    def namespace(self) -> str:
        return text(self.metadata, "namespace")

    @cached_property
    def labels(self) -> dict[str, str]:
        return words(self.metadata, "labels")

    @property
    def annotations(self) -> dict[str, str]:
        return words(self.metadata, "annotations")

    @property
    def controller(self) -> str:
        """``Kind/name`` of the controller, or an empty string."""
        reference = controller_of(self.metadata)
        return f"{named(reference.get('kind'))}/{named(reference.get('name'))}" if reference else ""

    @property
    def controller_uid(self) -> str:
        return named(controller_of(self.metadata).get("uid"))

    @property
    def leaving(self) -> bool:
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def leaves_at(self) -> datetime | None:
        """By when it should be gone, by the API server's clock: when its deletion was requested, and its grace. A time
        that cannot be read is long over."""
        return (moment(self.metadata["deletionTimestamp"]) or LONG_AGO) if self.leaving else None

    @property
    def mirror(self) -> bool:
        return MIRROR_ANNOTATION in self.annotations

    @cached_property
    def daemon(self) -> bool:
        """True for a DaemonSet's pod and a mirror pod: every new node has one like it."""
        return self.controller.startswith("DaemonSet/") or self.mirror

    @cached_property
    def terminated(self) -> bool:
        return self.status.get("phase") in ("Succeeded", "Failed")

    @cached_property
    def hosts_us(self) -> bool:
        """True for a living pod of our own deployment or of the monitoring that drives it."""
        return not self.terminated and self.labels.get(HOST_LABEL) in HOST_NAMES

    @property
    def protected(self) -> bool:
        """True for a pod whose owner wants its node to stay."""
        annotations = self.annotations
        protected = annotations.get(ports.PROTECT_ANNOTATION, "false").lower() != "false"
        return protected or annotations.get(ports.SAFE_TO_EVICT_ANNOTATION, "").lower() == "false"

    @property
    def agreed(self) -> bool:
        """True when its owner agreed that it is moved, whatever else stands in the way."""
        return self.annotations.get(ports.SAFE_TO_EVICT_ANNOTATION, "").lower() == "true"

    @property
    def phase(self) -> PodPhase:
        """Where a living pod stands. A pod that is nominated for a node will get it as soon as its volumes are attached
        or others have left: it waits, but a new node is not what it waits for."""
        if self.node:
            return PodPhase.STARTING if self.status.get("phase") == "Pending" else PodPhase.RUNNING
        if gates := entries(self.spec, "schedulingGates"):
            return PodPhase.DEFERRED if {text(g, "name") for g in gates} == {ports.MAY_WAIT} else PodPhase.OTHER
        if self.nominated:
            return PodPhase.RESERVED
        return PodPhase.WAITING if self._refusal.get("reason") == "Unschedulable" else PodPhase.OTHER

    @property
    def nominated(self) -> str:
        """The node that a pod without gates is nominated for and not bound to yet; it must not be leaving."""
        waits = not (self.node or self.leaving or self.terminated or self.spec.get("schedulingGates"))
        return text(self.status, "nominatedNodeName") if waits else ""

    @cached_property
    def untried(self) -> bool:
        """True for a pod that Volcano holds back for the sake of its gang, not because it would fit nowhere itself.
        Of a gang that does not fit, Volcano calls only the pods at which it gave up unschedulable."""
        return self.phase is PodPhase.OTHER and self._refusal.get("reason") in UNTRIED

    @cached_property
    def unjudged(self) -> bool:
        """True for a pod of a group of kube-scheduler of which that says nothing: it holds the pods of an incomplete
        gang back, and those that wait for others of their gang to find a node."""
        if self.gang is None or self.gang.by not in (Declaration.POD_GROUP, Declaration.WORKLOAD):
            return False
        verdict = self.status.get("nominatedNodeName") or self.spec.get("schedulingGates") or self._refusal
        return self.phase is PodPhase.OTHER and not verdict

    @cached_property
    def needs_node(self) -> bool:
        """True for a pod with GPUs or claims that the scheduler left out, or that Volcano holds back for its gang."""
        waits = self.phase is PodPhase.WAITING or self.untried
        return waits and self.wants_devices and not self.leaving

    @property
    def wants_devices(self) -> bool:
        return bool(self.gpus or self.resource_claims)

    @cached_property
    def gpus(self) -> dict[str, int]:
        """Its effective GPU requests by resource: whole GPUs, time-sliced ones, MIG slices, shares; no network cards. A
        bound pod must never look like one without GPUs, for its node would be removed. So any device of NVIDIA's
        counts where no GPU is named, and so do devices claimed by Dynamic Resource Allocation. As demand neither can
        be told from other devices."""
        devices = effective(self.spec, lambda quantities: sharing.of_container(gpus(quantities)))
        counts = {n: c for n, c in devices.items() if n in WHOLE_GPUS or n.startswith(SLICES) or is_share(n)}
        if not counts and self._kai:
            counts = sharing.of_annotations(self.annotations)
        if not self.node:
            return counts or (devices if self.nominated else {})
        claims = 0 if self._watches_only else len(entries(self.spec, "resourceClaims"))
        return {**(counts or devices), **({CLAIMS: claims} if claims else {})}

    def watch_only(self) -> None:
        """Note that its claims take no device: they have admin access."""
        if not self._watches_only:
            self._watches_only = True
            self.__dict__.pop("gpus", None)
            self.__dict__.pop("pod", None)

    @property
    def held(self) -> dict[str, int]:
        """Its GPU requests. A pod that the scheduler gave devices of a DeviceClass for a resource of another name
        holds them, whatever they are: its node must not look empty."""
        return self.gpus or ({CLAIMS: 1} if self.given_claim and self.node else {})

    @cached_property
    def compute(self) -> dict[str, int]:
        """What it requests of a node's compute resources (`receiver.core.model.pods`): 1 slot or more."""
        return {**{r: n for r, n in effective(self.spec, compute, self.status).items() if n}, SLOTS: 1}

    @property
    def main_image(self) -> str:
        """The image of its first container that requests GPUs, else of its first one."""
        first = ""
        for container in entries(self.spec, "containers"):
            resources = section(container, "resources")
            names = {*section(resources, "limits"), *section(resources, "requests")}
            if any(name.startswith(GPU_PREFIX) for name in names):
                return text(container, "image")
            first = first or text(container, "image")
        return first

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The shared GPUs that it was given, see `sharing`."""
        return sharing.devices_of(self.labels, self.annotations) if self.node else ()

    @cached_property
    def pod(self) -> Pod | None:
        """The pod where it lives and has GPUs."""
        return None if self.terminated else self.gpu_pod

    @property
    def gpu_pod(self) -> Pod | None:
        """The pod, terminated or not, or None for one without GPUs."""
        return self._pod(self.held) if self.held else None

    @cached_property
    def bystander(self) -> Pod | None:
        """The pod where it has no GPUs and stands behind our scheduling gate all the same."""
        return self._pod({}) if self.phase is PodPhase.DEFERRED and not self.terminated and not self.gpus else None

    @cached_property
    def resource_claims(self) -> dict[str, tuple[str, str]]:
        """Its claims by its own name for each: the ResourceClaim, empty until it is made, and the template that it is
        made from, empty for one that was there. One that Kubernetes found not to be needed is left out."""
        names = {text(s, "name"): text(s, "resourceClaimName") for s in entries(self.status, "resourceClaimStatuses")}
        claims: dict[str, tuple[str, str]] = {}
        for raw in entries(self.spec, "resourceClaims"):
            name, template = text(raw, "name"), text(raw, "resourceClaimTemplateName")
            if not template or name not in names or names[name]:
                claims[name] = names.get(name, "") if template else text(raw, "resourceClaimName"), template
        return claims

    @cached_property
    def extended(self) -> dict[str, int]:
        """What it requests of resources that DeviceClasses may serve under names of their own."""
        return effective(self.spec, named_resources)

    @property
    def given_claim(self) -> str:
        """The claim by which the scheduler gave it devices for a resource that DRA serves."""
        return text(section(self.status, "extendedResourceClaimStatus"), "resourceClaimName")

    @property
    def without_gpus(self) -> Pod:
        return self._pod({})

    @cached_property
    def gang(self) -> Gang | None:
        labels, annotations = self.labels, self.annotations
        ours = annotations.get(ports.GANG_ANNOTATION, "")
        together = ours != ONE_BY_ONE
        declared = (
            (Declaration.OURS, ours if together else "", annotations.get(ports.GANG_SIZE_ANNOTATION)),
            (Declaration.POD_GROUP, text(section(self.spec, "schedulingGroup"), "podGroupName"), None),
            (Declaration.WORKLOAD, self._workload_group, None),
            (Declaration.WORKER_SET, self._worker_group if together else "", annotations.get(f"{LWS}size")),
            (Declaration.COSCHEDULING, labels.get(COSCHEDULING_LABEL, ""), None),
            (Declaration.VOLCANO, self._volcano_name, None),
            (Declaration.KUEUE, labels.get(KUEUE_LABEL, ""), annotations.get(KUEUE_SIZE_ANNOTATION)),
            (Declaration.JOB_SET, labels.get(JOB_SET_LABEL, "") if together else "", None),
        )
        for by, name, size in declared:
            if group_name := named(name):
                return Gang(key=f"{self.namespace}/{group_name}", by=by, size=whole(size))
        return None

    @property
    def volcano_group(self) -> str:
        return f"{self.namespace}/{self._volcano_name}" if self._volcano_name else ""

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return tuple(
            Toleration(
                key=text(raw, "key"),
                operator=text(raw, "operator") or "Equal",
                value=text(raw, "value"),
                effect=text(raw, "effect"),
            )
            for raw in entries(self.spec, "tolerations")
        )

    @cached_property
    def doubts(self) -> list[str]:
        """A sentence for every annotation of ours that is not understood and has no effect."""
        annotations = self.annotations
        return [
            f'pod {self.key}: annotation {name} is "{cut(annotations[name], SHOWN)}", not {wanted}; it has no effect'
            for name, (read, wanted) in READERS.items()
            if name in annotations and read(annotations[name]) is None
        ]

    @property
    def ended(self) -> EndedPod | None:
        """How a GPU pod ended, or None for one that lives or has no GPUs."""
        if not self.terminated or not self.gpus:
            return None
        return EndedPod(
            uid=self.uid,
            life=self.controller_uid or self.uid,
            workload=workload_name(self.namespace, self.controller, text(self.metadata, "name")),
            succeeded=self.status.get("phase") == "Succeeded",
            at=latest(self.container_times("terminated", "finishedAt")),
        )

    def container_times(self, state: str, name: str) -> list[Any]:
        """Return for each container what is under *name* of its *state*, None where it is in another one."""
        return [section(section(c, "state"), state).get(name) for c in entries(self.status, "containerStatuses")]

    def fate(self, agreed: Callable[[Pod], bool] | None = None) -> DrainFate:
        """Return what draining its node means for it; *agreed* says which GPU pods may go (None: none)."""
        if self.terminated:
            return DrainFate.STAYS
        if agreed is not None and self.reserves:
            return DrainFate.STAYS  # the pods that share the GPU decide
        if self.held:
            if agreed is None:
                return DrainFate.STAYS if self.controller.startswith("DaemonSet/") else DrainFate.HOLDS_GPU
            if self.pod is None or self.mirror or not agreed(self.pod):
                return DrainFate.HOLDS_GPU
        elif self.daemon:
            return DrainFate.STAYS
        if self.leaving:
            return DrainFate.LEAVES
        if self.hosts_us:
            return DrainFate.HOSTS
        return DrainFate.PROTECTED if self.protected else DrainFate.GOES

    @property
    def reserves(self) -> bool:
        """True for KAI's reservation pod, which holds a GPU for the pods that share it."""
        return self.namespace == sharing.RESERVATIONS and bool(self.devices)

    @property
    def _kai(self) -> bool:
        """True where KAI places it: only then its annotations mean GPUs."""
        return text(self.spec, "schedulerName") not in ("", DEFAULT_SCHEDULER) or bool(self.devices)

    @property
    def _refusal(self) -> Json:
        return condition(self.status, "PodScheduled", holds="False")

    @property
    def _workload_group(self) -> str:
        """The name of its group in a Workload of v1alpha1; each replica of a group is one of its own."""
        reference = section(self.spec, "workloadRef")
        group = [text(reference, name) for name in ("name", "podGroup", "podGroupReplicaKey")]
        return "/".join(name for name in group if name) if group[0] and group[1] else ""

    @property
    def _worker_group(self) -> str:
        """Its group of a LeaderWorkerSet, which is called like its leader."""
        name, index = self.labels.get(f"{LWS}name"), self.labels.get(f"{LWS}group-index")
        return f"{name}-{index}" if name and index else ""

    @property
    def _volcano_name(self) -> str:
        annotations = self.annotations
        return next((annotations[a] for a in VOLCANO_ANNOTATIONS if annotations.get(a)), "")

    def _pod(self, requests: Mapping[str, int]) -> Pod:
        metadata, spec, annotations, gang = self.metadata, self.spec, self.annotations, self.gang
        created_at = moment(metadata.get("creationTimestamp"))
        if created_at is None:
            raise TryLater(
                f"Kubernetes' answer is not understood: creationTimestamp of pod {self.key}", code="malformed"
            )
        bound = condition(self.status, "PodScheduled")
        started = self.container_times("running", "startedAt")
        idle_after = length(annotations.get(ports.IDLE_SHUTDOWN_ANNOTATION, ""))
        return Pod(
            namespace=self.namespace,
            name=text(metadata, "name"),
            uid=self.uid,
            requests=requests,
            phase=self.phase,
            created_at=created_at,
            node=spec.get("nodeName") or self.nominated or None,
            scheduling=Scheduling(
                node_selector=words(spec, "nodeSelector"),
                affinity=required_nodes(spec),
                preferred=preferred_nodes(spec),
                tolerations=self.tolerations,
                host_rules=host_rules(spec, self.namespace, self.labels),
                image=self.main_image,
            ),
            priority=spec.get("priority") or 0,
            priority_class=text(spec, "priorityClassName"),
            gang=gang.key if gang else None,
            gang_min=gang.size if gang else None,
            owner=self.controller,
            owner_uid=self.controller_uid,
            labels=self.labels,
            times=PodTimes(
                leaves_at=self.leaves_at,
                bound_at=moment(bound.get("lastTransitionTime")),
                running_since=latest(started) if all(moment(at) for at in started) else None,
            ),
            # A kubelet starts its mirror pod again; whether claims fit elsewhere only the scheduler knows.
            wishes=Wishes(
                evictable=self.agreed and not (self.mirror or self.protected or self.resource_claims),
                protected=self.protected,
                idle_shutdown=idle_after,
                # What cannot be read is no consent, and most likely a refusal.
                stays_idle=ports.IDLE_SHUTDOWN_ANNOTATION in annotations and idle_after is None,
                keep_until=moment(annotations.get(ports.KEEP_UNTIL_ANNOTATION)),
                may_wait=length(annotations.get(ports.MAY_WAIT, "")),
            ),
            scheduler_says=self._refusal.get("message") or "",
            compute=self.compute,
            devices=self.devices,
        )
