"""The configuration file as written, key by key (docs/configuration.md explains each)."""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from receiver.config.fields import (
    Address,
    Celsius,
    Duration,
    Flag,
    GpuResource,
    Identifier,
    LabelKey,
    LabelValue,
    LongerThanZero,
    Money,
    Month,
    ObjectName,
    Period,
    PoolName,
    Ratio,
    TaintEffect,
    Text,
    Tick,
    Units,
    Whole,
    Zone,
    one_of,
)
from receiver.config.published import PublicAddress
from receiver.config.reports import ReportsSpec
from receiver.config.schedule import WindowSpec
from receiver.core.policy import QUEUE_WAIT, Anchor, Fallback, Rounding


class Mode(StrEnum):
    """Whether the receiver writes to Civo and the cluster, or only says what it would do."""

    OBSERVE = "observe"
    ACT = "act"


class Section(BaseModel):
    """A mapping of the file: unknown keys are mistakes, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Prometheus(Section):
    """Where to ask for metrics; anything that speaks Prometheus' HTTP API."""

    url: Address | None = None


class Alertmanager(Section):
    """Where to ask for alerts and silences: every peer of a cluster."""

    urls: tuple[Address, ...] = ()


class Kubernetes(Section):
    """Whether to look at the cluster's nodes and pods; without it nothing is ever removed."""

    enabled: Flag = True


class Webhook(Section):
    """What one delivery may be."""

    max_bytes: Units = 4 * 1024 * 1024


class Reading(StrEnum):
    """Who may read pages and API: whoever reaches the port, or who has the reader's or the operator's token."""

    OPEN = "open"
    TOKEN = "token"  # noqa: S105 (the word of the file, no secret)


class WebSpec(Section):
    """Who may read the pages and GET /api."""

    reading: Annotated[Reading, BeforeValidator(one_of(Reading))] = Reading.OPEN


class StatedSpec(Section):
    """What a month had cost, as the operator says."""

    month: Month
    usd: Money


class HoldSpec(Section):
    """Where new work is kept out while the budget hold lasts."""

    namespaces: tuple[ObjectName, ...] = ()
    kueue_cluster_queues: tuple[ObjectName, ...] = ()


class BudgetSpec(Section):
    """A month's allowance."""

    monthly_usd: Money
    timezone: Zone = "UTC"
    warn_at: Ratio = Decimal("0.5")
    hold_at: Ratio = Decimal("0.8")
    stop_at: Ratio = Decimal("1.0")
    spent_usd_stated: StatedSpec | None = None
    account_usd: Money | None = None
    teams: dict[LabelValue, Money] = Field(default_factory=dict)
    passing_priority_classes: tuple[Text, ...] = ()
    hold: HoldSpec = HoldSpec()


class BillingSpec(Section):
    """How the cloud charges."""

    granularity: Period = timedelta(hours=1)
    rounding: Annotated[Rounding, BeforeValidator(one_of(Rounding))] = Rounding.CEIL
    anchor: Annotated[Anchor, BeforeValidator(one_of(Anchor))] = Anchor.INSTANCE
    removal_margin: Duration = timedelta(minutes=5)
    charges_tolerance_usd: Money = Decimal(10)


class LimitsSpec(Section):
    """Bounds over all pools together."""

    max_gpus: Whole | None = None
    max_growth_per_hour: Whole | None = None
    max_removals_per_hour: Whole | None = None


class Attribution(Section):
    """Which pod labels say whose a workload is."""

    team: LabelKey = "team"
    project: LabelKey = "project"
    workload_class: LabelKey = "workload-class"
    environment: LabelKey = "environment"
    cost_center: LabelKey = "cost-center"


class TaintSpec(Section):
    """A taint of a pool's nodes."""

    key: LabelKey
    value: LabelValue = ""
    effect: TaintEffect = "NoSchedule"


class Cooldown(Section):
    """How long a pool rests after a change before the next one of that direction."""

    grow: Duration = timedelta(seconds=30)
    shrink: Duration = timedelta(minutes=5)


