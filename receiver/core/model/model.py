"""The nouns of what was found: nodes, pool states, sources, rights (docs/glossary.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.actions import Action
from receiver.core.model.activity import Activity
from receiver.core.model.approval_request import Question
from receiver.core.model.charges import Comparison
from receiver.core.model.overrides import Override
from receiver.core.model.pods import Pod
from receiver.core.model.policy import BudgetChange, Taint
from receiver.core.model.resources import less
from receiver.core.model.signals import PoolSilence, Signal

GRANTED_FOR = timedelta(minutes=5)  # rights change when somebody applies a manifest: asking at each step tells no more
AGAIN_AFTER = timedelta(seconds=30)  # what is refused or not known holds growth, so a grant must be seen soon
UNKNOWN_HOLDS_FOR = timedelta(minutes=5)
BIND = "bind the ClusterRole gpu-autoscaler-act (k8s/overlays/act/rights)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What the cluster said when it was last asked, at *asked_at* (None: never), and that it has been so *since*.

    *lacking* names the rights that are refused (``patch nodes``), () for none; None while nobody could ever tell.
    *detail* says why the last question got no answer, empty when it got one: an answer from before goes on to count.
    """

    lacking: tuple[str, ...] | None
    since: datetime
    asked_at: datetime | None = None
    detail: str = ""

    def due(self, now: datetime) -> bool:
        """True when the cluster should be asked again; at once where the clock was ahead then."""
        if self.asked_at is None:
            return True
        settled = self.lacking == () and not self.detail
        age = now - self.asked_at
        return age >= (GRANTED_FOR if settled else AGAIN_AFTER) or age < timedelta(0)

    def answered(self, lacking: tuple[str, ...], now: datetime) -> "Rights":
        """Return what is known after an answer."""
        since = min(self.since, now) if lacking == self.lacking else now
        return Rights(lacking=lacking, since=since, asked_at=now)

    def unanswered(self, why: str, now: datetime) -> "Rights":
        """Return what is known after a question without an answer."""
        return replace(self, since=min(self.since, now), asked_at=now, detail=why)

    def unasked(self, why: str, now: datetime) -> "Rights":
        """Return what is known while nobody can be asked: that is no try, so it is asked as soon as somebody can."""
        return replace(self, since=min(self.since, now), detail=why)

    def holds_growth(self, now: datetime) -> bool:
        """True while a node that is bought now could not be removed, or nobody can tell whether it could.

        Not knowing holds for a while only. Waiting some minutes costs less than a node for good, but the question
        may be what is refused or lost (a proxy that lets no POST through, an authorizer that is down), with every right
        there: growth that waited for the answer would wait for ever. A removal that is refused then says so.
        """
        if self.lacking is None:
            return now < self.since + UNKNOWN_HOLDS_FOR
        return bool(self.lacking)

    @property
    def holds_until(self) -> datetime | None:
        """When growth is no longer held although nothing was answered; None where only an answer ends it."""
        return self.since + UNKNOWN_HOLDS_FOR if self.lacking is None else None

    def __str__(self) -> str:
        if self.lacking is None:
            return f"it is not known whether nodes may be removed: {self.detail or 'not answered yet'}"
        refused = ", ".join(self.lacking)
        return f"Kubernetes does not let us {refused}" if refused else "Kubernetes lets us remove nodes"


def never_asked(now: datetime) -> Rights:
    """Return what is known before the first question."""
    return Rights(lacking=None, since=now)


