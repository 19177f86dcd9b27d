"""Allowances set at run time: the last of each scope and month is in force, and each is told with its transaction."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from receiver.adapters.store import SqlStore
from receiver.core.model.policy import BudgetChange, Scope
from receiver.core.notices.budget_notices import changed
from tests.store.builders import NOW

RAISED = BudgetChange(
    scope=Scope.TEAM,
    name="research",
    month="2026-11",
    monthly_usd=Decimal("1250.50"),
    who="ada",
    why="a deadline",
    at=NOW,
)


def kept(store: SqlStore) -> tuple[BudgetChange, ...]:
    return store.memory(NOW, NOW - timedelta(days=30)).budget_changes


def test_a_change_comes_back_exactly_and_is_told(store: SqlStore) -> None:
    store.change_budget(RAISED, changed(RAISED, "budget of team research"))
    assert kept(store) == (RAISED,)
    assert [n.notice.title for n in store.notices_due(NOW)] == [
        "The budget of team research of 2026-11 was set to USD 1,250.50"
    ]


def test_the_last_change_of_a_scope_and_month_is_in_force(store: SqlStore) -> None:
    back = replace(RAISED, monthly_usd=None, at=NOW + timedelta(hours=1))
    others = (replace(RAISED, month="2026-12"), replace(RAISED, scope=Scope.CLUSTER, name=""))
    for change in (RAISED, *others, back):
        store.change_budget(change, changed(change, "x"))
    assert set(kept(store)) == {back, *others}


def test_the_changes_of_a_month_can_be_had_alone(store: SqlStore) -> None:
    other = replace(RAISED, month="2026-12")
    for change in (RAISED, other):
        store.change_budget(change, changed(change, "x"))
    assert store.allowances_set("2026-12") == (other,)
    assert store.allowances_set("2027-01") == ()
