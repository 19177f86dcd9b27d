"""The configuration file as written, key by key.

The text below a field is its row in docs/configuration.md (`python -m tools.configuration_page` writes it there).
"""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from receiver.config.approval import ApprovalSpec
from receiver.config.environment import Webhook
from receiver.config.leader import LeaderSpec
from receiver.config.mistakes import (
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
    ObjectName,
    Period,
    PoolName,
    Ratio,
    TaintEffect,
    TaintPrefix,
    Text,
    Tick,
    Units,
    Whole,
    one_of,
)
from receiver.config.money import BillingSpec, BudgetSpec, LimitsSpec
from receiver.config.published import PublicAddress
from receiver.config.reports import ReportsSpec
from receiver.config.schedule import NotifySpec, WindowSpec
from receiver.config.section import Section
from receiver.core.model.pods import KeepRule
from receiver.core.model.policy import QUEUE_WAIT, STARTUP_TAINTS, Fallback, Objective, Packing
from receiver.core.model.signals import GROUP_INTERVAL, REPEAT_INTERVAL, payload_life


class Mode(StrEnum):
    """Whether the receiver writes to Civo and the cluster, or only says what it would do."""

    OBSERVE = "observe"
    ACT = "act"


class Prometheus(Section):
    """Where to ask for metrics; anything that speaks Prometheus' HTTP API."""

    url: Address | None = None
    """anything with Prometheus' HTTP API (Thanos, Mimir and VictoriaMetrics too); without it nothing is removed, and
    pools grow only with `fallback: kubernetes`"""


class Alertmanager(Section):
    """Where to ask for alerts and silences: every peer of a cluster."""

    urls: tuple[Address, ...] = ()
    """every peer, to read alerts and silences; without it remembered webhooks count, and silences are not seen"""
    repeat_interval: LongerThanZero = REPEAT_INTERVAL
    """the longest `repeat_interval` of the routes that lead here. While the API does not answer, or without `urls`, a
    delivered alert counts until it is resolved, and at most for twice this and a `group_interval`: too short a value
    ends a `freeze` that still fires. The routes of `rules/alertmanager.yml` have `2m`"""
    group_interval: LongerThanZero = GROUP_INTERVAL
    """the longest `group_interval` of those routes. The routes of `rules/alertmanager.yml` have `30s`"""

    @property
    def payload_life(self) -> timedelta:
        """How long an alert counts after its last delivery while the API does not say what fires."""
        return payload_life(self.repeat_interval, self.group_interval)


class Kubernetes(Section):
    """Whether to look at the cluster's nodes and pods; without it nothing is ever removed."""

    enabled: Flag = True
    """look at nodes and pods; `false` means that no node is ever removed"""
    watch: Flag = True
    """be woken by the API server when a GPU pod finds no room ([more](how-it-decides.md#what-wakes-it)); without it
    such a pod waits for its alert or for the next tick"""
    startup_taints: tuple[TaintPrefix, ...] = STARTUP_TAINTS
    """what the keys of [startup taints](how-it-decides.md#startup-taints) begin with: a node that carries one is on its
    way until it goes. A list of your own takes the place of this one"""
    keep_nodes_for: tuple[Annotated[KeepRule, BeforeValidator(one_of(KeepRule))], ...] = (
        KeepRule.UNMANAGED,
        KeepRule.KUBE_SYSTEM,
    )
    """pods without a GPU that keep their node, because draining it would lose them
    ([what drains and what keeps a node](how-it-decides.md#what-drains-and-what-keeps-a-node))"""


class ReadAccess(StrEnum):
    """Who may read pages and API: whoever reaches the port, or who has the reader's or the operator's token."""

    OPEN = "open"
    TOKEN = "token"  # noqa: S105 (the word of the file, no secret)


class WebSpec(Section):
    """Who may read the pages and GET /api."""

    reading: Annotated[ReadAccess, BeforeValidator(one_of(ReadAccess))] = ReadAccess.OPEN
    """who may read pages and API: whoever reaches the port, or who has the operator's or the reader's token
    ([more](operations.md#who-may-read-who-may-act))"""
    hosts: tuple[ObjectName, ...] = ()
    """the names under which people open the pages, beside that of `public_url`; addresses and names inside the cluster
    are always taken ([why](security.md#pages-and-api))"""


