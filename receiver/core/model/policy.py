"""The operator's policy as values: pools, bounds, budget, billing and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from receiver.core.model.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOfWork:
    """A unit that work produces, such as an epoch: *query* (PromQL) counts it, and the report prices *per* of it.

    ``$range`` is the time since the month began. *only* limits whose cost counts: attribute of an Owner, ``namespace``.
    """

    name: str
    query: str
    per: Decimal = Decimal(1)
    only: Mapping[str, str] = field(default_factory=dict)

    @property
    def team(self) -> str:
        """The one team whose cost it is, or nothing."""
        return self.only.get("team", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """An offer: USD per node-hour of *size*, paid in every hour of *term_months*, whether or not it is used."""

    size: str
    term_months: int
    usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Monthly:
    """The messages sent when a month has ended: one for *everybody*, and one for each of *teams*."""

    everybody: bool = False
    teams: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str | None, ...]:
        """The scopes to send, None for the whole cluster."""
        return (*((None,) if self.everybody else ()), *self.teams)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPolicy:
    """What reports compare with, count and send. *efficiency_target* is a ratio 0-1."""

    efficiency_target: Decimal = Decimal("0.70")
    units: tuple[UnitOfWork, ...] = ()
    commitments: tuple[Commitment, ...] = ()
    monthly: Monthly = field(default_factory=Monthly)


QUEUE_WAIT: Mapping[str, timedelta] = {"production": timedelta(minutes=10), "research": timedelta(hours=2)}
USUAL_WAIT = timedelta(hours=2)  # of other priority classes, as in rules/
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"  # Civo's node agent sets it to the pool's id
# What the keys of taints begin with that keep pods off a new node until something has set it up.
STARTUP_TAINTS = (
    "readiness.k8s.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "node.cilium.io/agent-not-ready",
    "node.cloudprovider.kubernetes.io/uninitialized",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node taint; *effect* is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Repair(StrEnum):
    """What becomes of a node whose GPUs are sick."""

    NONE = "none"  # a message is sent
    REPLACE = "replace"  # it is cordoned, and removed when its work ends


class Unanswered(StrEnum):
    """What happens to a change whose approval request is not answered."""

    PROCEED = "proceed"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Which changes of a pool need an approval: *removals* of idle nodes and emptying of busy ones, growth whose new
    nodes cost more than *growth_above_usd_per_hour* (None: never); and how long to *wait* for an answer."""

    removals: bool = False
    growth_above_usd_per_hour: Decimal | None = None
    wait: timedelta = timedelta(minutes=15)
    unanswered: Unanswered = Unanswered.PROCEED


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A Civo node pool of one size that we may resize. *id* is Civo's, *name* is for people.

    *resources* is what one node offers (GPU resource name to whole units). *price_usd_per_hour* is per node; while it
    is unknown the pool cannot grow. Utilizations are ratios 0-1; a message is sent about work that stays below
    *underutilized* or *idle*. *apply_to_nodes* sets *labels* and *taints* on nodes that come without them. *budget_usd*
    is the pool's own allowance per month, *repair_share* the ratio of its nodes that may be under repair at a time.
    *devices* are those that DRA drivers show of a node, until one does so (`core.model.devices.as_text`). *region* is
    Civo's, where that is known.
    """

    id: str
    name: str
    size: str
    resources: Mapping[str, int]
    max_nodes: int
    price_usd_per_hour: Decimal | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    min_nodes: int = 0
    standby_nodes: int = 0
    grow_cooldown: timedelta = timedelta(seconds=5)
    shrink_cooldown: timedelta = timedelta(minutes=5)
    utilization_high: float = 0.70
    utilization_low: float = 0.50
    underutilized: float = 0.20
    idle: float = 0.05
    temperature_celsius: int = 85
    idle_for: timedelta = timedelta(minutes=10)
    provision_timeout: timedelta = timedelta(minutes=20)
    apply_to_nodes: bool = False
    windows: tuple[Window, ...] = ()
    budget_usd: Decimal | None = None
    approval: Approval | None = None
    devices: str = ""
    repair: Repair = Repair.NONE
    repair_share: Decimal = Decimal("0.2")
    region: str = ""

    @property
    def gpus_per_node(self) -> int:
        """GPUs (or MIG slices, or time-sliced replicas) that one node offers."""
        return sum(self.resources.values())

    @property
    def offered_labels(self) -> Mapping[str, str]:
        """The labels that the configuration says a node of this pool carries, and those that the platform sets. What
        is known beside them: `core.scaling.template.NextLabels`."""
        return {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": self.size,
            "kubernetes.civo.com/civo-node-size": self.size,
            POOL_LABEL: self.id,
            "nvidia.com/gpu.present": "true",
            **self.labels,
        }


class Rounding(StrEnum):
    """How a node's life becomes paid units: every started one, or whole ones but at least one."""

    CEIL = "ceil"
    FLOOR_MIN_ONE = "floor_min_one"


