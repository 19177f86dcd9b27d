"""The nouns of what was found: nodes, pool states, sources, rights (docs/glossary.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.actions import Action
from receiver.core.model.charges import Comparison
from receiver.core.model.overrides import Override, Question
from receiver.core.model.pods import Pod, less
from receiver.core.model.policy import BudgetChange, Indexed, Taint
from receiver.core.model.signals import PoolSilence, Signal
from receiver.core.model.usage import Activity

GRANTED_FOR = timedelta(minutes=5)  # rights change only when a manifest is applied
AGAIN_AFTER = timedelta(seconds=30)  # missing rights hold growth, so a grant must be seen soon
UNKNOWN_HOLDS_FOR = timedelta(minutes=5)
BIND = "bind the ClusterRole gpu-autoscaler-act (k8s/overlays/act/rights)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The cluster's last answer on the rights that a removal needs, of *asked_at* (None: never), unchanged *since*
    then.

    *lacking* names the rights that are refused (``patch nodes``), () for none, None if never answered. *detail* says
    why the last query got no answer, empty when it got one; the previous answer then still counts.
    """

    lacking: tuple[str, ...] | None
    since: datetime
    asked_at: datetime | None = None
    detail: str = ""

    def due(self, now: datetime) -> bool:
        """True when the cluster should be asked again; at once if the clock was ahead then."""
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
        """Return what is known after a query without an answer."""
        return replace(self, since=min(self.since, now), asked_at=now, detail=why)

    def unasked(self, why: str, now: datetime) -> "Rights":
        """Return what is known while the cluster cannot be asked. That is no try: it is asked as soon as possible."""
        return replace(self, since=min(self.since, now), detail=why)

    def holds_growth(self, now: datetime) -> bool:
        """True while a node bought now could not be removed, or that is unknown.

        Without an answer growth is held for a while only. Waiting some minutes costs less than a node that stays, but
        the query itself may be what fails (a proxy that blocks POST, an authorizer that is down) although every right
        is there: growth would then wait forever. A removal that is refused reports it.
        """
        if self.lacking is None:
            return now < self.since + UNKNOWN_HOLDS_FOR
        return bool(self.lacking)

    @property
    def holds_until(self) -> datetime | None:
        """When growth is no longer held without an answer; None where only an answer ends it."""
        return self.since + UNKNOWN_HOLDS_FOR if self.lacking is None else None

    def __str__(self) -> str:
        if self.lacking is None:
            return f"it is not known whether nodes may be removed: {self.detail or 'not answered yet'}"
        refused = ", ".join(self.lacking)
        return f"Kubernetes does not let us {refused}" if refused else "Kubernetes lets us remove nodes"


def never_asked(now: datetime) -> Rights:
    """Return what is known before the first query."""
    return Rights(lacking=None, since=now)


class Stage(StrEnum):
    """How far a node has come."""

    BUILDING = "building"  # Civo builds the instance
    BOOTING = "booting"  # active at Civo, not Ready in Kubernetes
    INSTALLING = "installing"  # Ready; its GPUs are not allocatable yet (minutes), or it carries a startup taint
    USABLE = "usable"  # Ready with its GPUs allocatable
    DELETING = "deleting"
    BROKEN = "broken"  # an undocumented status, a usable node that stopped being Ready, or one gone from Kubernetes
    UNKNOWN = "unknown"  # active at Civo, and Kubernetes did not answer


ON_ITS_WAY = frozenset({Stage.BUILDING, Stage.BOOTING, Stage.INSTALLING})


