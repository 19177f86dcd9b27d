"""Budget, billing and limits as the configuration file says them.

The text below a field is its row in docs/configuration.md (`python -m tools.configuration_page`).
"""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field

from receiver.config.mistakes import (
    Duration,
    LabelValue,
    Money,
    Month,
    ObjectName,
    Period,
    Ratio,
    Text,
    Whole,
    Zone,
    one_of,
)
from receiver.config.section import Section
from receiver.core.model.policy import Anchor, Rounding


class StatedSpec(Section):
    """What a month had cost, as the operator says."""

    month: Month
    """the month that the amount is about; in any other it says nothing"""
    usd: Money
    """what that month has cost up to now, living nodes included"""


class HoldSpec(Section):
    """Where new work is kept out while the budget hold lasts."""

    namespaces: tuple[ObjectName, ...] = ()
    """the namespaces where a ResourceQuota of ours keeps new GPU pods out while the cluster or the account is beyond
    its hold line"""
    kueue_cluster_queues: tuple[ObjectName, ...] = ()
    """the ClusterQueues of Kueue that are put on Hold for as long"""


class BudgetSpec(Section):
    """A month's allowance."""

    monthly_usd: Money
    """the allowance of a calendar month; 0 buys nothing"""
    timezone: Zone = "UTC"
    """where the month begins and ends"""
    warn_at: Ratio = Decimal("0.5")
    """share of the allowance from which people are told"""
    hold_at: Ratio = Decimal("0.8")
    """share from which no pool grows, but for passing classes"""
    stop_at: Ratio = Decimal("1.0")
    """share from which nothing grows, nodes are closed to new work and no empty node enters another paid hour"""
    spent_usd_stated: StatedSpec | None = None
    account_usd: Money | None = None
    """the allowance of the whole Civo account, at least `monthly_usd`. While its charges are not known nothing grows"""
    teams: dict[LabelValue, Money] = Field(default_factory=dict)
    """what each team may spend in a month, by the pod label that `attribution.team` names; at most `monthly_usd`"""
    passing_priority_classes: tuple[Text, ...] = ()
    """PriorityClasses; workloads of which every pod has one of them are bought for until the stop line"""
    hold: HoldSpec = HoldSpec()


class BillingSpec(Section):
    """How the cloud charges."""

    granularity: Period = timedelta(hours=1)
    """one paid unit; `1s` for billing by the second, then `idle_for` alone times removals"""
    rounding: Annotated[Rounding, BeforeValidator(one_of(Rounding))] = Rounding.CEIL
    """whether a started unit is paid, or only whole ones and at least one"""
    anchor: Annotated[Anchor, BeforeValidator(one_of(Anchor))] = Anchor.INSTANCE
    """whether units begin at a node's creation or on the clock"""
    removal_margin: Duration = timedelta(seconds=90)
    """how long before its next paid unit an idle node may go; less than `granularity`"""
    charges_tolerance_usd: Money = Decimal(10)
    """how far Civo's charges and our ledger may differ, per size and month, before [people are
    told](operations.md#the-ledger-differs-from-civos-charges)"""


class LimitsSpec(Section):
    """Bounds over all pools together."""

    max_gpus: Whole | None = None
    """GPUs that may exist at once"""
    max_growth_per_hour: Whole | None = None
    """nodes that may be bought in an hour"""
    max_removals_per_hour: Whole | None = None
    """nodes that may be removed in an hour"""
