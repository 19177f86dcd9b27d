"""Civo's answers on what it charged, and seeds: what comes back equals what was kept, over restarts too."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.adapters.store import SqlStore, open_store
from receiver.core.model.charges import Charge, Charged, RunsElsewhere
from receiver.core.model.seed import Seed
from tests.store.builders import NOW, after

CHARGE = Charge(
    code="volume",
    label="data",
    id="7",
    frm=NOW - timedelta(hours=9),
    to=NOW,
    hours=Decimal("8.50"),
    nodes=2,
    size_gb=Decimal(100),
    product="p",
)
ANSWER = Charged(
    month="2026-11", asked_at=NOW, answered_at=NOW, records=(CHARGE, Charge(code="x")), unreadable=("record 3: x",)
)


def held(store: SqlStore, now: datetime = NOW) -> Charged | None:
    return store.memory(now, NOW).charged


def test_a_new_store_holds_neither_charges_nor_a_seed(store: SqlStore) -> None:
    found = store.memory(NOW, NOW)
    assert (found.charged, found.seed) == (None, None)


def test_an_answer_comes_back_as_it_was_also_after_a_restart(store: SqlStore, url: str) -> None:
    store.keep_charged(ANSWER)
    assert held(store) == ANSWER
    again = open_store(url)
    assert held(again) == ANSWER
    again.close()


def test_a_later_answer_of_the_month_replaces_the_one_before(store: SqlStore) -> None:
    store.keep_charged(ANSWER)
    held(store)
    later = replace(ANSWER, asked_at=after(minutes=15), records=(CHARGE,), failure="no answer", failing_since=NOW)
    store.keep_charged(later)
    assert held(store, later.asked_at) == later


def test_the_newest_month_counts(store: SqlStore) -> None:
    store.keep_charged(replace(ANSWER, month="2026-12", asked_at=after(days=20)))
    store.keep_charged(ANSWER)
    found = held(store, after(days=20))
    assert found is not None
    assert found.month == "2026-12"


def test_what_was_kept_under_a_clock_that_ran_ahead_is_not_believed(store: SqlStore) -> None:
    store.keep_charged(ANSWER)
    store.keep_charged(replace(ANSWER, month="2026-12", asked_at=after(days=40)))
    store.keep_seed(Seed(month="2026-12", at=after(days=40)))
    found = store.memory(NOW, NOW)
    assert (found.charged, found.seed) == (ANSWER, None)


def test_a_stated_amount_stands_while_the_clock_runs_behind(store: SqlStore) -> None:
    stated = Seed(month="2026-11", at=after(hours=1), usd=Decimal(7), stated=Decimal(8))
    store.keep_seed(stated)
    assert store.memory(NOW, NOW).seed == stated


def test_a_seed_comes_back_as_it_was_and_another_one_takes_its_place(store: SqlStore) -> None:
    node = RunsElsewhere(size="an.g1.l40s.kube.x1", label="n1", product="i-1", hours=Decimal("4.5"))
    first = Seed(month="2026-11", at=NOW, hours={"an.g1.l40s.kube.x1": Decimal("10.5")}, elsewhere=(node,))
    stated = Seed(month="2026-11", at=after(days=1), usd=Decimal("1150.10"), stated=Decimal(1200))
    for seed in (first, stated):
        store.keep_seed(seed)
        assert store.memory(seed.at, NOW).seed == seed


def test_charges_of_two_years_ago_are_forgotten_and_seeds_are_not(store: SqlStore) -> None:
    store.keep_charged(ANSWER)
    store.keep_seed(Seed(month="2026-11", at=NOW))
    store.prune(after(days=800))
    found = store.memory(NOW, NOW)
    assert found.charged is None
    assert found.seed is not None