class Utilization(Section):
    """Above *high* a pool is busy, below *low* it may shrink; people hear of work below *underutilized* and *idle*."""

    high: Ratio = Decimal("0.70")
    low: Ratio = Decimal("0.50")
    underutilized: Ratio = Decimal("0.20")
    idle: Ratio = Decimal("0.05")


class QueueDemand(StrEnum):
    """What of Kueue's work counts as demand: the pods of admitted workloads, or queued workloads too."""

    ADMITTED = "admitted"
    QUEUED = "queued"


class GroupDemand(StrEnum):
    """What of Volcano's work counts as demand: pods that exist, or pending PodGroups without pods too."""

    PODS = "pods"
    PODGROUPS = "podgroups"


class Kueue(Section):
    """How Kueue's queue is read."""

    demand: Annotated[QueueDemand, BeforeValidator(one_of(QueueDemand))] = QueueDemand.ADMITTED


class Volcano(Section):
    """How Volcano's queue is read."""

    demand: Annotated[GroupDemand, BeforeValidator(one_of(GroupDemand))] = GroupDemand.PODS


class KeepUntilSpec(Section):
    """Whose ``gpu-autoscaler.io/keep-until`` is honoured."""

    namespaces: tuple[Text, ...] = ()
    longest: LongerThanZero = timedelta(days=7)


class OverridesSpec(Section):
    """What people may say for a while."""

    longest: LongerThanZero = timedelta(days=7)


class IdleShutdown(Section):
    """What happens before a workload that asked for it is scaled to zero."""

    grace: Duration = timedelta(minutes=15)


class PoolSpec(Section):
    """A Civo node pool that we may resize."""

    name: PoolName
    civo_pool_id: Identifier
    size: Identifier
    resources: dict[GpuResource, Units]
    max_nodes: Whole
    price_usd_per_hour: Money | None = None
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    taints: tuple[TaintSpec, ...] = ()
    min_nodes: Whole = 0
    standby_nodes: Whole = 0
    cooldown: Cooldown = Cooldown()
    utilization: Utilization = Utilization()
    temperature_celsius: Celsius = 85
    idle_for: LongerThanZero = timedelta(minutes=10)
    provision_timeout: LongerThanZero = timedelta(minutes=20)
    apply_to_nodes: Flag = False
    windows: tuple[WindowSpec, ...] = ()
    budget_usd: Money | None = None

    @property
    def gpus_per_node(self) -> int:
        """GPUs, MIG slices or time-sliced replicas that one node offers."""
        return sum(self.resources.values())


class Configuration(Section):
    """The whole file."""

    mode: Annotated[Mode, BeforeValidator(one_of(Mode))] = Mode.OBSERVE
    tick: Tick = timedelta(seconds=10)
    heartbeat_interval: Period = timedelta(minutes=1)
    fallback: Annotated[Fallback, BeforeValidator(one_of(Fallback))] = Fallback.NONE
    prometheus: Prometheus = Prometheus()
    alertmanager: Alertmanager = Alertmanager()
    kubernetes: Kubernetes = Kubernetes()
    webhook: Webhook = Webhook()
    web: WebSpec = WebSpec()
    budget: BudgetSpec | None = None
    billing: BillingSpec = BillingSpec()
    limits: LimitsSpec = LimitsSpec()
    attribution: Attribution = Attribution()
    prices_file: Text | None = None
    public_url: PublicAddress | None = None
    docs_url: PublicAddress | None = None
    unknown_after: LongerThanZero = timedelta(minutes=15)
    kueue: Kueue = Kueue()
    volcano: Volcano = Volcano()
    queue_wait: dict[ObjectName, LongerThanZero] = Field(default_factory=lambda: dict(QUEUE_WAIT))
    idle_cost_usd_per_hour: Money = Decimal(5)
    idle_shutdown: IdleShutdown = IdleShutdown()
    keep_until: KeepUntilSpec = KeepUntilSpec()
    overrides: OverridesSpec = OverridesSpec()
    reports: ReportsSpec = ReportsSpec()
    pools: tuple[PoolSpec, ...]