class Packing(StrEnum):
    """What decides which node with room a pod goes to: our soft taints, so that nodes are filled, or the scheduler
    alone."""

    FILL = "fill"
    SCHEDULER = "scheduler"


class Anchor(StrEnum):
    """Where paid units begin: at the instance's creation, or on the clock."""

    INSTANCE = "instance"
    CLOCK = "clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedNodes:
    """So many *nodes* of *pool* (an id) are paid for until *until*, each at *usd_per_hour*, whether or not they exist:
    the oldest ones. Nodes beyond them cost the pool's price. *since* is when the ledger first knew of it."""

    pool: str
    size: str
    nodes: int
    usd_per_hour: Decimal
    until: datetime
    since: datetime = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """How the cloud charges: *granularity* is one paid unit, *removal_margin* how long before the next one an idle node
    may go, *charges_tolerance_usd* the unreported difference of ledger and charges per size and month. Of a pool one
    entry of *committed* at most is in force at a time."""

    granularity: timedelta = timedelta(hours=1)
    rounding: Rounding = Rounding.CEIL
    anchor: Anchor = Anchor.INSTANCE
    removal_margin: timedelta = timedelta(seconds=90)
    charges_tolerance_usd: Decimal = Decimal(10)
    committed: tuple[CommittedNodes, ...] = ()

    def committed_to(self, pool: str, at: datetime) -> CommittedNodes | None:
        """The commitment of *pool* (an id) that is in force at *at*."""
        return next((c for c in self.committed if c.pool == pool and c.since <= at < c.until), None)

    def committed_nodes(self, pool: str, now: datetime) -> int:
        """How many nodes of *pool* (an id) are paid for in the paid unit that begins next, whichever node's it is."""
        committed = self.committed_to(pool, now + self.granularity)
        return committed.nodes if committed is not None else 0

    def beyond(self, pool: str, nodes: int, now: datetime) -> int:
        """How many of *nodes* nodes of *pool* (an id) cost its price in the paid unit that begins next."""
        return max(0, nodes - self.committed_nodes(pool, now)) if self.committed else nodes

    @property
    def by_the_hour(self) -> bool:
        """True when an idle node is free until its paid unit ends, so that removal is timed to that."""
        return self.granularity > timedelta(seconds=1)


class Scope(StrEnum):
    """What a budget is for."""

    ACCOUNT = "account"  # everything that the Civo account is charged for
    CLUSTER = "cluster"  # the nodes of the configured pools
    POOL = "pool"
    TEAM = "team"  # by the label of the workloads that a node is bought for


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOut:
    """Where the budget hold keeps new work out: by a ResourceQuota, or the stop policy of Kueue's queues."""

    namespaces: tuple[str, ...] = ()
    cluster_queues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargePrice:
    """What a charge of one code costs: USD per hour, or per GB and hour; exactly one of the two is given."""

    usd_per_hour: Decimal | None = None
    usd_per_gb_hour: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """The operator's statement of what *month* (like ``2026-11``) had cost: *usd* up to when it is first read."""

    month: str
    usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The allowances of a month of *timezone* in USD: the cluster's, the whole account's, those of *teams*; pools carry
    their own. The *_at* fields are ratios 0-1 of each. Between the hold line and the stop line, nodes are bought only
    for workloads of the *passing* priority classes.
    """

    monthly_usd: Decimal
    timezone: str = "UTC"
    warn_at: Decimal = Decimal("0.5")
    hold_at: Decimal = Decimal("0.8")
    stop_at: Decimal = Decimal("1.0")
    account_usd: Decimal | None = None
    teams: Mapping[str, Decimal] = field(default_factory=dict)
    passing: frozenset[str] = frozenset()
    keep_out: KeepOut = field(default_factory=KeepOut)
    stated: Stated | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetChange:
    """An allowance that an operator set at run time for one *month* (``2026-11``); None restores the configured one.

    *name* is a pool's id or a team's name, empty for cluster and account.
    """

    scope: Scope
    name: str
    month: str
    monthly_usd: Decimal | None
    who: str
    why: str
    at: datetime


class Unallocated(StrEnum):
    """Whose the cost is of what no workload held."""

    SEPARATE = "separate"  # no team's
    SHARE = "share"  # everyone's who held something, in proportion


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The pod labels that identify the owner of a workload, and whose the cost of unallocated time is in reports."""

    team: str = "team"
    project: str = "project"
    workload_class: str = "workload-class"
    environment: str = "environment"
    cost_center: str = "cost-center"
    unallocated: Unallocated = Unallocated.SEPARATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds over all pools together: GPUs that may exist, nodes bought and removed per hour."""

    max_gpus: int | None = None
    max_growth_per_hour: int | None = None
    max_removals_per_hour: int | None = None


class Fallback(StrEnum):
    """What may still grow pools while Prometheus is silent."""

    NONE = "none"
    KUBERNETES = "kubernetes"


class Objective(StrEnum):
    """Which goes first where cost and wait conflict (docs/how-it-decides.md)."""

    COST = "cost"
    BALANCED = "balanced"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepUntil:
    """Which ``gpu-autoscaler.io/keep-until`` annotations are honoured: of pods in *namespaces*, at most *longest*
    ahead."""

    namespaces: frozenset[str] = frozenset()
    longest: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long after its creation work may start, where it does not say so itself: the first of its priority class,
    team and namespace that is listed. *longest* limits what work declares. No node is bought for work of a priority
    below *lowest_priority*."""

    priority_classes: Mapping[str, timedelta] = field(default_factory=dict)
    teams: Mapping[str, timedelta] = field(default_factory=dict)
    namespaces: Mapping[str, timedelta] = field(default_factory=dict)
    longest: timedelta = timedelta(days=7)
    lowest_priority: int = -10


