"""The configuration file, key by key.

The text below a field is its row in docs/configuration.md (`make generate`); the example in a
required field is shown when it is missing.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from receiver.config import values
from receiver.config.notify import NotifySpec
from receiver.config.pools import PoolSpec
from receiver.config.prices import EIGHT_GPUS, insane
from receiver.config.values import Section, Wrong, duration, spell, text
from receiver.config.web import WebSpec
from receiver.core.model.pods import KeepRule
from receiver.core.model.policy import (
    QUEUE_WAIT,
    Anchor,
    Fallback,
    IdleAction,
    Objective,
    Packing,
    Rounding,
    Unallocated,
)
from receiver.core.model.signals import GROUP_INTERVAL, REPEAT_INTERVAL, payload_life
from receiver.core.model.text import lasting

CONNECT_SECONDS = 5.0
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_FIXED_RANGE = re.compile(r"\[\s*(\d[0-9a-z]*)\s*(?::[^\]]*)?\]")  # of a range selector or a subquery
_A_DAY = timedelta(days=1)


class Mode(StrEnum):
    """Whether the autoscaler writes to Civo and the cluster, or only reports what it would do."""

    OBSERVE = "observe"
    ACT = "act"


class Prometheus(Section):
    url: values.Address | None = None
    """a server with Prometheus' HTTP API; its URL may have a user and a password, while a bearer token or tenant header
    needs a proxy in front. Without it nothing is removed"""


class Alertmanager(Section):
    urls: tuple[values.Address, ...] = ()
    """every peer; without them silences are not seen"""
    repeat_interval: values.LongerThanZero = REPEAT_INTERVAL
    """the longest `repeat_interval` of the routes to the autoscaler; too short a value ends a `freeze` that still
    fires"""
    group_interval: values.LongerThanZero = GROUP_INTERVAL
    """their longest `group_interval`"""

    @property
    def payload_life(self) -> timedelta:
        """How long an alert counts after its last delivery while the API does not answer."""
        return payload_life(self.repeat_interval, self.group_interval)


class Kubernetes(Section):
    enabled: bool = True
    """with `false` no node is ever removed"""
    watch: bool = True
    """[watch](how-it-decides.md#one-step) the cluster and act at once; `false` lists at every
    step"""
    startup_taints: tuple[values.TaintPrefix, ...] = ()
    """prefixes of further [startup taints](how-it-decides.md#startup-taints)"""
    sick_conditions: tuple[values.LabelKey, ...] = ()
    """node conditions that mean [sick GPUs](how-it-decides.md#sick-nodes)"""
    keep_nodes_for: tuple[KeepRule, ...] = (KeepRule.UNMANAGED, KeepRule.KUBE_SYSTEM)
    """which pods without a GPU [keep their node](how-it-decides.md#what-drains-and-what-keeps-a-node)"""
    capacity_buffers: bool = True
    """serve [CapacityBuffers](workloads.md#capacity-buffers) of GPU pods"""
    best_effort_atomic: bool = False
    """also serve ProvisioningRequests of class `best-effort-atomic-scale-up.autoscaling.x-k8s.io`"""


class Webhook(Section):
    max_bytes: values.DeliveryBytes = 16 * 1024 * 1024
    """the largest accepted delivery, in bytes"""


class StatedSpec(Section):
    month: values.Month = Field(examples=["the month, such as month: 2026-11"])
    """the month of the amount"""
    usd: values.Money = Field(examples=["what the month has cost so far, such as usd: 1200"])
    """its cost so far, without Civo's charges after a [lost store](operations.md#a-new-or-lost-store)"""


class HoldSpec(Section):
    namespaces: tuple[values.ObjectName, ...] = ()
    """where a ResourceQuota keeps new GPU pods out above the hold line"""
    kueue_cluster_queues: tuple[values.ObjectName, ...] = ()
    """ClusterQueues that are put on Hold meanwhile"""


class BudgetSpec(Section):
    monthly_usd: values.Money = Field(
        examples=["the month's allowance, such as monthly_usd: 5000, or remove budget", "999999999999"]
    )
    """the allowance of a calendar month; 0 buys nothing"""
    timezone: values.Zone = "UTC"
    """the time zone of the month, and of times in pages and messages"""
    warn_at: values.Ratio = Decimal("0.5")
    """share from which messages are sent"""
    hold_at: values.Ratio = Decimal("0.8")
    """share from which no pool grows"""
    stop_at: values.Ratio = Decimal("1.0")
    """share from which nodes are cordoned, and idle nodes removed before their next paid hour"""
    spent_usd_stated: StatedSpec | None = None
    account_usd: values.Money | None = None
    """the allowance of the whole Civo account; nothing grows while its charges are unknown"""
    teams: dict[values.LabelValue, values.Money] = Field(default_factory=dict)
    """each team's allowance, by the pod label in `attribution.team`"""
    passing_priority_classes: tuple[values.Text, ...] = ()
    """PriorityClasses whose workloads may cause growth up to the stop line"""
    hold: HoldSpec = HoldSpec()

    def contradictions(self) -> Iterator[Wrong]:
        if self.warn_at >= self.hold_at:
            yield Wrong(f"must be below hold_at ({self.hold_at})", "lower warn_at or raise hold_at", ("warn_at",))
        if self.hold_at > self.stop_at:
            yield Wrong(f"must not be above stop_at ({self.stop_at})", "lower hold_at or raise stop_at", ("hold_at",))
        for team, usd in self.teams.items():
            if not team:
                yield Wrong("has no name", "write the value of the team label of pods", ("teams", team))
            if usd > self.monthly_usd:
                problem = f"must not be above monthly_usd ({self.monthly_usd})"
                yield Wrong(problem, "lower it or raise monthly_usd", ("teams", team))
        if self.account_usd is not None and self.account_usd < self.monthly_usd:
            problem = f"must not be below monthly_usd ({self.monthly_usd}): the account includes the cluster"
            yield Wrong(problem, "raise account_usd or lower monthly_usd", ("account_usd",))
        if len(set(self.passing_priority_classes)) < len(self.passing_priority_classes):
            yield Wrong("names a class twice", "name each class once", ("passing_priority_classes",))


class BillingSpec(Section):
    granularity: values.Period = timedelta(hours=1)
    """one paid unit"""
    rounding: Rounding = Rounding.CEIL
    """pay started units, or whole ones and at least one"""
    anchor: Anchor = Anchor.INSTANCE
    """units begin at a node's creation, or on the clock"""
    removal_margin: values.Duration = timedelta(seconds=90)
    """how long before its next paid unit an idle node may be removed"""
    charges_tolerance_usd: values.Money = Decimal(10)
    """difference between Civo's charges and the ledger from which [a message is
    sent](operations.md#the-ledger-differs-from-civos-charges)"""

    def contradictions(self) -> Iterator[Wrong]:
        # Billing by the second has no paid hour to wait for, and the margin is not used.
        if self.granularity > timedelta(seconds=1) and self.removal_margin >= self.granularity:
            remedy = "lower removal_margin or raise granularity"
            yield Wrong("must be shorter than granularity", remedy, ("removal_margin",))


class LimitsSpec(Section):
    max_gpus: values.Whole | None = None
    """GPUs at once"""
    max_growth_per_hour: values.Whole | None = None
    """nodes bought in an hour"""
    max_removals_per_hour: values.Whole | None = None
    """nodes removed in an hour"""


class AttributionSection(Section):
    team: values.LabelKey = "team"
    """the team, for costs and budgets"""
    project: values.LabelKey = "project"
    """the project"""
    workload_class: values.LabelKey = "workload-class"
    """training, inference, notebook"""
    environment: values.LabelKey = "environment"
    """production, staging"""
    cost_center: values.LabelKey = "cost-center"
    """the cost center"""
    unallocated: Unallocated = Unallocated.SEPARATE
    """`share` adds what no workload held [to the teams' costs](costs.md#unallocated-cost); budgets do not count it"""


class QueueDemand(StrEnum):
    """Which work of Kueue is demand: the pods of admitted workloads, or queued workloads too."""

    ADMITTED = "admitted"
    QUEUED = "queued"


class GroupDemand(StrEnum):
    """Which work of Volcano is demand: existing pods, or pending PodGroups without pods too."""

    PODS = "pods"
    PODGROUPS = "podgroups"


class Kueue(Section):
    demand: QueueDemand = QueueDemand.ADMITTED
    """`queued` also counts Workloads that wait for quota"""


class Volcano(Section):
    demand: GroupDemand = GroupDemand.PODS
    """`podgroups` also counts pending PodGroups without pods"""


class KeepUntilSpec(Section):
    namespaces: tuple[values.Text, ...] = ()
    """where the annotation `gpu-autoscaler.io/keep-until` [keeps the node](operations.md#keep-a-node-for-a-while)"""
    longest: values.LongerThanZero = timedelta(days=7)
    """how far ahead that time may be"""


class PatienceSpec(Section):
    priority_classes: dict[values.ObjectName, values.LongerThanZero] = Field(default_factory=dict)
    """how long pods of these PriorityClasses [may wait](how-it-decides.md#work-that-may-wait) for a GPU that is paid
    for"""
    teams: dict[values.LabelValue, values.LongerThanZero] = Field(default_factory=dict)
    """the same for teams"""
    namespaces: dict[values.ObjectName, values.LongerThanZero] = Field(default_factory=dict)
    """the same for namespaces"""
    longest: values.LongerThanZero = timedelta(days=7)
    """the longest time of `gpu-autoscaler.io/may-wait`"""
    lowest_priority: values.Priority = -10
    """no node is bought for pods of a lower priority"""


class OverridesSpec(Section):
    longest: values.LongerThanZero = timedelta(days=7)
    """how far ahead an override may end"""


class IdleShutdown(Section):
    grace: values.Duration = timedelta(minutes=15)
    """time between notice and shutdown"""
    covers: tuple[values.NamespaceOrClass, ...] = ()
    """workloads to which `after` and `action` apply without the annotation: `namespace/NAME`, `namespace/*` for all,
    `priorityclass/NAME`. [Production classes](how-it-decides.md#idle-workloads) only where they are named"""
    after: values.LongerThanZero = timedelta(hours=2)
    """how long they may be idle"""
    action: IdleAction = IdleAction.TELL
    """`tell` sends a message; `scale_to_zero` also ends Deployments, StatefulSets and ReplicaSets after the grace"""

    def named(self, kind: str) -> frozenset[str]:
        """Return the names of one *kind* that are covered."""
        return frozenset(entry.removeprefix(f"{kind}/") for entry in self.covers if entry.startswith(f"{kind}/"))


class LeaderSpec(Section):
    lease: values.LongerThanZero = timedelta(seconds=15)
    """how long the leader of [several replicas](operations.md#several-replicas) leads without the database; at least
    1.5 times `write_timeout`"""
    write_timeout: values.LongerThanZero = timedelta(seconds=10)
    """timeout of a call that changes something"""
    call_timeout: values.LongerThanZero = timedelta(seconds=30)
    """timeout of other calls"""

    @property
    def timeouts(self) -> tuple[float, float]:
        """Seconds to connect, and to wait for an answer."""
        waits = self.call_timeout.total_seconds()
        return min(CONNECT_SECONDS, waits), waits

    @property
    def longest_call(self) -> timedelta:
        return timedelta(seconds=sum(self.timeouts))

    @property
    def longest_write(self) -> timedelta:
        return min(self.write_timeout, self.longest_call)

    def contradictions(self) -> Iterator[Wrong]:
        least = 1.5 * self.longest_write.total_seconds()  # a shorter lease would be renewed too late for most writes
        if self.lease.total_seconds() < least:
            problem = f"must be at least {least:g}s: one and a half times write_timeout"
            yield Wrong(problem, "raise lease or lower write_timeout", ("lease",))


def monthly_query(value: object) -> str:
    """Return a query that counts a month; raise Wrong for a fixed range that reaches into the month before."""
    query = text(value)
    for fixed in _FIXED_RANGE.findall(_QUOTED.sub("", query)):
        try:
            is_long = duration(fixed) > _A_DAY
        except Wrong:  # more than a year, or something that Prometheus refuses
            is_long = True
        if is_long:
            problem = f"its range [{fixed}] reaches into the month before while the month is young, and counts that too"
            raise Wrong(problem, "write [$range], the time since the month began")
    return query


class UnitScope(Section):
    team: values.Text | None = None
    """count only this team's cost"""
    project: values.Text | None = None
    """only this project's"""
    workload_class: values.Text | None = None
    """only this workload class's"""
    environment: values.Text | None = None
    """only this environment's"""
    cost_center: values.Text | None = None
    """only this cost center's"""
    namespace: values.Text | None = None
    """only this namespace's"""


class UnitSpec(Section):
    name: values.Text = Field(examples=["a short name, such as name: epoch"])
    """a unit of work, such as `epoch`"""
    query: Annotated[str, BeforeValidator(monthly_query)] = Field(
        examples=["the PromQL that counts it, such as query: sum(increase(epochs_total[$range]))"]
    )
    """counts a month's units; [`$range`](costs.md#cost-per-unit-of-work) is the time since the month began"""
    per: values.Units = 1
    """show the cost of so many"""
    only: UnitScope = UnitScope()


class CommitmentSpec(Section):
    size: values.Identifier = Field(examples=["Civo's size, such as size: an.g1.l40s.kube.x1"])
    """a size with an offer of committed capacity"""
    term_months: values.Units = Field(examples=["the months of the commitment, such as term_months: 12"])
    """its length"""
    usd_per_hour: values.Money = Field(examples=["the price of one node-hour in USD"])
    """of a node, all GPUs together"""

    def contradictions(self) -> Iterator[Wrong]:
        yield from insane(self.usd_per_hour, EIGHT_GPUS, ("usd_per_hour",))


class MonthlySpec(Section):
    everybody: bool = False
    """send the report on all teams after each month"""
    teams: tuple[values.Text, ...] = ()
    """send each of these teams its own"""


class ReportsSpec(Section):
    efficiency_target: values.Ratio = Decimal("0.70")
    """what efficiency is compared with"""
    units: tuple[UnitSpec, ...] = ()
    commitments: tuple[CommitmentSpec, ...] = ()
    monthly: MonthlySpec = MonthlySpec()

    def contradictions(self) -> Iterator[Wrong]:
        names = [unit.name for unit in self.units]
        offers = [f"{offer.size} for {offer.term_months} months" for offer in self.commitments]
        for key, last, words, remedy in (
            ("units", "name", names, "give each unit its own name"),
            ("commitments", "term_months", offers, "list each size and term once"),
        ):
            for index, word in enumerate(words):
                if word in words[:index]:
                    first = spell(("reports", key, words.index(word), last))
                    yield Wrong(f"{word} is already listed by {first}", remedy, (key, index, last))


class Configuration(Section):
    cluster_name: values.LabelValue = ""
    """what people call this cluster, in every message and page"""
    mode: Mode = Mode.OBSERVE
    """`observe` only reports what `act` would do"""
    objective: Objective = Objective.BALANCED
    """which goes first when [cost and wait conflict](how-it-decides.md#cost-and-wait)"""
    tick: values.Tick = timedelta(seconds=10)
    """the longest time between two steps"""
    warm_up: values.Duration = timedelta(minutes=1)
    """how long a new store only observes"""
    heartbeat_interval: values.Period = timedelta(minutes=1)
    """how often the heartbeat alert arrives; after three missed ones nothing is removed"""
    fallback: Fallback = Fallback.NONE
    """what may grow pools while Prometheus is down: nothing, or the pods that wait"""
    prometheus: Prometheus = Prometheus()
    alertmanager: Alertmanager = Alertmanager()
    kubernetes: Kubernetes = Kubernetes()
    webhook: Webhook = Webhook()
    web: WebSpec = WebSpec()
    budget: BudgetSpec | None = None
    billing: BillingSpec = BillingSpec()
    packing: Packing = Packing.FILL
    """`fill` taints nodes with room softly, so that others [become idle](how-it-decides.md#packing)"""
    limits: LimitsSpec = LimitsSpec()
    attribution: AttributionSection = AttributionSection()
    prices_file: values.Text | None = None
    """a file with [prices](#prices) that override the shipped ones; relative to this file"""
    public_url: values.PublicAddress | None = None
    """URL of the pages; without it messages have commands instead of links"""
    docs_url: values.PublicAddress | None = None
    """URL where `docs/` is published; else links lead to the server's `/docs`"""
    notify: NotifySpec = NotifySpec()
    unknown_after: values.LongerThanZero = timedelta(minutes=15)
    """how long a node may be neither busy nor idle before a message is sent"""
    kueue: Kueue = Kueue()
    volcano: Volcano = Volcano()
    queue_wait: dict[values.ObjectName, values.LongerThanZero] = Field(default_factory=lambda: dict(QUEUE_WAIT))
    """how long a GPU pod of a PriorityClass may wait before [GpuQueueWaitLong](runbooks/GpuQueueWaitLong.md) fires"""
    idle_cost_usd_per_hour: values.Money = Decimal(5)
    """what idle GPUs may cost an hour before [GpuIdleCostHigh](runbooks/GpuIdleCostHigh.md) fires"""
    idle_shutdown: IdleShutdown = IdleShutdown()
    keep_until: KeepUntilSpec = KeepUntilSpec()
    patience: PatienceSpec = PatienceSpec()
    overrides: OverridesSpec = OverridesSpec()
    reports: ReportsSpec = ReportsSpec()
    leader: LeaderSpec = LeaderSpec()
    pools: tuple[PoolSpec, ...] = Field(examples=["at least one pool with civo_pool_id and max_nodes"])

    @property
    def documents_url(self) -> str | None:
        """Where messages lead to for documentation; None where they can name no address."""
        return self.docs_url or (f"{self.public_url}/docs" if self.public_url else None)

    def contradictions(self) -> Iterator[Wrong]:
        if not self.pools:
            yield Wrong("is empty", "list at least one pool", ("pools",))
        yield from self._same_names()
        teams = (*(self.budget.teams if self.budget else ()), *self.reports.monthly.teams)
        pools = [word for pool in self.pools for word in (pool.name, pool.civo_pool_id)]
        yield from self.notify.unknown(pools, teams)
        for index, pool in enumerate(self.pools):
            yield from self._of_a_pool(pool, ("pools", index))

    def _same_names(self) -> Iterator[Wrong]:
        """Names and ids share one space: alerts, people and overrides may use either."""
        paths: dict[str, tuple[str | int, ...]] = {}
        for index, pool in enumerate(self.pools):
            for key, word in (("name", pool.name), ("civo_pool_id", pool.civo_pool_id)):
                path = ("pools", index, key)
                first = paths.setdefault(word, path)
                if first[1] != index:
                    remedy = "give each pool its own name" if key == "name" else "list each pool once"
                    yield Wrong(f'"{word}" is taken by {spell(first)}', remedy, path)

    def _of_a_pool(self, pool: PoolSpec, at: tuple[str | int, ...]) -> Iterator[Wrong]:
        usd = pool.budget_usd
        if usd is not None and self.budget is None:
            problem = "needs budget, which defines the month and its lines"
            yield Wrong(problem, "add budget with monthly_usd", (*at, "budget_usd"))
        elif usd is not None and self.budget is not None and usd > self.budget.monthly_usd:
            problem = f"must not be above budget.monthly_usd ({self.budget.monthly_usd})"
            yield Wrong(problem, "lower it or raise monthly_usd", (*at, "budget_usd"))
        # Idle nodes are removed shortly before a paid unit ends, so the question must fit into that unit.
        approval, billing = pool.approval, self.billing
        longest = billing.granularity - billing.removal_margin
        if approval and approval.removals and billing.granularity > timedelta(seconds=1) and approval.wait >= longest:
            yield Wrong(
                f"{lasting(approval.wait)} leaves no time to ask in a paid unit (granularity "
                f"{lasting(billing.granularity)}): idle nodes are removed {lasting(billing.removal_margin)} "
                "(removal_margin) before its end",
                f"write less than {lasting(longest)}",
                (*at, "approval", "wait"),
            )
