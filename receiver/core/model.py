"""The nouns of what was found: nodes, pods, workloads, signals, pool states (docs/glossary.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.actions import Action
from receiver.core.policy import Taint

UNASSIGNED = "unassigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A pod's toleration; *operator* is Equal or Exists; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One expression of node affinity: *operator* is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class PodPhase(StrEnum):
    """Where a GPU pod stands; terminated pods hold nothing and are not reported."""

    WAITING = "waiting"  # unschedulable: demand
    STARTING = "starting"  # bound to a node, not running yet (image pull, containers created)
    RUNNING = "running"
    OTHER = "other"  # gated, or not yet tried by the scheduler: neither demand nor use


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that asks for GPUs. *requests* are GPU resources only (effective: containers, init containers).

    *affinity* is required node affinity: alternatives (any of them), each a conjunction. *gang* is the key
    of a declared gang or None. *pool_hint* is set where only Prometheus could be asked: the pool id its
    rules worked out, or ``unassigned``.
    """

    namespace: str
    name: str
    uid: str
    requests: Mapping[str, int]
    phase: PodPhase
    created_at: datetime
    node: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    gang: str | None = None
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    daemon: bool = False
    terminating: bool = False
    pool_hint: str | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def gpus(self) -> int:
        """GPU units asked for, over all resource names."""
        return sum(self.requests.values())


class Stage(StrEnum):
    """How far a node has come."""

    BUILDING = "building"  # Civo builds the instance
    BOOTING = "booting"  # active at Civo, not Ready in Kubernetes
    INSTALLING = "installing"  # Ready, GPU not allocatable yet (the driver installs for minutes)
    USABLE = "usable"  # Ready with its GPUs allocatable
    DELETING = "deleting"
    BROKEN = "broken"  # a status nobody documents, or a usable node that stopped being Ready
    UNKNOWN = "unknown"  # active at Civo, and Kubernetes could not be asked


ON_ITS_WAY = frozenset({Stage.BUILDING, Stage.BOOTING, Stage.INSTALLING})


class CordonedBy(StrEnum):
    """Whose cordon a node carries."""

    US = "us"
    SOMEONE = "someone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One instance of a pool joined with its Kubernetes node.

    *allocatable* are GPU resources; *pods* the GPU pods bound to it; *idle_since* is None when a pod holds
    a GPU there or when nobody could tell (see *stage* UNKNOWN). *was_usable* is True once it has been usable,
    *lost_at* when it stopped being so.
    *leaving* is True once Civo itself lists it as being deleted (after our DELETE the stage says so at once).
    *hosts* names what must not be cut off with it (our own pod, Prometheus, Alertmanager).
    """

    name: str
    instance: str
    stage: Stage
    created_at: datetime
    allocatable: Mapping[str, int] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    idle_since: datetime | None = None
    was_usable: bool = False
    lost_at: datetime | None = None
    cordoned_by: CordonedBy | None = None
    cordoned_for: str | None = None  # the action id in our cordon annotation
    protected: bool = False
    leaving: bool = False
    hosts: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @property
    def busy(self) -> bool:
        """True when a GPU pod is bound here, running or about to."""
        return bool(self.pods)

    @property
    def free(self) -> Mapping[str, int]:
        """Allocatable GPU resources that no bound pod has asked for."""
        used: dict[str, int] = {}
        for pod in self.pods:
            for resource, count in pod.requests.items():
                used[resource] = used.get(resource, 0) + count
        return {r: n - used.get(r, 0) for r, n in self.allocatable.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """What failed *failures* times in a row is not tried again before *until*: the pool, or only *instances* of it."""

    failures: int
    until: datetime
    reason: str
    instances: tuple[str, ...] = ()

    def holds(self, now: datetime, longest: timedelta) -> bool:
        """True until its end; an end further away than *longest* was set under a wrong clock and is not believed."""
        return now < self.until <= now + longest


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """One pool as found just now. *required* is the node count Civo was asked for (not what exists yet);
    when Civo did not answer it is the last known one and the facts say that Civo is down. *required_since* is
    when that count last changed."""

    pool: str
    required: int
    nodes: tuple[Node, ...] = ()
    open_action: Action | None = None
    last_grow_at: datetime | None = None
    last_shrink_at: datetime | None = None
    backoff: Backoff | None = None
    removal_backoff: Backoff | None = None
    required_since: datetime | None = None
    utilization: float | None = None
    silenced_by: str | None = None

    def of(self, *stages: Stage) -> tuple[Node, ...]:
        """The nodes in one of *stages*."""
        return tuple(n for n in self.nodes if n.stage in stages)

    @property
    def living(self) -> tuple[Node, ...]:
        """The nodes that are not being deleted."""
        return tuple(n for n in self.nodes if n.stage is not Stage.DELETING)

    @property
    def unlisted(self) -> int:
        """Nodes asked for that Civo does not list yet."""
        return max(0, self.required - len(self.living))


class SignalAction(StrEnum):
    """What an alert asks of us: the value of its label ``action``."""

    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    HOLD = "hold"
    PAUSE_SCALE_UP = "pause_scale_up"
    FREEZE = "freeze"
    FALLBACK = "fallback"
    HEARTBEAT = "heartbeat"
    NOTIFY = "notify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One firing alert reduced to what a decision may depend on. *pool* None means every pool."""

    action: SignalAction
    alertname: str
    fingerprint: str
    starts_at: datetime
    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Waiting GPU pods that belong together; a gang is placed whole or not at all."""

    key: str
    pods: tuple[Pod, ...]
    gang: bool = False

    @property
    def priority(self) -> int:
        """The highest priority among its pods."""
        return max(p.priority for p in self.pods)

    @property
    def since(self) -> datetime:
        """When its oldest pod was created."""
        return min(p.created_at for p in self.pods)

    @property
    def gpus(self) -> int:
        """GPU units it waits for."""
        return sum(p.gpus for p in self.pods)


class Source(StrEnum):
    """Where facts come from."""

    CIVO = "civo"
    KUBERNETES = "kubernetes"
    PROMETHEUS = "prometheus"  # answers queries and evaluates our rules
    DCGM = "dcgm"
    ALERTMANAGER = "alertmanager"
    HEARTBEAT = "heartbeat"  # GpuAutoscalerHeartbeat reaches the webhook
    STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """Whether a source answered, when, and if not, why. *configured* False means nobody asked for it.

    *at* is when it was asked (for the heartbeat: last heard), *since* when *up* last changed.
    """

    source: Source
    up: bool
    at: datetime | None = None
    since: datetime | None = None
    detail: str = ""
    configured: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """Money so far this month, from the ledger. *unpriced* names sizes whose nodes have no price."""

    month: str
    usd: Decimal
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything one step knows, as values: the only input of `assign` besides the policy."""

    at: datetime
    pools: tuple[PoolState, ...]
    waiting: tuple[Pod, ...]
    signals: tuple[Signal, ...]
    sources: Mapping[Source, SourceState]
    spend: Spend
    grown_last_hour: int = 0
    removed_last_hour: int = 0
    deliveries: tuple[int, ...] = ()

    def pool(self, pool_id: str) -> PoolState:
        """Return the state of *pool_id*. Raises KeyError for a pool that the policy does not name."""
        for state in self.pools:
            if state.pool == pool_id:
                return state
        raise KeyError(pool_id)

    def up(self, source: Source) -> bool:
        """True when *source* answered in this step."""
        state = self.sources.get(source)
        return state is not None and state.up
