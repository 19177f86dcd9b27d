"""What people set at run time: overrides end once and are forgotten after a year; a budget has its last change."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import BudgetChange, Scope
from receiver.core.notices.money_notices import budget_changed
from receiver.ports import StoredOverride
from tests.adapters.store.builders import NOW, POOL, after, notice

SET, ENDED = notice("override:o", "set"), notice("override:o", "ended")


def override(name: str = "o", **changes: Any) -> Override:
    values: dict[str, Any] = {
        "kind": OverrideKind.PIN,
        "pool": POOL,
        "nodes": 3,
        "who": "alice",
        "why": "load \N{GREEK SMALL LETTER ALPHA} test",
        "at": NOW,
        "until": after(hours=2),
    }
    return Override(id=name, **{**values, **changes})


@pytest.mark.parametrize(
    "kept", [override(), override(kind=OverrideKind.PAUSE, pool=None, nodes=None), override(nodes=0)]
)
def test_an_override_comes_back_exactly(store: SqlStore, kept: Override) -> None:
    store.set_override(kept, SET)
    assert store.override("o") == StoredOverride(override=kept)
    assert store.memory(NOW, NOW).overrides == (kept,)


def test_setting_one_is_told(store: SqlStore) -> None:
    store.set_override(override(), SET)
    assert [n.notice for n in store.notices_due(NOW)] == [SET]


def test_one_that_was_ended_is_no_longer_needed_by_a_step_and_still_shown(store: SqlStore) -> None:
    store.set_override(override(), SET)
    assert store.end_override("o", after(hours=1), "bob", ENDED)
    assert store.memory(NOW, NOW).overrides == ()
    assert store.overrides() == (StoredOverride(override=override(), ended_at=after(hours=1), ended_by="bob"),)
    assert [n.notice for n in store.notices_due(after(hours=1))] == [SET, ENDED]


def test_one_is_ended_and_told_once(store: SqlStore) -> None:
    store.set_override(override(), SET)
    assert store.end_override("o", after(hours=2), None, ENDED)
    assert not store.end_override("o", after(hours=3), "bob", notice("override:o", "again"))
    found = store.override("o")
    assert found is not None
    assert (found.ended_at, found.ended_by) == (after(hours=2), None)
    assert len(store.notices_due(after(hours=3))) == 2


def test_one_that_ran_out_too_early_goes_on_once_and_that_is_told(store: SqlStore) -> None:
    store.set_override(override(), SET)
    assert not store.resume_override("o", NOW, notice("override:o", "goes on"))
    store.end_override("o", after(hours=2), None, ENDED)
    assert store.memory(after(hours=2), NOW).ran_out_early == ()
    assert store.memory(after(hours=1), NOW).ran_out_early == (override(),)
    assert store.resume_override("o", after(hours=1), notice("override:o", "goes on"))
    assert store.override("o") == StoredOverride(override=override())
    assert len(store.notices_due(after(hours=1))) == 3


def test_one_that_somebody_ended_does_not_go_on(store: SqlStore) -> None:
    store.set_override(override(), SET)
    store.end_override("o", after(hours=1), "bob", ENDED)
    assert store.memory(after(hours=1), NOW).ran_out_early == ()
    assert not store.resume_override("o", after(hours=1), notice("override:o", "goes on"))


def test_one_that_nobody_set_cannot_be_ended_and_nothing_is_told(store: SqlStore) -> None:
    assert not store.end_override("o", NOW, "bob", ENDED)
    assert store.override("o") is None
    assert store.notices_due(NOW) == ()


def test_those_that_nobody_ended_come_first_and_the_newest_of_them_before_the_others(store: SqlStore) -> None:
    for number in range(4):
        store.set_override(override(str(number), at=after(minutes=number)), SET)
    store.end_override("3", after(hours=1), "bob", ENDED)
    assert [s.override.id for s in store.overrides()] == ["2", "1", "0", "3"]
    assert [s.override.id for s in store.overrides(limit=2)] == ["2", "1"]


@pytest.mark.parametrize(
    ("begins", "ends", "ended_at", "counts"),
    [
        (1, 2, None, True),
        (3, 4, None, True),
        (1, 5, None, True),
        (0, 1, None, False),
        (0, 2, None, True),
        (4, 5, None, False),
        (0, 5, 1, False),
        (0, 5, 2, True),
        (0, 5, 5, True),
    ],
)
def test_an_override_counts_for_a_span_in_which_it_was_in_force(
    store: SqlStore, begins: int, ends: int, ended_at: int | None, counts: bool
) -> None:
    """The span is from hour 1 to hour 4: neither an end at its begin nor a begin at its end is in it."""
    store.set_override(override(at=after(hours=begins), until=after(hours=ends)), SET)
    if ended_at is not None:
        store.end_override("o", after(hours=ended_at), "bob", ENDED)
    assert bool(store.overrides_between(after(hours=1), after(hours=4))) is counts


def test_overrides_of_a_span_are_told_from_the_oldest_with_how_they_ended(store: SqlStore) -> None:
    for number in (2, 1):
        store.set_override(override(str(number), at=after(minutes=number)), SET)
    store.end_override("1", after(hours=1), "bob", ENDED)
    found = store.overrides_between(NOW, after(hours=4))
    assert [(s.override.id, s.ended_at, s.ended_by) for s in found] == [("1", after(hours=1), "bob"), ("2", None, None)]


def test_overrides_survive_a_restart(url: str) -> None:
    first = open_store(url)
    first.set_override(override(), SET)
    first.close()
    second = open_store(url)
    assert second.memory(NOW, NOW).overrides == (override(),)
    second.close()


@pytest.mark.database("the store in memory prunes nothing")
def test_one_that_ended_long_ago_is_forgotten_and_one_that_did_not_end_never(store: SqlStore) -> None:
    store.set_override(override(), SET)
    store.set_override(override("stays"), SET)
    store.end_override("o", NOW, "bob", ENDED)
    store.prune(NOW + timedelta(days=399))
    assert store.override("o") is not None
    store.prune(NOW + timedelta(days=401))
    assert (store.override("o"), store.override("stays")) == (None, StoredOverride(override=override("stays")))


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
    store.change_budget(RAISED, budget_changed(RAISED, "budget of team research"))
    assert kept(store) == (RAISED,)
    assert [n.notice.title for n in store.notices_due(NOW)] == [
        "The budget of team research of 2026-11 was set to $1,250.50"
    ]


def test_the_last_change_of_a_scope_and_month_is_in_force(store: SqlStore) -> None:
    back = replace(RAISED, monthly_usd=None, at=NOW + timedelta(hours=1))
    others = (replace(RAISED, month="2026-12"), replace(RAISED, scope=Scope.CLUSTER, name=""))
    for change in (RAISED, *others, back):
        store.change_budget(change, budget_changed(change, "x"))
    assert set(kept(store)) == {back, *others}


def test_the_changes_of_a_month_can_be_had_alone(store: SqlStore) -> None:
    other = replace(RAISED, month="2026-12")
    for change in (RAISED, other):
        store.change_budget(change, budget_changed(change, "x"))
    assert store.allowances_set("2026-12") == (other,)
    assert store.allowances_set("2027-01") == ()