class AttributionSection(Section):
    """Which pod labels say whose a workload is."""

    team: LabelKey = "team"
    """the team that spend is counted for"""
    project: LabelKey = "project"
    """the project"""
    workload_class: LabelKey = "workload-class"
    """training, inference, notebook and so on"""
    environment: LabelKey = "environment"
    """production, staging and so on"""
    cost_center: LabelKey = "cost-center"
    """the cost center"""


class TaintSpec(Section):
    """A taint of a pool's nodes."""

    key: LabelKey
    """a taint that its nodes carry"""
    value: LabelValue = ""
    """the taint's value"""
    effect: TaintEffect = "NoSchedule"
    """the taint's effect"""


class Cooldown(Section):
    """How long a pool rests after a change before the next one of that direction."""

    grow: Duration = timedelta(seconds=5)
    """rest after a growth before the next one"""
    shrink: Duration = timedelta(minutes=5)
    """rest after a shrink before the next one; not used where billing is by the hour"""


class Utilization(Section):
    """Above *high* a pool is busy, below *low* it may shrink; people hear of work below *underutilized* and *idle*."""

    high: Ratio = Decimal("0.70")
    """above it the rules call the pool busy, and no pods are moved to empty a node"""
    low: Ratio = Decimal("0.50")
    """below it the rules call the pool underused; must be below `high`"""
    underutilized: Ratio = Decimal("0.20")
    """people are told of a workload whose hourly average stays below it for four hours"""
    idle: Ratio = Decimal("0.05")
    """a GPU that a pod held for an hour without rising above it counts as idle; must be below `underutilized`"""


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
    """`queued` also counts Kueue Workloads that wait for quota"""


class Volcano(Section):
    """How Volcano's queue is read."""

    demand: Annotated[GroupDemand, BeforeValidator(one_of(GroupDemand))] = GroupDemand.PODS
    """`podgroups` also counts pending Volcano PodGroups whose pods do not exist yet, up to their queue's capability"""


class KeepUntilSpec(Section):
    """Whose ``gpu-autoscaler.io/keep-until`` is honoured."""

    namespaces: tuple[Text, ...] = ()
    """the namespaces where the annotation `gpu-autoscaler.io/keep-until` (RFC 3339) on a pod puts its shutdown off,
    and [keeps its node](operations.md#keep-a-node-for-a-while)"""
    longest: LongerThanZero = timedelta(days=7)
    """how far ahead such a moment may lie"""


class OverridesSpec(Section):
    """What people may say for a while."""

    longest: LongerThanZero = timedelta(days=7)
    """how far ahead the end of an override may lie"""


class IdleShutdown(Section):
    """What happens before a workload that asked for it is scaled to zero."""

    grace: Duration = timedelta(minutes=15)
    """time between the notice and the shutdown"""


class PoolSpec(Section):
    """A Civo node pool that we may resize."""

    name: PoolName
    """what people call it"""
    civo_pool_id: Identifier
    """Civo's id: the node label `kubernetes.civo.com/civo-node-pool` and the alert label `pool`"""
    size: Identifier
    """Civo's size of its nodes; gives the price"""
    resources: dict[GpuResource, Units]
    """what one node offers: `nvidia.com/gpu`, `nvidia.com/gpu.shared` (time-sliced replicas) or `nvidia.com/mig-...`"""
    max_nodes: Whole
    """never more nodes than this, whatever asks for them; 0 keeps the pool empty"""
    price_usd_per_hour: Money | None = None
    """the price of a node-hour; goes before every price file"""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """labels that its nodes carry, so that demand can be matched while it has none"""
    taints: tuple[TaintSpec, ...] = ()
    min_nodes: Whole = 0
    """never fewer nodes than this, except where a ceiling or the budget says so"""
    standby_nodes: Whole = 0
    """idle nodes kept ready for the next workload"""
    cooldown: Cooldown = Cooldown()
    utilization: Utilization = Utilization()
    temperature_celsius: Celsius = 85
    """people are told of a GPU that is hotter for five minutes"""
    idle_for: LongerThanZero = timedelta(minutes=10)
    """how long a node must be idle before it may go; not used where billing is by the hour"""
    provision_timeout: LongerThanZero = timedelta(minutes=20)
    """how long a new node may take until its GPUs are allocatable, and how long a broken one may stay so; after that
    it is removed if nothing runs there, and the pool [tries one node at a time](guardrails.md#provisioning_works)"""
    apply_to_nodes: Flag = False
    """put `labels` and `taints` on nodes that Civo brought without them"""
    windows: tuple[WindowSpec, ...] = ()
    budget_usd: Money | None = None
    """the pool's own allowance of a month, at most `budget.monthly_usd`"""
    approval: ApprovalSpec | None = None

    @property
    def gpus_per_node(self) -> int:
        """GPUs, MIG slices or time-sliced replicas that one node offers."""
        return sum(self.resources.values())


