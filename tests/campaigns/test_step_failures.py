"""A bug in one function of a step, planted into one of each kind that it enters: what the others still get.

One function stands for all whose exceptions the same handlers meet: where code loses its guard, or new code has none,
it becomes a kind of its own. `python -m campaigns.step_failures` plants into every function.
"""

from collections.abc import Iterator

import pytest

from campaigns.step_failures.planting import Whose
from campaigns.step_failures.table import Row, one_of_each, table
from tests.stores import a_store, silent_log

# What every pool shares: the store, the month's spend, the limits, and the loops over all pools. Without it nothing is
# changed in a step, and the next one tries again. A new module here is a new way for one bug to stop every pool.
SHARED = (
    "adapters/store/",
    "step/gather.py:",
    "core/scaling/capacity.py:Allowance.__init__",
    "core/scaling/capacity.py:Allowance.mark",
    "core/scaling/capacity.py:Given.whole",
    "core/scaling/approval.py:uses_approvals",
    "core/scaling/assign.py:_assign",
    "core/scaling/assign.py:_open_tallies",
    "core/scaling/assign.py:_serve_all",
    "core/scaling/assign.py:_served",
    "core/scaling/assign.py:assign",
    "core/scaling/failures.py:",
    "core/money/budget.py:",
    "core/model/charges.py:",
    "core/money/cost.py:",
    "core/scaling/decide.py:decide_all",
    "core/scaling/demand.py:workloads",
    "core/scaling/market.py:keep_warm",
    "core/scaling/market.py:LabelIndex.__init__",
    "core/scaling/market.py:Matching.__init__",
    "core/scaling/market.py:Matching._apart",
    "core/scaling/market.py:_is_wide_beside",  # compares a pool with every other one
    "core/scaling/neighbours.py:Neighbours.of",  # which pods are beside each other, in whatever pools
    "core/scaling/neighbours.py:_every",
    "core/scaling/packing.py:movable",
    "core/scaling/patience.py:Deadlines.__init__",
    "core/scaling/patience.py:Deadlines.patient",
    "core/model/pods.py:kept",
    "core/model/pods.py:owner_of",  # the name by which work is left out
    "core/model/model.py:Facts.",
    "core/model/model.py:PoolState.",
    "core/model/policy.py:Policy.",
    "core/model/policy.py:Pool.gpus_per_node",
    "core/money/reconciliation.py:",
    "core/scaling/market.py:refused",
    "core/scaling/waits.py:refused_counts",
    "core/model/signals.py:",
    "core/model/memory.py:bucket",
    "core/model/memory.py:passed",
    "core/model/memory.py:is_steady",
    "core/money/budget.py:",
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
    "step/act.py:serve_pools",
    "step/pool_states.py:strays",
    "step/pool_states.py:with_nominations",
)


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    """One function of each kind with the exception planted."""
    with a_store() as store, silent_log([]):
        yield list(table(store, lambda points: one_of_each(points, lambda name: name.startswith(SHARED))))


def test_every_planted_bug_is_met(rows: list[Row]) -> None:
    assert [row.function for row in rows if not row.raised] == []


def test_a_bug_that_belongs_to_one_pool_leaves_the_other_pools_served(rows: list[Row]) -> None:
    own = [r for r in rows if r.whose is Whose.BAD and not r.function.startswith(SHARED)]
    assert len(own) > 70, "few kinds of functions were entered for one pool: the scenario does too little"
    assert [str(r) for r in own if not r.served] == []


def test_a_bug_in_what_is_made_for_people_changes_nothing_for_any_pool(rows: list[Row]) -> None:
    shown = [r for r in rows if r.whose is Whose.ALL and not r.function.startswith(SHARED)]
    assert len(shown) > 10
    assert [str(r) for r in shown if not r.served] == []


def test_once_a_bug_is_gone_every_pool_is_served_and_every_delivery_considered(rows: list[Row]) -> None:
    assert [str(r) for r in rows if not r.recovered] == []


def test_no_bug_lets_anything_be_bought_or_removed_twice(rows: list[Row]) -> None:
    assert [str(r) for r in rows if r.came is not None and r.came.twice] == []
