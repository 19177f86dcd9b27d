"""Usage, workload lives and what nobody watched: added up once, whoever counts."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from time import perf_counter
from typing import Any

import pytest
from sqlalchemy import update

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.schema import seeds
from receiver.core.explain.samples import HeldHours
from receiver.core.model.charges import Seed
from receiver.core.model.usage import Accounted, Accounting, GpuHolding, Owner, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch
from receiver.ports import TryLater
from tests.adapters.store.builders import NOW, after, life

OWNER = Owner(
    team="vision",
    project="p",
    workload_class="training",
    environment="prod",
    cost_center="42",
    priority_class="urgent",
)
FULL = Usage(
    month="2026-11",
    instance="i-1",
    workload="ml/Job/train",
    namespace="ml",
    owner=OWNER,
    held=60.0,
    measured=50.0,
    idle=10.0,
    busy=30.0,
    memory=20.0,
    peak_engine=0.9,
    peak_memory=0.5,
)
RUNS = WorkloadLife(workload="ml/Job/train", namespace="ml", created_at=NOW, owner=OWNER, gpus=2)


def usage(instance: str = "i-1", **changes: Any) -> Usage:
    return replace(FULL, instance=instance, **changes)


def test_an_account_that_was_never_kept_stands_nowhere(store: SqlStore) -> None:
    assert store.accounted() == Accounted()
    assert (*store.usage("2026-11"), *store.unwatched("2026-11"), *store.workload_lives(NOW, NOW)) == ()


def test_what_was_held_adds_up_and_peaks_stay(store: SqlStore) -> None:
    store.account(Accounting(usage=(FULL,)), None, NOW)
    later = usage(held=5.0, measured=4.0, idle=3.0, busy=2.0, memory=1.0, peak_engine=0.2, peak_memory=0.7)
    store.account(Accounting(usage=(later,)), NOW, after(minutes=1))
    expected = usage(held=65.0, measured=54.0, idle=13.0, busy=32.0, memory=21.0, peak_engine=0.9, peak_memory=0.7)
    assert store.usage("2026-11") == (expected,)


def test_a_peak_that_was_not_measured_does_not_hide_one_that_was(store: SqlStore) -> None:
    store.account(Accounting(usage=(usage(peak_engine=None, peak_memory=0.5),)), None, NOW)
    store.account(Accounting(usage=(usage(peak_engine=0.3, peak_memory=None),)), NOW, after(minutes=1))
    found = store.usage("2026-11")[0]
    assert (found.peak_engine, found.peak_memory) == (0.3, 0.5)


def test_months_nodes_and_workloads_are_kept_apart(store: SqlStore) -> None:
    rows = (FULL, usage("i-2"), usage(workload="ml/Job/other"), usage(month="2026-12"))
    store.account(Accounting(usage=rows), None, NOW)
    assert {(r.instance, r.workload) for r in store.usage("2026-11")} == {
        ("i-1", "ml/Job/train"),
        ("i-2", "ml/Job/train"),
        ("i-1", "ml/Job/other"),
    }
    assert store.usage("2026-12") == (usage(month="2026-12"),)


@pytest.mark.parametrize("other", [replace(OWNER, team="search"), replace(OWNER, cost_center="43"), Owner()])
def test_who_uses_a_name_again_does_not_take_over_what_it_held_before(store: SqlStore, other: Owner) -> None:
    theirs = usage(owner=other, held=5.0)
    store.account(Accounting(usage=(FULL,)), None, NOW)
    store.account(Accounting(usage=(theirs,)), NOW, after(minutes=1))
    store.account(Accounting(usage=(usage(held=1.0),)), after(minutes=1), after(minutes=2))
    assert {row.owner: row.held for row in store.usage("2026-11")} == {OWNER: 61.0, other: 5.0}


def test_who_comes_again_with_another_priority_keeps_both_apart(store: SqlStore) -> None:
    store.account(Accounting(usage=(FULL, usage(owner=replace(OWNER, priority_class="batch"), held=5.0))), None, NOW)
    assert {row.owner.priority_class: row.held for row in store.usage("2026-11")} == {"urgent": 60.0, "batch": 5.0}


def test_time_that_somebody_else_counted_is_not_counted_again(store: SqlStore, url: str) -> None:
    other = open_store(url)
    store.account(Accounting(usage=(FULL,)), None, NOW)
    before = other.accounted()
    assert store.account(Accounting(usage=(usage(held=1.0),)), NOW, after(minutes=1))
    assert not other.account(Accounting(usage=(usage(held=1.0),)), before.at, after(minutes=1))
    assert other.usage("2026-11")[0].held == 61.0
    other.close()


def test_an_accounting_that_fails_half_way_leaves_nothing(store: SqlStore) -> None:
    store.account(Accounting(usage=(FULL,), holdings=(_held("a"),)), None, NOW)
    broken = Accounting(usage=(FULL,), holdings=(replace(_held("b"), gpus=None),))  # type: ignore[arg-type]
    with pytest.raises(TryLater):
        store.account(broken, NOW, after(minutes=1))
    assert store.accounted() == Accounted(at=NOW, holdings=(_held("a"),))
    assert store.usage("2026-11") == (FULL,)


def test_holdings_are_replaced(store: SqlStore) -> None:
    store.account(Accounting(holdings=(_held("a"), _held("b"))), None, NOW)
    store.account(Accounting(holdings=(_held("b", gpus=2), _held("c"))), NOW, after(minutes=1))
    assert store.accounted().holdings == (_held("b", gpus=2), _held("c"))


def test_a_holding_that_stays_is_kept_beside_one_that_goes_and_one_that_shrinks(store: SqlStore) -> None:
    store.account(Accounting(holdings=(_held("a"), _held("b"), _held("c", gpus=2))), None, NOW)
    store.account(Accounting(holdings=(_held("b"), _held("c", gpus=1))), NOW, after(minutes=1))
    assert store.accounted().holdings == (_held("b"), _held("c", gpus=1))


def test_a_clock_that_goes_back_a_little_does_not_move_the_begin_of_the_ledger(store: SqlStore) -> None:
    store.account(Accounting(), None, NOW)
    store.account(Accounting(), NOW, after(minutes=10))
    store.account(Accounting(), after(minutes=10), after(minutes=5))
    assert store.watch() == Watch(since=NOW, until=after(minutes=5))


def test_a_workload_runs_until_it_ends(store: SqlStore) -> None:
    store.account(Accounting(lives=(RUNS,)), None, NOW)
    assert store.accounted().running == (RUNS,)
    ended = replace(RUNS, bound_at=after(minutes=1), ended_at=after(minutes=9), completed=True, gpus=4)
    store.account(Accounting(lives=(ended,)), NOW, after(minutes=9))
    assert store.accounted().running == ()
    assert store.workload_lives(NOW, after(hours=1)) == (ended,)


def test_a_workload_that_asks_for_more_gpus_than_a_column_holds_is_kept_all_the_same(store: SqlStore) -> None:
    assert store.account(Accounting(lives=(replace(RUNS, gpus=2 * (2**63 - 1)),)), None, NOW)
    assert store.accounted().running[0].gpus == 2**31 - 1


def test_workloads_are_found_by_the_time_in_which_they_existed(store: SqlStore) -> None:
    ended = replace(RUNS, workload="ml/Job/early", ended_at=after(minutes=10))
    later = replace(RUNS, workload="ml/Job/late", created_at=after(minutes=30))
    store.account(Accounting(lives=(ended, later)), None, NOW)
    names = [x.workload for x in store.workload_lives(after(minutes=5), after(minutes=20))]
    assert names == ["ml/Job/early"]
    assert [x.workload for x in store.workload_lives(after(minutes=11), after(hours=1))] == ["ml/Job/late"]
    assert len(store.workload_lives(after(minutes=10), after(minutes=30))) == 2  # an end and a begin of the span count


def test_holdings_that_another_process_has_changed_since_are_made_what_is_wanted(store: SqlStore, url: str) -> None:
    with closing(open_store(url)) as other:
        store.account(Accounting(holdings=(_held("a"),)), None, NOW)
        assert store.accounted().holdings == (_held("a"),)
        other.accounted()
        other.account(Accounting(holdings=(_held("b"),)), NOW, after(minutes=1))
        assert store.account(Accounting(holdings=(_held("a"),)), after(minutes=1), after(minutes=2))
        assert other.accounted().holdings == store.accounted().holdings == (_held("a"),)


def test_an_account_that_another_process_has_moved_is_read_again(store: SqlStore, url: str) -> None:
    with closing(open_store(url)) as other:
        store.account(Accounting(), None, NOW)
        assert store.accounted() == Accounted(at=NOW)
        other.account(Accounting(holdings=(_held("b"),)), NOW, after(minutes=1))
        assert store.accounted() == Accounted(at=after(minutes=1), holdings=(_held("b"),))


def test_what_nobody_watched_adds_up(store: SqlStore) -> None:
    blind = Unwatched(month="2026-11", instance="i-1", seconds=30.0)
    store.account(Accounting(unwatched=(blind,)), None, NOW)
    store.account(Accounting(unwatched=(blind,)), NOW, after(minutes=1))
    assert store.unwatched("2026-11") == (replace(blind, seconds=60.0),)


def test_the_lives_of_nodes_can_be_read_without_disturbing_a_step(store: SqlStore) -> None:
    gone = life("gone", gone_at=after(minutes=-1))
    store.saw((gone, life("here")), {}, NOW)
    assert [x.instance for x in store.node_lives(NOW)] == ["here"]
    assert {x.instance for x in store.node_lives(after(hours=-1))} == {"gone", "here"}


def test_what_was_held_is_summed_by_the_hour_in_which_it_was_accounted_for(store: SqlStore) -> None:
    """What is accounted for is in each: the message of a week tells what the report of a month does."""
    began = NOW.replace(minute=0, second=0, microsecond=0)
    times = [began + timedelta(minutes=m) for m in (-10, 10, 70, 190)]
    assert store.account(Accounting(), None, times[0])
    for since, at in pairwise(times):
        assert store.account(Accounting(usage=(usage(held=1800.0), usage("i-2", held=900.0))), since, at)
    assert store.held(began, began + timedelta(hours=4)) == HeldHours(gpu_hours=3 * 0.75, known=0.75)
    assert store.held(began, began + timedelta(hours=2)) == HeldHours(gpu_hours=2 * 0.75, known=1.0)
    assert store.held(began + timedelta(days=1), began + timedelta(days=2)) == HeldHours()
    assert store.held(began, began) == HeldHours()  # no hour is in it


@pytest.mark.database("the store in memory prunes nothing")
def test_what_was_held_is_forgotten_with_the_samples(store: SqlStore) -> None:
    assert store.account(Accounting(usage=(usage(held=1800.0),)), None, NOW)
    assert store.held(NOW, after(hours=1)) == HeldHours(gpu_hours=0.5, known=1.0)
    store.prune(after(days=100))
    assert store.held(NOW, after(hours=1)) == HeldHours()


def test_the_seed_of_a_month_can_be_read_when_the_month_is_over(store: SqlStore) -> None:
    seed = Seed(month="2026-10", at=NOW, hours={"x1": Decimal("2.5")}, usd=Decimal("1.25"))
    seed = replace(seed, prices={"x1": Decimal("1.29")})
    store.keep_seed(seed)
    store.keep_seed(replace(seed, month="2026-11"))
    assert store.seed_of("2026-10") == seed
    assert store.seed_of("2026-09") is None


def test_a_seed_of_a_release_that_kept_no_prices_has_none(url: str) -> None:
    with closing(open_store(url)) as store:
        store.keep_seed(Seed(month="2026-11", at=NOW, prices={"small": Decimal(1)}))
        with store._database.write() as connection:
            connection.execute(update(seeds).values(prices=None))
        seed = store.seed_of("2026-11")
        assert seed is not None
        assert seed.prices == {}


@pytest.mark.database("the store in memory prunes nothing")
def test_usage_is_forgotten_after_thirteen_months(store: SqlStore) -> None:
    old = replace(RUNS, workload="ml/Job/old", created_at=after(days=-500), ended_at=after(days=-430))
    rows = (usage(month="2025-09"), usage(month="2025-10"), FULL)
    blind = Unwatched(month="2025-09", instance="i-1", seconds=1.0)
    store.account(Accounting(usage=rows, unwatched=(blind,), lives=(old, RUNS)), None, NOW)
    assert store.prune(NOW) == 3
    assert [len(store.usage(m)) for m in ("2025-09", "2025-10", "2026-11")] == [0, 1, 1]
    assert store.accounted().running == (RUNS,)


@pytest.mark.database("the store in memory prunes nothing")
def test_a_month_is_forgotten_whole(store: SqlStore) -> None:
    """400 days before is the middle of October: what lived early in it is kept, what was gone before it is not."""
    early = life("early", created_at=after(days=-420), gone_at=after(days=-410))
    before = life("before", created_at=after(days=-440), gone_at=after(days=-430))
    store.saw((early, before), {}, NOW)
    store.prune(NOW)
    assert [x.instance for x in store.node_lives(after(days=-500))] == ["early"]


@pytest.mark.database("the store in memory prunes nothing")
def test_the_ledger_says_since_when_up_to_when_and_of_which_months_it_knows(store: SqlStore) -> None:
    assert store.watch() == Watch()
    store.account(Accounting(), None, NOW)
    store.account(Accounting(), NOW, after(minutes=1))
    assert store.watch() == Watch(since=NOW, until=after(minutes=1))
    store.prune(NOW)
    assert store.watch().kept_from == after(days=-400)


def test_a_first_accounting_under_a_clock_that_was_ahead_does_not_hide_what_came_after(store: SqlStore) -> None:
    store.account(Accounting(), None, after(days=300))
    store.account(Accounting(), after(days=300), NOW)
    store.account(Accounting(), NOW, after(minutes=1))
    assert store.watch() == Watch(since=NOW, until=after(minutes=1))


def test_two_thousand_nodes_are_accounted_for_in_a_moment(store: SqlStore, figure: Callable[[str], None]) -> None:
    rows = tuple(usage(f"i-{n:04}", workload=f"ml/Job/{n}") for n in range(2_000))
    held = tuple(GpuHolding(uid=f"u-{n}", instance=f"i-{n:04}", workload=f"ml/Job/{n}", gpus=8) for n in range(2_000))
    store.account(Accounting(usage=rows, holdings=held), None, NOW)
    began = perf_counter()
    store.account(Accounting(usage=rows, holdings=held), NOW, after(minutes=1))
    seconds = perf_counter() - began
    figure(f"usage of 2,000 nodes written in {seconds * 1000:.0f} ms")
    assert len(store.usage("2026-11")) == 2_000
    assert seconds < timedelta(seconds=60).total_seconds()


def _held(uid: str, gpus: int = 1) -> GpuHolding:
    return GpuHolding(uid=uid, instance="i-1", workload="ml/Job/train", gpus=gpus)


def test_how_long_workloads_lasted_is_told_of_the_last_that_ended(store: SqlStore) -> None:
    first = replace(RUNS, workload="ml/Job/first", bound_at=after(minutes=1), ended_at=after(minutes=31))
    second = replace(RUNS, workload="ml/Job/second", bound_at=after(minutes=2), ended_at=after(minutes=12))
    never = replace(RUNS, workload="ml/Job/never", bound_at=None, ended_at=after(minutes=40))
    store.account(Accounting(lives=(first, second, never, RUNS)), None, NOW)
    assert store.lasted(9) == (timedelta(minutes=30), timedelta(minutes=10))
    assert store.lasted(1) == (timedelta(minutes=30),)