class Stage(StrEnum):
    """How far a node has come."""

    BUILDING = "building"  # Civo builds the instance
    BOOTING = "booting"  # active at Civo, not Ready in Kubernetes
    INSTALLING = "installing"  # Ready; its GPUs are not allocatable yet (minutes), or it carries a startup taint
    USABLE = "usable"  # Ready with its GPUs allocatable
    DELETING = "deleting"
    BROKEN = "broken"  # a status nobody documents, a usable node that stopped being Ready, or one gone from Kubernetes
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
    *usable_since* says when that was, *seen_since* since when we have watched it,
    *lost_at* when it stopped being so, or when it was gone from Kubernetes before it ever was.
    *registered* is True while Kubernetes has a node object for it, *ready* while that is Ready,
    *unknown_since* is when its GPUs were first seen
    in use although no pod holds them (None: they are not).
    *kept_until* is until when a workload that ran here asked that the node stays, and may (*kept_for*, its pod).
    *dra* is True where a DRA driver serves its GPUs: *allocatable* is what the configuration says then.
    *startup_taint* is the key of the startup taint that alone keeps pods away from it, empty without one.
    *leaving* is True once Civo itself lists it as being deleted (after our DELETE the stage says so at once).
    *closed_for* is the budget's stop for which we let no new work begin on it, as our annotation says.
    *hosts* names what must not be cut off with it (our own pod, Prometheus, Alertmanager), *kept_by* the pods without a
    GPU that draining it would lose, each with its reason (`core.model.pods`). *activity* is what DCGM says of
    its GPUs, None when it says nothing. *compute* are its allocatable compute resources (`core.model.resources`),
    *others* is what pods without GPUs request of them, *daemons* what DaemonSets' pods do.
    """

    name: str
    instance: str
    stage: Stage
    created_at: datetime
    allocatable: Mapping[str, int] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    idle_since: datetime | None = None
    registered: bool = True
    ready: bool = True
    was_usable: bool = False
    usable_since: datetime | None = None
    seen_since: datetime | None = None
    unknown_since: datetime | None = None
    lost_at: datetime | None = None
    kept_until: datetime | None = None
    kept_for: str = ""
    cordoned_by: CordonedBy | None = None
    cordoned_for: str | None = None  # the action id in our cordon annotation
    closed_for: str | None = None
    protected: bool = False
    leaving: bool = False
    hosts: tuple[str, ...] = ()
    kept_by: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taint: str = ""
    dra: bool = False
    activity: Activity | None = None
    compute: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    daemons: Mapping[str, int] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """What its stage alone does not say, such as ``waits for taint readiness.k8s.io/gpu``; empty for nothing."""
        if not self.registered and self.lost_at is not None:
            return "has no Node object in Kubernetes any more"
        if self.startup_taint:
            return f"waits for taint {self.startup_taint}"
        return "has GPUs that a DRA driver serves" if self.dra else ""

    @property
    def vanished(self) -> bool:
        """True when it was gone from Kubernetes before it was usable, for longer than a list may be partial."""
        gone = not self.registered and self.lost_at is not None
        return gone and self.stage is Stage.BROKEN and not self.was_usable

    @property
    def watched_since(self) -> datetime:
        """When its time to become usable began, as far as anybody watched: what was before is not known."""
        return max(self.created_at, self.seen_since or self.created_at)

    @property
    def busy(self) -> bool:
        """True when a GPU pod is bound here, running or about to."""
        return bool(self.pods)

    def kept(self, now: datetime) -> bool:
        """True while a workload's wish keeps it."""
        return self.kept_until is not None and now < self.kept_until

    @property
    def free(self) -> Mapping[str, int]:
        """Allocatable GPU and compute resources that no bound pod has asked for."""
        used = dict(self.others)
        for pod in self.pods:
            for resource, count in pod.asks.items():
                used[resource] = used.get(resource, 0) + count
        return less({**self.allocatable, **self.compute}, used)


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
class LateCount:
    """A change of ours that Civo's required count does not show yet: it says *shown* instead of *expected*.

    *since* is when the change was made. It is believed for a while only (`receiver.core.scaling.provisioning`).
    """

    expected: int
    shown: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the newest usable node of a pool showed when last seen, at *at*: it outlives the node for a while.

    *configured* is the fingerprint of what the configuration said of the pool then; another one makes it void.
    *allocatable* are GPUs, and the compute resources without the share of DaemonSets. *others* are what other living
    nodes of the pool show, where that is not the same; it is not stored.
    """

    node: str
    at: datetime
    configured: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    others: tuple["Offer", ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A required count that somebody else changed, as seen at *at*; *undoes* when it turned our own change back."""

    at: datetime
    from_count: int
    to_count: int
    undoes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """One pool as found just now. *required* is the node count Civo was asked for (not what exists yet): its own
    number less *uncounted*, the nodes removed that it still includes (below 0: those asked for that it does not show
    yet). When Civo did not answer it is
    the last known one and the facts say that Civo is down. *required_since* is when Civo's number last changed.

    *provisioning* counts nodes in a row that never became usable, *ready_in* is how long a node of this pool
    usually takes until its GPUs are allocatable, *drifts* are the changes that somebody else made in the last two days,
    *refused* is the lowest count that Civo refused a moment ago for lack of stock or quota.
    *offer* is what the newest usable node shows, or showed within the last day. *unjoined* names Kubernetes nodes
    that belong to no instance that Civo lists: where there are any, who is who is not certain. *compute* is what a new
    node has for pods beside its GPUs (`receiver.core.model.resources`).
    """

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
    silence: PoolSilence | None = None
    uncounted: int = 0
    provisioning: Backoff | None = None
    ready_in: timedelta | None = None
    drifts: tuple[Drift, ...] = ()
    offer: Offer | None = None
    unjoined: tuple[str, ...] = ()
    compute: Mapping[str, int] = field(default_factory=dict)
    refused: int | None = None

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
    """Money so far this month, from the ledger. *unpriced* names sizes whose nodes have no price.

    *unknown* says why *usd* cannot be told yet (a lost store that has not been seeded); empty when it can. *seeded* is
    the part of *usd* that was spent before this ledger began. *account* is what the whole account has cost, every
    charge of it priced (None: Civo's charges are not known; *account_at_least* is what they told last, or the nodes'
    part of it, for a month's spend only rises), *account_unpriced* what of it nobody has a price for, in
    words such as ``12 hours of dbaas-small``: with any of it *account* is less than the truth.

    *pools* is the spend by pool id (of *seeded* what may have been the pool's is in it), *teams* what attribution
    gives to the workloads of each team, the unlabelled ones under an empty name (None: it cannot tell); a minute old at
    most. *elsewhere_per_hour* is what living nodes of pools cost that left the configuration.
    *seen* is by pool id what of it this ledger has watched since *seen_since*, when the month or the ledger began
    (None: nobody asks for a forecast).
    """

    month: str
    usd: Decimal
    unpriced: tuple[str, ...] = ()
    unknown: str = ""
    seeded: Decimal = Decimal(0)
    account: Decimal | None = None
    account_at_least: Decimal = Decimal(0)
    account_unpriced: tuple[str, ...] = ()
    pools: Mapping[str, Decimal] = field(default_factory=dict)
    teams: Mapping[str, Decimal] | None = None
    elsewhere_per_hour: Decimal = Decimal(0)
    seen: Mapping[str, Decimal] = field(default_factory=dict)
    seen_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything one step knows, as values: the only input of `assign` besides the policy.

    *bound_gangs* counts, by gang, the pods that have a node. *overrides* are those that nobody has ended, in force
    or not. *charges* is Civo's last answer on what it charged beside the ledger, None before the first. *unanswered* is
    growth that ended a moment ago without an answer: Civo may have taken it on (`receiver.core.money.budget`).
    *kept_out* is where the budget hold keeps new work out and since when, as the last step left it; None while nobody
    has looked.
    *questions* are those that people are or were asked, and that are not over.
    *rights* is what the cluster says of those that a removal needs, None where nobody asks (docs/guardrails.md).
    *told_to_go* is when the grace of a window that evicts was announced, by the topic of its notice; *given_up* when
    a node that one could not get empty was given back, by instance.
    """

    at: datetime
    pools: tuple[PoolState, ...]
    waiting: tuple[Pod, ...]
    signals: tuple[Signal, ...]
    sources: Mapping[Source, SourceState]
    spend: Spend
    grown_last_hour: int = 0
    removed_last_hour: int = 0
    first_changed_at: datetime | None = None  # when the first change that these two count was over
    bound_gangs: Mapping[str, int] = field(default_factory=dict)
    budget_changes: tuple[BudgetChange, ...] = ()
    kept_out: Mapping[str, datetime] | None = None
    deliveries: tuple[int, ...] = ()
    overrides: tuple[Override, ...] = ()
    charges: Comparison | None = None
    unanswered: tuple[Action, ...] = ()
    told_to_go: Mapping[str, datetime] = field(default_factory=dict)
    given_up: Mapping[str, datetime] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    rights: Rights | None = None

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