class Configuration(Section):
    """The whole file."""

    mode: Annotated[Mode, BeforeValidator(one_of(Mode))] = Mode.OBSERVE
    """`act` writes to Civo and the cluster; `observe` only says what it would do"""
    objective: Annotated[Objective, BeforeValidator(one_of(Objective))] = Objective.BALANCED
    """what goes first where [cost and wait pull apart](how-it-decides.md#cost-and-wait): `cost` keeps nothing warm,
    `balanced` where pools of several node sizes pay for it, `wait` everywhere"""
    tick: Tick = timedelta(seconds=10)
    """how often a step runs when nothing wakes it; a webhook wakes it at once"""
    warm_up: Duration = timedelta(minutes=1)
    """how long a new store only looks: the first start on a cluster, or one whose database was lost, does as `observe`
    for so long"""
    heartbeat_interval: Period = timedelta(minutes=1)
    """how often the heartbeat alert arrives; after three missed ones nothing is removed"""
    fallback: Annotated[Fallback, BeforeValidator(one_of(Fallback))] = Fallback.NONE
    """what may still grow pools while Prometheus is down: nothing, or the pods that wait in Kubernetes"""
    prometheus: Prometheus = Prometheus()
    alertmanager: Alertmanager = Alertmanager()
    kubernetes: Kubernetes = Kubernetes()
    webhook: Webhook = Webhook()
    web: WebSpec = WebSpec()
    budget: BudgetSpec | None = None
    billing: BillingSpec = BillingSpec()
    packing: Annotated[Packing, BeforeValidator(one_of(Packing))] = Packing.FILL
    """`fill` puts soft taints (`PreferNoSchedule`) on nodes with room, so that pods join work that lasts before they
    spread to others and the others fall idle; `scheduler` puts none. See [Packing](how-it-decides.md#packing)"""
    limits: LimitsSpec = LimitsSpec()
    attribution: AttributionSection = AttributionSection()
    prices_file: Text | None = None
    """the path of a file with prices that go before ours, size by size; relative to this file; see [Prices](#prices)"""
    public_url: PublicAddress | None = None
    """where people reach our pages, such as `https://gpu.example.com`; a path before ours is fine, a password or a
    query is not. Messages link to decisions below it"""
    docs_url: PublicAddress | None = None
    """where `docs/` is published, such as `https://git.example.com/gpu/docs`; messages link to runbooks and other
    pages below it"""
    notify: NotifySpec = NotifySpec()
    unknown_after: LongerThanZero = timedelta(minutes=15)
    """how long a node may be neither busy nor idle (not Ready, GPUs lost, or used by something that Kubernetes does
    not know) before people are told"""
    kueue: Kueue = Kueue()
    volcano: Volcano = Volcano()
    queue_wait: dict[ObjectName, LongerThanZero] = Field(default_factory=lambda: dict(QUEUE_WAIT))
    """how long a GPU pod of a PriorityClass may wait before [GpuQueueWaitLong](runbooks/GpuQueueWaitLong.md) fires. A
    class that is not listed has 2h, and `production` 10m"""
    idle_cost_usd_per_hour: Money = Decimal(5)
    """what idle GPUs may cost an hour, on average over an hour, before [GpuIdleCostHigh](runbooks/GpuIdleCostHigh.md)
    fires"""
    idle_shutdown: IdleShutdown = IdleShutdown()
    keep_until: KeepUntilSpec = KeepUntilSpec()
    overrides: OverridesSpec = OverridesSpec()
    reports: ReportsSpec = ReportsSpec()
    leader: LeaderSpec = LeaderSpec()
    pools: tuple[PoolSpec, ...]