class CordonedBy(StrEnum):
    """Whose cordon a node carries."""

    US = "us"
    SOMEONE = "someone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One instance of a pool joined with its Kubernetes node.

    *allocatable* are GPU resources (where a DRA driver serves them, *dra*: those configured), *compute* its allocatable
    compute resources (`core.model.pods`), of which pods without GPUs request *others* and DaemonSets' pods
    *daemons*. *pods* are the GPU pods bound to it. *idle_since* is None while a pod holds a GPU there, and while that
    is unknown (*stage* UNKNOWN). *unknown_since* is when its GPUs were first seen in use without a pod (None: they are
    not).

    *seen_since* is when it was first watched, *usable_since* when it became usable, *lost_at* when it stopped being
    usable, or vanished from Kubernetes before it ever was. *registered* is True while Kubernetes has a Node object for
    it, *ready* while that is Ready. *startup_taint* is the key of the startup taint that alone keeps pods away.
    *leaving* is True once Civo lists it as being deleted (after our DELETE the stage says so at once). *closed_for* is
    the budget stop in our annotation that closes it to new work.

    *kept_until* is until when a workload has the node kept (*kept_for* is its pod). *hosts* names what must not be
    removed with it (our own pod, Prometheus, Alertmanager), *kept_by* the pods without a GPU that a drain would lose,
    each with its reason. *activity* is what DCGM reports of its GPUs (None: nothing).
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
        """True when it vanished from Kubernetes before it was usable, for longer than a list may be incomplete."""
        gone = not self.registered and self.lost_at is not None
        return gone and self.stage is Stage.BROKEN and not self.was_usable

    @property
    def watched_since(self) -> datetime:
        """When its time to become usable began: what happened before it was watched is unknown."""
        return max(self.created_at, self.seen_since or self.created_at)

    @property
    def busy(self) -> bool:
        """True when a GPU pod is bound here, running or about to."""
        return bool(self.pods)

    def kept(self, now: datetime) -> bool:
        """True while a workload has it kept (``keep-until``)."""
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
    """No retry before *until*, after *failures* failures in a row: of the pool, or only of its *instances*."""

    failures: int
    until: datetime
    reason: str
    instances: tuple[str, ...] = ()

    def holds(self, now: datetime, longest: timedelta) -> bool:
        """True until its end; an end further away than *longest* was set by a wrong clock and is ignored."""
        return now < self.until <= now + longest


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCount:
    """A change of ours that Civo's required count does not show yet: it says *shown* instead of *expected*.

    *since* is when the change was made. It expires after a while (`receiver.core.scaling.waits`).
    """

    expected: int
    shown: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the newest usable node of a pool offered when last seen, at *at*. It outlives the node for a while.

    *configured* is the fingerprint of the pool's configuration then; a different one voids the offer. *allocatable* are
    GPUs, and compute resources less the share of DaemonSets. *others* are the differing offers of other living nodes of
    the pool; they are not stored.
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
    """A required count that others changed, as seen at *at*; *undoes* is True when it reverted our own change."""

    at: datetime
    from_count: int
    to_count: int
    undoes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """One pool as found in this step.

    *required* is the node count that Civo was asked for: its own number less *uncounted*, the removed nodes that it
    still counts (below 0: new nodes that it does not count yet). Without an answer from Civo it is the last known one.
    *required_since* is when Civo's number last changed.

    *provisioning* counts nodes in a row that never became usable, *ready_in* is the usual time until a node's GPUs are
    allocatable, *drifts* are changes by others in the last two days, *refused* is the lowest count that Civo has just
    refused for lack of stock or quota. *offer* is what the newest usable node offers, or offered within the last day.
    *unjoined* names Kubernetes nodes that match no instance at Civo: then nodes cannot be identified for certain.
    *compute* are the compute resources of a new node.
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
    """Whether a source answered, when, and if not, why. *configured* is False for one that is not in use.

    *at* is when it was queried (for the heartbeat: last received), *since* when *up* last changed.
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

    *unknown* says why *usd* is unknown (a lost store that has not been seeded); empty when it is known. *seeded* is the
    part of *usd* that was spent before this ledger began. *account* is the cost of the whole account, every charge
    priced (None: Civo's charges are unknown); *account_at_least* is its last known value, for spend only rises within a
    month. *account_unpriced* lists charges without a price, such as ``12 hours of dbaas-small``: with any of them
    *account* is too low.

    *pools* is the spend by pool id, with the part of *seeded* that may be the pool's. *teams* is what attribution gives
    to each team's workloads, under an empty name the unlabelled ones (None: unknown); it is a minute old at most.
    *elsewhere_per_hour* is the cost of living nodes whose pools left the configuration. *seen* is the spend by pool id
    that this ledger has watched since *seen_since*, when the month or the ledger began (None: no forecast is needed).
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


def _by_name(pods: Sequence[Pod]) -> Mapping[str, tuple[Pod, ...]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        for name in {pod.key, pod.gang or pod.key}:
            found.setdefault(name, []).append(pod)
    return {name: tuple(named) for name, named in found.items()}


def _by_pool(signals: Sequence[Signal]) -> Mapping[str | None, list[tuple[int, Signal]]]:
    found: dict[str | None, list[tuple[int, Signal]]] = {}
    for number, signal in enumerate(signals):
        found.setdefault(signal.pool, []).append((number, signal))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(Indexed):
    """Everything one step knows, as values: the only input of `assign` besides the policy.

    *bound_gangs* counts, by gang, the pods that have a node. *overrides* are those not ended, in force or not.
    *charges* compares Civo's last answer on its charges with the ledger (None before the first answer). *unanswered* is
    growth that ended recently without an answer, which Civo may have accepted (`receiver.core.money.unanswered`).
    *kept_out* is where the budget hold keeps new work out, and since when (None: not known). *questions* are the
    approval requests that have not expired. *rights* are those that a removal needs (None: not checked).
    *told_to_go* is when each eviction by a window was announced, by topic; *given_up* when a node that a
    window could not empty was given back, by instance.
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
        return self.once("by pool", lambda: {state.pool: state for state in reversed(self.pools)})[pool_id]

    def waiting_of(self, name: str) -> tuple[Pod, ...]:
        """Return the waiting pods of the gang *name* (``namespace/name``), or the one of that name."""
        return self.once("waiting", lambda: _by_name(self.waiting)).get(name, ())

    def signals_for(self, pool_id: str) -> tuple[Signal, ...]:
        """Return the signals that are for *pool_id* or for every pool."""
        by_pool = self.once("signals", lambda: _by_pool(self.signals))
        mine = (*by_pool.get(None, ()), *by_pool.get(pool_id, ()))
        return tuple(signal for _, signal in sorted(mine, key=lambda each: each[0]))

    def up(self, source: Source) -> bool:
        """True when *source* answered in this step."""
        state = self.sources.get(source)
        return state is not None and state.up
