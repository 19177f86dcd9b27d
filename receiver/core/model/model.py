"""The nouns of what was found: nodes, pool states, sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from operator import itemgetter

from receiver.core.model.actions import Action
from receiver.core.model.charges import Comparison
from receiver.core.model.devices import put_all_claims
from receiver.core.model.overrides import Override, Question
from receiver.core.model.pods import Pod, less
from receiver.core.model.policy import BudgetChange, Taint
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.rights import Rights
from receiver.core.model.room_requests import RoomRequest
from receiver.core.model.shares import is_share, put_bound
from receiver.core.model.signals import PoolSilence, Signal
from receiver.core.model.usage import Activity


class Stage(StrEnum):
    """How far a node has come."""

    BUILDING = "building"  # Civo builds the instance
    BOOTING = "booting"  # active at Civo, not Ready in Kubernetes
    INSTALLING = "installing"  # Ready; its GPUs are not allocatable yet (minutes), or it carries a startup taint
    USABLE = "usable"  # Ready with its GPUs allocatable
    DELETING = "deleting"
    BROKEN = "broken"  # a build that failed, a usable node that stopped being Ready, or one gone from Kubernetes
    UNKNOWN = "unknown"  # active at Civo, and Kubernetes did not answer


DELETING_AT_CIVO = "DELETING"
NO_STATUS = "no status"  # where Civo leaves the status of an instance out
REPAIR = "repair"  # in our cordon annotation of a node under repair, where a removal has its id
ON_ITS_WAY = frozenset({Stage.BUILDING, Stage.BOOTING, Stage.INSTALLING})


class CordonedBy(StrEnum):
    """Whose cordon a node carries."""

    US = "us"
    SOMEONE = "someone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Whose cordon a node carries, and what our annotations on it say."""

    by: CordonedBy | None = None
    action: str | None = None  # the id of the removal that set ours, or `REPAIR`
    stop: str | None = None  # the budget stop that closes it to new work
    deleted: bool = False  # that removal counts its DELETE as accepted, and Civo lists it as running

    @property
    def removal(self) -> str | None:
        """The id of the removal that set ours, None for a repair."""
        return None if self.action == REPAIR else self.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What keeps a node from being removed beside its GPU pods."""

    protected: bool = False
    until: datetime | None = None  # until when a workload has it kept (``keep-until``)
    pod: str = ""  # of that workload
    hosts: tuple[str, ...] = ()  # what must not be removed with it: our own pod, Prometheus, Alertmanager
    drain_losses: tuple[str, ...] = ()  # the pods without a GPU that a drain would lose, each with its reason

    def lasts(self, now: datetime) -> bool:
        """True while a workload has it kept."""
        return self.until is not None and now < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is wrong with a node's GPUs, and who works on it."""

    sick: str = ""  # what its GPUs lack, such as ``XID 79 on GPU 0``
    since: datetime | None = None  # when that began, or what came before without a break
    partly: bool = False  # some of its GPUs work, and `Node.allocatable` leaves out the others
    maintained: str = ""  # who works on it: it is no room meanwhile, and is not removed
    maintained_until: datetime | None = None  # how long that counts at most

    @property
    def out_of_service(self) -> bool:
        """True while no work of any kind should begin there."""
        return bool(self.maintained) or (bool(self.sick) and not self.partly)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When what happened to a node."""

    usable_since: datetime | None = None  # None: it never was
    seen_since: datetime | None = None  # when it was first watched
    unknown_since: datetime | None = None  # when its GPUs were first seen in use without a pod
    lost_at: datetime | None = None  # when it stopped being usable, or vanished from Kubernetes before it ever was
    undated: bool = False  # Civo gives no usable time of its creation: when its paid units begin is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideGpus:
    """What a node has beside whole GPUs, by resource (`core.model.pods`) or kind of device (`core.model.devices`)."""

    compute: Mapping[str, int] = field(default_factory=dict)  # allocatable
    others: Mapping[str, int] = field(default_factory=dict)  # what pods without GPUs request of that
    daemons: Mapping[str, int] = field(default_factory=dict)  # what DaemonSets' pods request of that
    dra: bool = False  # a DRA driver serves its GPUs
    devices: Mapping[str, int] = field(default_factory=dict)  # free devices of DRA and their counters
    devices_returned: Mapping[str, int] = field(default_factory=dict)  # the same once its pods have left that soon do


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One instance of a pool joined with its Kubernetes node."""

    name: str
    instance: str
    stage: Stage
    created_at: datetime
    civo_status: str = ""  # Civo's word for the instance, unless it is the one that the stage stands for
    allocatable: Mapping[str, int] = field(default_factory=dict)  # GPU resources
    pods: tuple[Pod, ...] = ()  # GPU pods bound to it
    idle_since: datetime | None = None  # None while a pod holds a GPU there, or that is unknown
    registered: bool = True  # Kubernetes has a Node object for it
    ready: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taint: str = ""  # the key of the one that alone keeps pods away
    activity: Activity | None = None  # what DCGM reports of its GPUs
    cordon: Cordon = Cordon()
    keep: Keep = Keep()
    health: Health = Health()
    times: Times = Times()
    beside: BesideGpus = BesideGpus()

    @property
    def leaving(self) -> bool:
        """True while Civo lists it as being deleted; after our DELETE the stage says so at once."""
        return self.civo_status == DELETING_AT_CIVO

    @property
    def note(self) -> str:
        """What its stage alone does not say, such as ``waits for taint readiness.k8s.io/gpu``; empty for nothing."""
        if not self.registered and self.times.lost_at is not None and self.stage is not Stage.UNKNOWN:
            return "has no Node object in Kubernetes any more"
        if self.startup_taint:
            return f"waits for taint {self.startup_taint}"
        if self.civo_status and not self.leaving:
            return f"Civo reports {self.civo_status}"
        if self.health.sick or self.health.maintained:
            return self.health.maintained or f"is sick: {self.health.sick}"
        return "has GPUs that a DRA driver serves" if self.beside.dra else ""

    @property
    def was_usable(self) -> bool:
        """True once it has been usable."""
        return self.times.usable_since is not None

    @property
    def vanished(self) -> bool:
        """True when it vanished from Kubernetes before it was usable."""
        is_gone = not self.registered and self.times.lost_at is not None
        return is_gone and self.stage is Stage.BROKEN and not self.was_usable

    @property
    def watched_since(self) -> datetime:
        """When its time to become usable began: what happened before it was watched is unknown."""
        return max(self.created_at, self.times.seen_since or self.created_at)

    @property
    def busy(self) -> bool:
        """True when a GPU pod is bound here, running or about to."""
        return bool(self.pods)

    @property
    def idle(self) -> bool:
        """True when no GPU pod is bound here, and since when is known."""
        return self.idle_since is not None and not self.busy

    @property
    def free(self) -> Mapping[str, int]:
        """Allocatable GPU and compute resources that no pod here has asked for, and devices that no claim holds."""
        used = dict(self.beside.others)
        for pod in self.pods:
            for resource, count in pod.asks.items():
                used[resource] = used.get(resource, 0) + count
        free = less({**self.allocatable, **self.beside.compute}, used)
        if any(map(is_share, used)):
            put_bound(free, ((pod.requests, pod.devices) for pod in self.pods))
        if not self.beside.devices:
            return free
        free |= self.beside.devices
        for pod in self.pods:
            if pod.reserved:  # its claims have no devices yet
                put_all_claims(free, pod.requests)
        return free


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """No retry before *until*, after *failures* failures in a row: of the pool, or only of its *instances*."""

    failures: int
    until: datetime
    reason: str
    instances: tuple[str, ...] = ()

    def holds(self, now: datetime, longest: timedelta) -> bool:
        """True until its end; an end further away than *longest* was set by a wrong clock and is ignored."""
        return now < self.until <= now + longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the next node of a pool will offer, by its usable nodes when last seen, at *at*. It outlives them a while.

    A change of *configured*, the fingerprint of the pool's configuration, voids it. *allocatable* are GPUs, and compute
    resources less the share of DaemonSets. *labels* and *taints* are those of *node* when it was new, at *since* (None:
    it was old when first seen, and they refuse no pod: `core.scaling.template`).
    """

    node: str
    at: datetime
    configured: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    devices: str = ""  # of DRA, see `core.model.devices.as_text`
    since: datetime | None = None
    others: tuple["Offer", ...] = ()  # the labels and taints of the node before it, if that was new as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A required count that others changed, as seen at *at*; *undoes* is True when it reverted our own change."""

    at: datetime
    from_count: int
    to_count: int
    undoes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CivoCount:
    """What Civo's count of a pool means."""

    since: datetime | None = None  # when it last changed
    uncounted: int = 0  # removed nodes that it still has (below 0: new nodes that it does not have yet)
    drifts: tuple[Drift, ...] = ()  # changes by others in the last two days
    unreadable: str = ""  # what Civo's response on this pool lacks: it does not change, and its nodes may be incomplete


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoffs:
    """What a pool waits out after failures: of growth, of removals, and of its newest nodes."""

    growth: Backoff | None = None
    refused: int | None = None  # the lowest count that Civo has just refused for lack of stock or quota
    removal: Backoff | None = None
    provisioning: Backoff | None = None  # after nodes in a row that never became usable
    sickened: Backoff | None = None  # after usable nodes in a row that fell sick

    @property
    def trial(self) -> Backoff | None:
        """The back-off after which one node at a time is tried, because the newest nodes failed."""
        backoffs = (b for b in (self.provisioning, self.sickened) if b is not None)
        return max(backoffs, key=lambda backoff: backoff.until, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastChanges:
    """When a pool last changed, by direction."""

    grown_at: datetime | None = None
    shrunk_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupTimes:
    """How long a new node of a pool takes from its creation until its GPUs are allocatable."""

    usual: timedelta | None = None
    slow: timedelta | None = None  # the time within which nine of ten nodes had been usable (None: too few)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextNode:
    """What the next node of a pool has beside whole GPUs."""

    compute: Mapping[str, int] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)  # what claims can take of it: see `BesideGpus.devices`


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """One pool as found in this step. Without an answer from Civo, *required* is the last known count.

    *unjoined* names Kubernetes nodes that match no instance at Civo: then nodes cannot be identified for certain.
    """

    pool: str
    required: int  # the count that Civo was asked for: its own number less `CivoCount.uncounted`
    nodes: tuple[Node, ...] = ()
    unjoined: tuple[str, ...] = ()
    count: CivoCount = CivoCount()
    open_action: Action | None = None
    last_changes: LastChanges = LastChanges()
    backoffs: Backoffs = Backoffs()
    startup: StartupTimes = StartupTimes()
    offer: Offer | None = None  # of the newest usable node, at most a day old
    next_node: NextNode = NextNode()
    silence: PoolSilence | None = None
    utilization: float | None = None  # ratio 0-1

    def of(self, *stages: Stage) -> tuple[Node, ...]:
        """The nodes in one of *stages*."""
        return tuple(n for n in self.nodes if n.stage in stages)

    @property
    def living(self) -> tuple[Node, ...]:
        """The nodes that are not being deleted."""
        return tuple(n for n in self.nodes if n.stage is not Stage.DELETING)

    @property
    def coming(self) -> tuple[Node, ...]:
        """The nodes that are on their way to being usable for the first time."""
        return tuple(n for n in self.nodes if n.stage in ON_ITS_WAY and not n.was_usable)

    @property
    def unlisted(self) -> int:
        """Nodes asked for that Civo does not list yet."""
        return max(0, self.required - len(self.living))


