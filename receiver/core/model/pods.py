"""Pods that ask for GPUs, the workloads they make up, what they request, and which pods keep their node.

CPU is in millicores, memory and storage in bytes; a resource that is not named is unknown and counts as unlimited.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from receiver.core.model.devices import NOT_GPUS, Claim
from receiver.core.model.devices import Toleration as Toleration
from receiver.core.model.policy import KeepUntil
from receiver.core.model.shares import GPU, GPU_MEMORY, PARTIAL, SPLIT, part_of_gpu, share_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One expression of node affinity: *operator* is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """One term of preferred node affinity: nodes that meet all of *term* are preferred by *weight* (1 to 100)."""

    weight: int
    term: tuple[Requirement, ...]


class Together(StrEnum):
    """How often the pods that a rule is about may be on the node of the pod that has the rule."""

    NEVER = "never"  # required pod anti-affinity
    ALWAYS = "always"  # required pod affinity
    EVENLY = "evenly"  # a topology spread constraint with DoNotSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule:
    """A required rule of a pod about which other pods share its node (topology key `kubernetes.io/hostname`).

    It is about pods of *namespaces* (None: of all) with labels that meet all of *selector*. A node may have *max_skew*
    of them more than the one with the fewest; fewer than *min_domains* nodes count as if one had none. *elsewhere*: a
    node without GPUs, on which none of them is, counts beside the pools' nodes.
    """

    together: Together
    namespaces: tuple[str, ...] | None
    selector: tuple[Requirement, ...] = ()
    max_skew: int = 1
    min_domains: int = 1
    elsewhere: bool = False

    @property
    def starts_at_zero(self) -> bool:
        """True for a spread of which each new node takes no more than *max_skew* pods for now."""
        return self.elsewhere or self.min_domains > 1


class PodPhase(StrEnum):
    """The phase of a GPU pod; terminated pods hold nothing and are not reported."""

    WAITING = "waiting"  # unschedulable: demand
    STARTING = "starting"  # bound to a node, not running yet (image pull, containers created)
    RUNNING = "running"
    RESERVED = "reserved"  # nominated for a node that it will be bound to: it holds its room there and runs nothing
    DEFERRED = "deferred"  # held back by our scheduling gate until there is room that is paid for, or its time has come
    OTHER = "other"  # gated by others, or not yet tried by the scheduler: neither demand nor use


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """The *node* that a pod is nominated for, known *since* then. *lapsed* says what is wrong with the node, once the
    pod is demand again. *prepared* when its claims have their devices there already."""

    node: str
    since: datetime
    lapsed: str = ""
    prepared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """Which nodes a pod may run on, as its spec says."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()  # required: alternatives, each a conjunction
    preferred: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_rules: tuple[HostRule, ...] = ()
    image: str = ""  # of its first container that requests GPUs: a node that has it starts the pod sooner
    pool_hint: str | None = None  # when only Prometheus answers: the pool id from its rules, or ``unassigned``


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the owner of a pod wishes and consents to, by annotations."""

    evictable: bool = False  # consents that it is moved (``safe-to-evict: "true"``)
    protected: bool = False  # wishes that its node stays
    idle_shutdown: timedelta | None = None  # consents to be scaled to zero after being idle that long
    stays_idle: bool = False  # refuses that, whatever the policy says
    keep_until: datetime | None = None  # postpones that
    may_wait: timedelta | None = None  # how long after its creation it may start (None: not declared)

    def allow_zero(self, before: "Wishes", *, covered: bool) -> bool:
        """True if the workload may be scaled to zero: it consents, or the policy on idle workloads *covered* it and it
        does not refuse, and its wishes about that are those of *before*."""
        agrees = self.idle_shutdown is not None or (covered and not self.stays_idle)
        mine, earlier = ((w.idle_shutdown, w.stays_idle, w.keep_until, w.protected) for w in (self, before))
        return agrees and mine == earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTimes:
    """When what happened to a pod after its creation."""

    bound_at: datetime | None = None  # None: unknown or not bound
    running_since: datetime | None = None  # when the last container began to run (None: unknown, or not all do)
    leaves_at: datetime | None = None  # by when it should be gone, once it is Terminating (`deletionTimestamp`)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claiming:
    """What a pod asks for by Dynamic Resource Allocation, or once bound holds by it."""

    words: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()  # the same as values, until `step.devices` made `Pod.requests` of it
    not_bought: str = ""  # why no node is bought for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that requests GPUs. An empty *uid* marks one that does not exist yet, which a queue announces."""

    namespace: str
    name: str
    uid: str
    requests: Mapping[str, int]  # GPU resources, shares of GPUs; effective: containers, init containers, overhead
    phase: PodPhase
    created_at: datetime
    compute: Mapping[str, int] = field(default_factory=dict)  # requests beside *requests*
    devices: tuple[str, ...] = ()  # of a bound pod: the shared GPUs that it uses, as far as they are known
    claiming: Claiming = Claiming()
    node: str | None = None  # that it is bound to, or reserved on
    nomination: Nomination | None = None
    scheduling: Scheduling = Scheduling()
    scheduler_says: str = ""  # the scheduler's message on a waiting pod
    priority: int = 0
    priority_class: str = ""
    gang: str | None = None  # the key of a declared gang
    gang_min: int | None = None  # how many of its pods must run together (None: all that exist)
    owner: str = ""  # its controller as ``Kind/name``
    owner_uid: str = ""  # since names are reused
    labels: Mapping[str, str] = field(default_factory=dict)
    wishes: Wishes = Wishes()
    times: PodTimes = PodTimes()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def daemon(self) -> bool:
        """True for a pod of a DaemonSet."""
        return self.owner.startswith("DaemonSet/")

    @property
    def reserved(self) -> bool:
        """True for a pod that holds room on a node and is not bound to it: it runs nothing and costs nothing."""
        return self.phase is PodPhase.RESERVED

    @property
    def terminating(self) -> bool:
        return self.times.leaves_at is not None

    @property
    def asks(self) -> Mapping[str, int]:
        """Everything that a node must have free for it: GPUs and compute resources."""
        return {**self.requests, **self.compute} if self.compute else self.requests

    @property
    def gpus(self) -> int:
        """GPU units asked for, over all resource names."""
        return sum(self.requests.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Waiting GPU pods that belong together; a gang is placed whole or not at all.

    *bound* of its pods have a node already; *least*, those included, must run together (0: all that are known).
    """

    key: str
    pods: tuple[Pod, ...]
    gang: bool = False
    bound: int = 0
    least: int = 0

    @property
    def priority(self) -> int:
        return max(p.priority for p in self.pods)

    @property
    def since(self) -> datetime:
        return min(p.created_at for p in self.pods)

    @property
    def gpus(self) -> int:
        """GPU units it waits for."""
        return sum(p.gpus for p in self.pods)


def owner_of(pod: Pod) -> str:
    """The owner whose pods are left out together when one of them fails: they are alike."""
    return f"{pod.namespace}/{pod.owner or pod.name}"


class KeepRule(StrEnum):
    """A kind of pod that keeps its node, by the configuration's word for it."""

    UNMANAGED = "unmanaged"
    KUBE_SYSTEM = "kube-system"
    LOCAL_STORAGE = "local-storage"


SYSTEM_NAMESPACE = "kube-system"
# A pod's controller starts it again with an empty disk, and `emptyDir` holds what may be lost: it keeps no node unless
# the operator says so. Cluster Autoscaler keeps such nodes; managed clusters mostly switch that off.
KEPT_BY_DEFAULT = frozenset({KeepRule.UNMANAGED, KeepRule.KUBE_SYSTEM})
WHY = {
    KeepRule.UNMANAGED: "has no controller that would start it again",
    KeepRule.KUBE_SYSTEM: "belongs to kube-system, and no PodDisruptionBudget covers it",
    KeepRule.LOCAL_STORAGE: "keeps data on the node (emptyDir or hostPath)",
}
PROTECTED = "is protected"
PODS_NAMED = 3  # of a node


def keeps_for(
    *,
    namespace: str,
    managed: bool,
    stores: bool,
    covered: Callable[[], bool],
    rules: Collection[KeepRule] = KEPT_BY_DEFAULT,
) -> KeepRule | None:
    """Return the rule by which a pod without a GPU, which is not declared safe to evict, keeps its node.

    *stores*: it keeps data on the node. *covered* (by a PodDisruptionBudget) is called only in kube-system.
    """
    if KeepRule.UNMANAGED in rules and not managed:
        return KeepRule.UNMANAGED
    if KeepRule.KUBE_SYSTEM in rules and namespace == SYSTEM_NAMESPACE and not covered():
        return KeepRule.KUBE_SYSTEM
    return KeepRule.LOCAL_STORAGE if KeepRule.LOCAL_STORAGE in rules and stores else None


def named(pods: Collection[str]) -> tuple[str, ...]:
    names = sorted(pods)
    omitted = len(names) - PODS_NAMED
    return (*names[:PODS_NAMED], *([f"and {omitted} more"] if omitted > 0 else ()))


KEEP_UNTIL = "gpu-autoscaler.io/keep-until"
Kept = tuple[datetime | None, str]  # until when a node is kept, and for which pod (``namespace/name``)


def honoured(pod: Pod, allowed: KeepUntil, now: datetime) -> datetime | None:
    """Until when *pod* may keep its node: its namespace is allowed, and the time neither past nor too far ahead."""
    wish = pod.wishes.keep_until
    if wish is None or wish <= now or pod.namespace not in allowed.namespaces:
        return None
    return wish if wish <= now + allowed.longest else None


def kept(before: Kept, pods: Iterable[Pod], allowed: KeepUntil, now: datetime) -> Kept:
    """Until when the node of *pods* is kept, given what was known *before*: the latest request counts.

    A request outlives its pod; while the pod exists, its current annotation counts.
    """
    ends_by_pod = {pod.key: honoured(pod, allowed, now) for pod in pods}
    wishes = {key: wish for key, wish in ends_by_pod.items() if wish is not None}
    until, key = before
    if until is not None and key not in ends_by_pod:  # one that is over stays too: the clock may be ahead just now
        wishes[key] = until
    if not wishes:
        return None, ""
    latest = max(wishes, key=lambda key: (wishes[key], key))
    return wishes[latest], latest


CPU, MEMORY, STORAGE, SLOTS = "cpu", "memory", "ephemeral-storage", "pods"
# The last two are facts about GPUs that travel with the rest; no pod requests them.
COMPUTE = frozenset({CPU, MEMORY, STORAGE, SLOTS, GPU_MEMORY, SPLIT})
UNCOUNTED = (*PARTIAL, *NOT_GPUS)  # prefixes of resources that count no whole GPUs
MIB, GIB = 2**20, 2**30
PODS_OF_A_NODE = 110  # the kubelet's default, which k3s and Talos keep
STORAGE_KEPT_FREE = 10  # per cent: below that the kubelet evicts, so it is not allocatable (`nodefs.available<10%`)
# What Civo reserves of a node (its documentation, "managing node pools"): a share of each tier, and a fixed part.
MEMORY_TIERS = ((4 * GIB, 25), (4 * GIB, 20), (8 * GIB, 10), (112 * GIB, 6), (math.inf, 2))  # per cent
MEMORY_FIXED = (100 + 200 + 100) * MIB  # for the kubelet, for the system, and the eviction threshold
CPU_TIERS = ((1000, 6.0), (1000, 1.0), (2000, 0.5), (math.inf, 0.25))  # per cent


def gpus_in(resources: Mapping[str, int]) -> int:
    """The GPU units among *resources*, without shares of GPUs and GPUs that are shared."""
    return sum(
        count
        for name, count in resources.items()
        if name not in COMPUTE and (name == GPU or not name.startswith(UNCOUNTED))  # the first test is quicker
    )


def allocatable(size: Mapping[str, int]) -> Mapping[str, int]:
    """Estimate what the kubelet of a node of *size* (CPU, memory, storage of the machine) leaves to pods."""
    reserved = {
        CPU: _of_tiers(size.get(CPU, 0), CPU_TIERS),
        MEMORY: _of_tiers(size.get(MEMORY, 0), MEMORY_TIERS) + MEMORY_FIXED,
        STORAGE: size.get(STORAGE, 0) * STORAGE_KEPT_FREE // 100,
    }
    usable = {r: max(0, amount - reserved[r]) for r, amount in size.items() if r in reserved}
    return {**usable, SLOTS: PODS_OF_A_NODE} if usable else {}


def less(offered: Mapping[str, int], taken: Mapping[str, int]) -> dict[str, int]:
    """What *taken* leaves of *offered*."""
    return {resource: amount - taken.get(resource, 0) for resource, amount in offered.items()}


def too_much(asks: Mapping[str, int], offers: Mapping[str, int]) -> str | None:
    """Return which of *asks* is more than *offers*, in people's units; None when all of them fit."""
    for resource, request in asks.items():
        offered = offers.get(resource)
        if offered is not None and request > offered:
            return f"it asks for {amount(resource, request, up=True)}, a node offers {amount(resource, offered)}"
    return None


def amount(resource: str, units: int, *, up: bool = False) -> str:
    """Return ``2.5 CPUs`` or ``88.5 GiB of memory``: rounded down, or *up*, so that unequal amounts read so."""
    if resource == SLOTS:
        return f"{units} pod slot{'' if units == 1 else 's'}"
    if resource == CPU:
        return f"{_short(units / 1000)} CPU{'' if units == 1000 else 's'}"
    rounded = (math.ceil if up else math.floor)(units * 100 / GIB) / 100
    return f"{_short(rounded)} GiB of {'memory' if resource == MEMORY else 'ephemeral storage'}"


def _of_tiers(total: int, tiers: tuple[tuple[float, float], ...]) -> int:
    """The sum of each tier's share (per cent) of *total*."""
    reserved, remaining = 0.0, float(total)
    for width, share in tiers:
        reserved += min(remaining, width) * share / 100
        remaining -= min(remaining, width)
    return math.ceil(reserved)


def _short(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")


SHARED = ".shared"  # the suffix of resources that are handed out several times, unless the plugin keeps the name
PRODUCT_LABEL = "nvidia.com/gpu.product"
COMPUTE_SLICES = 7
A30_SLICES = 4
A30_PROFILES = frozenset({(1, 6), (2, 12), (4, 24)})  # compute slices and GB: no other GPU has these profiles
_PROFILE = re.compile(r"mig-(?:(\d+)c\.)?(\d+)g\.(\d+)gb", re.IGNORECASE)


def gpus_of(devices: Mapping[str, int], labels: Mapping[str, str]) -> float:
    """How many GPUs *devices* (resource name to count) are on a node with *labels*. Unless they name slices, replicas
    or shares, each device counts as one GPU."""
    return sum(count * _weight(resource, labels) for resource, count in devices.items())


def _weight(resource: str, labels: Mapping[str, str]) -> float:
    if (share := share_of(resource)) is not None:
        return part_of_gpu(share, labels)
    base = resource.removesuffix(SHARED)
    # Where all slices of a node are alike, the plugin may call them GPUs: the product's name tells.
    profile = labels.get(PRODUCT_LABEL, "") if base == GPU else base
    return _slice(profile) / _replicas(labels.get(f"{base}.replicas", ""))


@lru_cache(maxsize=256)  # names come from pods
def _slice(profile: str) -> float:
    match = _PROFILE.search(profile)
    if match is None:
        return 1.0
    part, compute, memory = (int(number or 0) for number in match.groups())
    slices = A30_SLICES if (compute, memory) in A30_PROFILES else COMPUTE_SLICES
    return min((part or compute) / slices, 1.0)


@lru_cache(maxsize=256)  # names come from pods
def _replicas(label: str) -> int:
    return max(int(label), 1) if label.isascii() and label.isdigit() else 1
