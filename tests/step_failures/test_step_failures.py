"""A bug in one function of a step, planted into each that it enters: what the others still get."""

from collections.abc import Iterator

import pytest

from receiver.adapters.store import SqlStore
from tests.faults.stores import a_store, silent_log
from tests.step_failures.planting import Whose
from tests.step_failures.table import Row, table

# What every pool shares: the store, the month's spend, the limits, and the loops over all pools. Without it nothing is
# changed in a step, and the next one tries again. A new module here is a new way for one bug to stop every pool.
SHARED = (
    "adapters/store/",
    "answers.py:",
    "approving.py:",
    "books.py:",
    "core/allowance.py:Allowance.__init__",
    "core/allowance.py:Allowance.mark",
    "core/capacity.py:Given.whole",
    "core/approval.py:anybody_asked",
    "core/assign.py:_assign",
    "core/assign.py:_open_tallies",
    "core/assign.py:_serve_all",
    "core/assign.py:_served",
    "core/assign.py:assign",
    "core/blame.py:",
    "core/budget.py:",
    "core/budget_views.py:",
    "core/charges.py:",
    "core/cost.py:",
    "core/decide.py:decide_all",
    "core/demand.py:workloads",
    "core/ended.py:",
    "core/headroom.py:keep_warm",
    "core/market.py:Matching.__init__",
    "core/market.py:Matching._apart",
    "core/consolidate.py:movable",
    "core/counts.py:why_removals_stop",
    "core/keep_until.py:kept",
    "core/model.py:",
    "core/policy.py:",
    "core/reconciliation.py:",
    "core/refused.py:refused",
    "core/seed.py:",
    "core/shortage.py:refused_counts",
    "core/signals.py:",
    "core/silences.py:",
    "core/stages.py:",
    "core/steady.py:",
    "core/unanswered.py:",
    "core/weights.py:",
    "core/activity.py:judge",
    "lives.py:",
    "look.py:",
    "parts.py:",
    "reconcile.py:",
    "serving.py:_failed_tries",
    "serving.py:serve_pools",
    "stray_nodes.py:strays",
)


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    """Every function of a step with the exception planted."""
    with a_store() as store, silent_log([]):
        assert isinstance(store, SqlStore)
        yield list(table(store))


def test_a_bug_that_belongs_to_one_pool_leaves_the_other_pools_served(rows: list[Row]) -> None:
    own = [r for r in rows if r.whose is Whose.BAD and not r.function.startswith(SHARED)]
    assert len(own) > 200, "few functions were entered for one pool: the scenario does too little"
    assert [str(r) for r in own if not r.served] == []


def test_a_bug_in_what_is_made_for_people_changes_nothing_for_any_pool(rows: list[Row]) -> None:
    shown = [r for r in rows if r.whose is Whose.ALL and not r.function.startswith(SHARED)]
    assert len(shown) > 50
    assert [str(r) for r in shown if not r.served] == []


def test_once_a_bug_is_gone_every_pool_is_served_and_every_delivery_considered(rows: list[Row]) -> None:
    assert [str(r) for r in rows if not r.recovered] == []


def test_no_bug_lets_anything_be_bought_or_removed_twice(rows: list[Row]) -> None:
    assert [str(r) for r in rows if r.came is not None and r.came.twice] == []