class Source(StrEnum):
    """A source of facts."""

    CIVO = "civo"
    KUBERNETES = "kubernetes"
    PROMETHEUS = "prometheus"  # answers queries and evaluates our rules
    DCGM = "dcgm"
    ALERTMANAGER = "alertmanager"
    HEARTBEAT = "heartbeat"  # GpuAutoscalerHeartbeat reaches the webhook
    STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """Whether a source answered when asked *at* (the heartbeat: last received), and since when *up* is as it is.
    *lacks* are the counters that some nodes do not deliver, with these nodes."""

    source: Source
    up: bool
    at: datetime | None = None
    since: datetime | None = None
    detail: str = ""
    configured: bool = True
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """Money so far this month, from the ledger, in USD."""

    month: str
    usd: Decimal
    unpriced: tuple[str, ...] = ()  # sizes whose nodes have no price
    unknown: str = ""  # why *usd* is unknown: a lost store that has not been seeded
    seeded: Decimal = Decimal(0)  # the part of *usd* from before this ledger began
    account: Decimal | None = None  # the whole account, every charge priced (None: Civo's charges are unknown)
    account_at_least: Decimal = Decimal(0)  # its last known value: spend only rises within a month
    account_unpriced: tuple[str, ...] = ()  # ``12 hours of dbaas-small``: with any of them *account* is too low
    pools: Mapping[str, Decimal] = field(default_factory=dict)  # by id, with the part of *seeded* that may be its
    teams: Mapping[str, Decimal] | None = None  # by attribution, "" for unlabelled work; a minute old at most
    elsewhere_per_hour: Decimal = Decimal(0)  # living nodes whose pools left the configuration
    dearer_per_hour: Mapping[str, Decimal] = field(default_factory=dict)  # by pool, `cost.dearer_per_hour`
    committed: Mapping[str, Decimal] = field(default_factory=dict)  # by pool, of its commitment until the month ends
    seen: Mapping[str, Decimal] = field(default_factory=dict)  # by pool, what this ledger watched since *seen_since*
    seen_since: datetime | None = None  # when the month or the ledger began (None: no forecast is needed)
    charges: Comparison | None = None  # Civo's charges beside the ledger (None before the first answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWork:
    """What wants room beside the pods that wait, and what the scheduler did with work."""

    deferred: tuple[Pod, ...] = ()  # behind our scheduling gate
    requests: tuple[RoomRequest, ...] = ()  # by objects of the cluster's API, each kind in the order of service
    bound_gangs: Mapping[str, int] = field(default_factory=dict)  # pods with a node by gang
    refusals: tuple[SchedulerRefusal, ...] = ()  # work that the scheduler does not place where there is room

    def of_kind(self, kind: str) -> tuple[RoomRequest, ...]:
        """Return the requests of *kind*."""
        return tuple(request for request in self.requests if request.kind == kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierSteps:
    """What earlier steps did that this one counts or goes on with."""

    grown_last_hour: int = 0
    removed_last_hour: int = 0
    first_changed_at: datetime | None = None  # when the first change that these two count was over
    unanswered: tuple[Action, ...] = ()  # growth that ended without an answer: Civo may have accepted it
    kept_out: Mapping[str, datetime] | None = None  # places that the budget hold covers, since when (None: not known)
    announced: Mapping[str, datetime] = field(default_factory=dict)  # when each eviction was, by topic
    given_back: Mapping[str, datetime] = field(default_factory=dict)  # when a window gave back a node, by instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """What people asked for or were asked."""

    overrides: tuple[Override, ...] = ()  # not ended, in force or not
    questions: tuple[Question, ...] = ()  # not expired
    budget_changes: tuple[BudgetChange, ...] = ()


@dataclass(frozen=True, kw_only=True)  # without slots, for what is cached
class Facts:
    """Everything one step knows, as values: the only input of `assign` besides the policy."""

    at: datetime
    pools: tuple[PoolState, ...]
    waiting: tuple[Pod, ...]
    signals: tuple[Signal, ...]
    sources: Mapping[Source, SourceState]
    spend: Spend
    other_work: OtherWork = OtherWork()
    earlier: EarlierSteps = EarlierSteps()
    instructions: Instructions = Instructions()
    rights: Rights | None = None  # None: not checked
    deliveries: tuple[int, ...] = ()  # of alerts, not considered before

    def pool(self, pool_id: str) -> PoolState:
        """Return the state of *pool_id*. Raises KeyError for a pool that the policy does not name."""
        return self._pools[pool_id]

    @cached_property
    def _pools(self) -> Mapping[str, PoolState]:
        return {state.pool: state for state in reversed(self.pools)}

    def waiting_of(self, name: str) -> tuple[Pod, ...]:
        """Return the waiting pods of the gang *name* (``namespace/name``), or the one of that name."""
        return tuple(self._waiting.get(name, ()))

    @cached_property
    def _waiting(self) -> Mapping[str, Sequence[Pod]]:
        pods_by_name: dict[str, list[Pod]] = {}
        for pod in self.waiting:
            for name in {pod.key, pod.gang or pod.key}:
                pods_by_name.setdefault(name, []).append(pod)
        return pods_by_name

    def signals_for(self, pool_id: str) -> tuple[Signal, ...]:
        """Return the signals that are for *pool_id* or for every pool."""
        mine = [*self._signals.get(None, ()), *self._signals.get(pool_id, ())]
        return tuple(signal for _, signal in sorted(mine, key=itemgetter(0)))

    @cached_property
    def _signals(self) -> Mapping[str | None, Sequence[tuple[int, Signal]]]:
        signals_by_pool: dict[str | None, list[tuple[int, Signal]]] = {}
        for numbered in enumerate(self.signals):
            signals_by_pool.setdefault(numbered[1].pool, []).append(numbered)
        return signals_by_pool

    def up(self, source: Source) -> bool:
        """True when *source* answered in this step."""
        state = self.sources.get(source)
        return state is not None and state.up