class IdleAction(StrEnum):
    """What is done about a workload that has been idle for too long."""

    TELL = "tell"
    SCALE_TO_ZERO = "scale_to_zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePolicy:
    """What is done about workloads that are idle for longer than *after*, if their pods do not say so themselves: those
    in *namespaces* (``*``: all), and those of *priority_classes*."""

    namespaces: frozenset[str] = frozenset()
    priority_classes: frozenset[str] = frozenset()
    after: timedelta = timedelta(hours=2)
    action: IdleAction = IdleAction.TELL


@dataclass(frozen=True, kw_only=True)  # without slots, for what is cached
class Policy:
    """The whole configuration of decisions.

    *unknown_after* is how long a node may be neither busy nor idle, *queue_wait* how long a GPU pod of a priority class
    may wait, and *idle_cost_usd_per_hour* what idle GPUs may cost, before a message is sent. *gpu_kinds* names the kind
    of GPU by Civo size, *gpu_prices* the lowest listed price of a GPU-hour of each kind in USD, *charge_prices* those
    of the account's charges by code. *startup_taints* are prefixes of the taints of a node until it is set up,
    *sick_conditions* types of conditions that a node has while its GPUs are sick.
    """

    pools: tuple[Pool, ...]
    objective: Objective = Objective.BALANCED
    budget: Budget | None = None
    billing: Billing = field(default_factory=Billing)
    packing: Packing = Packing.FILL
    limits: Limits = field(default_factory=Limits)
    fallback: Fallback = Fallback.NONE
    heartbeat_interval: timedelta = timedelta(minutes=1)
    unknown_after: timedelta = timedelta(minutes=15)
    idle_shutdown_grace: timedelta = timedelta(minutes=15)
    idle: IdlePolicy = field(default_factory=IdlePolicy)
    keep_until: KeepUntil = field(default_factory=KeepUntil)
    longest_override: timedelta = timedelta(days=7)
    attribution: Attribution = field(default_factory=Attribution)
    gpu_kinds: Mapping[str, str] = field(default_factory=dict)
    reports: ReportPolicy = field(default_factory=ReportPolicy)
    gpu_prices: Mapping[str, Decimal] = field(default_factory=dict)
    charge_prices: Mapping[str, ChargePrice] = field(default_factory=dict)
    queue_wait: Mapping[str, timedelta] = field(default_factory=lambda: dict(QUEUE_WAIT))
    idle_cost_usd_per_hour: Decimal = Decimal(5)
    startup_taints: tuple[str, ...] = STARTUP_TAINTS
    sick_conditions: tuple[str, ...] = ()
    patience: Patience = field(default_factory=Patience)

    @property
    def timezone(self) -> str:
        """The zone of the calendar months that budgets and reports use."""
        return self.budget.timezone if self.budget else "UTC"

    def pool(self, name_or_id: str) -> Pool | None:
        """Return the pool with this name or id, or None."""
        return self._by_name.get(name_or_id)

    @cached_property
    def _by_name(self) -> Mapping[str, Pool]:
        return {key: pool for pool in reversed(self.pools) for key in (pool.name, pool.id)}

    @cached_property
    def kinds_of_pools(self) -> tuple[Pool, ...]:
        """One pool of each kind: the same resources, taints and price, and none or all of them may have nodes."""
        kinds = {}
        for p in reversed(self.pools):
            kind = frozenset(p.resources.items()), frozenset(p.taints), p.price_usd_per_hour, bool(p.max_nodes)
            kinds[kind] = p
        return tuple(kinds.values())


def longest_waits(policy: Policy) -> Mapping[str, timedelta]:
    """How long a pod of each priority class may wait before a message is sent: what it may wait by itself comes on
    top."""
    waits = dict(policy.queue_wait)
    for name, patience in policy.patience.priority_classes.items():
        waits[name] = waits.get(name, USUAL_WAIT) + patience
    return waits
