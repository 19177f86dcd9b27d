"""What must hold whatever exception is planted, and which functions one exception takes from every pool."""

from campaigns.step_failures.planting import Whose
from campaigns.step_failures.table import Row

# What every pool shares: the store, the month's spend, the limits, and the loops over all pools. Without it nothing is
# changed in a step, and the next one tries again. A new module here is a new way for one bug to stop every pool.
SHARED = (
    "adapters/store/",
    "step/gather.py:",
    "step/asking.py:",
    "step/books.py:",
    "core/scaling/capacity.py:Allowance.__init__",
    "core/scaling/capacity.py:Allowance.mark",
    "core/scaling/capacity.py:Placement.whole",
    "core/scaling/assign.py:_assign",
    "core/scaling/assign.py:_begun",
    "core/scaling/assign.py:_serve",
    "core/scaling/assign.py:assign",
    "core/scaling/wanted.py:Draft.",
    "core/scaling/placing.py:_open_tallies",
    "core/scaling/placing.py:_serve_all",
    "core/scaling/placing.py:serve_demand",
    "core/scaling/failures.py:",
    "core/money/budget.py:",
    "core/model/flights.py:flights_of",
    "core/model/flights.py:may_have_landed",
    "core/model/flights.py:settle",
    "core/model/charges.py:",
    "core/money/cost.py:",
    "core/scaling/decide.py:decide_all",
    "core/scaling/demand.py:workloads",
    "core/scaling/spare.py:keep_warm",
    "core/scaling/market.py:LabelIndex.__init__",
    "core/scaling/market.py:Matching.__init__",
    "core/scaling/market.py:Matching._apart",
    "core/scaling/market.py:is_wide_beside",  # compares a pool with every other one
    "core/scaling/neighbours.py:Neighbours.of",  # which pods are beside each other, in whatever pools
    "core/scaling/neighbours.py:_every",
    "core/scaling/packing.py:movable",
    "capabilities/approvals/asking.py:_asks",
    "capabilities/approvals/asking.py:settle_requests",
    "capabilities/patience/waiting.py:Deadlines.__init__",
    "capabilities/patience/waiting.py:Deadlines.patient",
    "capabilities/patience/waiting.py:postpone",
    "core/model/pods.py:kept",
    "core/model/pods.py:owner_of",  # the name by which work is left out
    "core/model/model.py:Facts.",
    "core/model/model.py:PoolState.",
    "core/model/policy.py:Billing.",
    "core/model/policy.py:Policy.",
    "core/model/policy.py:Pool.gpus_per_node",
    "core/money/reconciliation.py:",
    "core/scaling/spare.py:refused",
    "core/scaling/waits.py:refused_counts",
    "core/model/signals.py:",
    "core/model/memory.py:bucket",
    "core/model/memory.py:passed",
    "core/model/memory.py:follows",
    "core/model/pods.py:gpus_in",
    "core/model/pods.py:allocatable",
    "core/model/pods.py:less",
    "core/model/pods.py:too_much",
    "core/model/pods.py:amount",
    "core/model/pods.py:_of_tiers",
    "core/model/pods.py:_short",
    "core/model/pods.py:gpus_of",
    "core/model/pods.py:_weight",
    "core/model/pods.py:_slice",
    "core/model/pods.py:_replicas",
    "core/model/usage.py:judge",
    "step/pool_states.py:_believed",
    "step/pool_states.py:is_recent",
    "step/pool_states.py:lives_of",
    "step/pool_states.py:with_nominations",
    "step/parts.py:Parts.",
    "step/reconcile.py:step",
    "step/settle.py:_close_actions",
    "step/settle.py:_end_overrides",
    "step/settle.py:_stop_removals",
    "step/settle.py:settle",
    "step/decide.py:decide",
    "step/record.py:record",
    "step/act.py:act",
    "step/act.py:_serve_pools",
    "step/pool_states.py:strays",
)


def is_shared(function: str) -> bool:
    """True where an exception in *function* takes the step from every pool."""
    return function.startswith(SHARED)


def never_met(rows: list[Row]) -> list[str]:
    """The functions whose exception was never raised."""
    return [str(row) for row in rows if not row.raised]


def not_served(rows: list[Row], of: Whose) -> list[str]:
    """The bugs *of* some pools, or of all, that kept the others from what they were due."""
    return [str(row) for row in rows if row.whose is of and not is_shared(row.function) and not row.served]


def not_recovered(rows: list[Row]) -> list[str]:
    """The bugs after which some pool was not served, or a delivery not considered."""
    return [str(row) for row in rows if not row.recovered]


def done_twice(rows: list[Row]) -> list[str]:
    """The bugs with which something was bought or removed twice."""
    return [str(row) for row in rows if row.came is not None and row.came.twice]
