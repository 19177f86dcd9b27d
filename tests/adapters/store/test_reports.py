"""What reports keep beside usage: charges, seeds, counts of units of work, GPUs in use."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.core.model.actions import Verdict
from receiver.core.model.charges import Charge, Charged, RunsElsewhere, Seed
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.usage import IdleSpan
from receiver.core.report.lines import Counted
from receiver.core.report.report import Spoke
from receiver.core.report.rightsizing import InUse
from tests.adapters.store.builders import NOW, POOL, after, decision, notice, reason

EPOCHS = Counted(month="2026-11", name="epoch", count=412.25, at=NOW)


def test_the_last_count_of_a_month_and_name_is_kept_exactly(store: SqlStore) -> None:
    steps = Counted(month="2026-11", name="steps", count=1e12 + 0.5, at=NOW)
    for counted in (replace(EPOCHS, count=1.0), steps, EPOCHS):
        store.keep_unit_count(counted)
    assert store.unit_counts("2026-11") == {"epoch": EPOCHS, "steps": steps}
    assert store.unit_counts("2026-10") == {}


def test_a_pool_is_watched_since_its_count_was_read_first(store: SqlStore) -> None:
    store.saw((), {POOL: 2}, NOW)
    store.saw((), {POOL: 3, "other": 0}, after(days=9))
    assert store.watched() == {POOL: NOW, "other": after(days=9)}


def test_the_higher_numbers_of_gpus_in_use_are_kept_and_the_seconds_added(store: SqlStore) -> None:
    first = InUse(month="2026-11", workload="ml/Job/a", gpus=8, used=2, seconds=60.0)
    other = replace(first, workload="ml/Job/b")
    store.keep_in_use([first, other])
    store.keep_in_use([replace(first, gpus=4, used=3, seconds=30.0)])
    store.keep_in_use([])
    assert store.in_use("2026-11") == (replace(first, used=3, seconds=90.0), other)
    assert store.in_use("2026-10") == ()


def test_an_idle_span_is_replaced_by_a_later_look_at_it_and_read_until_it_is_over(store: SqlStore) -> None:
    span = IdleSpan(workload="ml/Deployment/web", since=NOW, team="vision", gpus=0.5, usd_per_hour=Decimal("0.645"))
    freed = IdleSpan(workload="ml/StatefulSet/lab", since=NOW, gpus=1.0, ended=True)
    store.keep_idle([span, freed])
    later = replace(span, until=after(minutes=5))
    store.keep_idle([later])
    store.keep_idle([])
    assert store.idle_spans(after(minutes=5)) == (later, freed)
    assert store.idle_spans(after(minutes=6)) == (freed,)


@pytest.mark.database("the store in memory prunes nothing")
def test_idle_spans_are_forgotten_after_400_days(store: SqlStore) -> None:
    store.keep_idle([IdleSpan(workload="ml/StatefulSet/lab", since=NOW, ended=True)])
    store.prune(after(days=399))
    assert len(store.idle_spans(NOW)) == 1
    store.prune(after(days=401))
    assert store.idle_spans(NOW) == ()


@pytest.mark.database("the store in memory prunes nothing")
def test_counts_are_forgotten_with_the_usage_of_their_month(store: SqlStore) -> None:
    store.keep_unit_count(EPOCHS)
    store.prune(after(days=300))
    assert store.unit_counts("2026-11") == {"epoch": EPOCHS}
    store.prune(after(days=500))
    assert store.unit_counts("2026-11") == {}


def test_what_held_growth_back_for_moneys_sake_is_read_from_decisions_with_the_last_one_before(store: SqlStore) -> None:
    held = reason("within_budget", Verdict.LIMITS, detail="cluster budget hold")
    uncovered = {"uncovered": [{"title": "cluster budget"}, {"title": "budget of team ml"}]}
    said = [
        decision(at=after(minutes=1), reasons=(reason(),)),
        decision(at=after(minutes=2), reasons=(reason(), held), evidence=uncovered),
        decision(at=after(minutes=3), reasons=(reason(), replace(held, verdict=Verdict.NOTES))),
        decision(at=after(minutes=3, seconds=10), reasons=(replace(held, verdict=Verdict.HOLDS),)),
        decision(at=after(minutes=4), reasons=(held,)),
    ]
    for each in said:
        store.decided(each)
    found = store.spoken(after(minutes=2, seconds=30), after(minutes=3, seconds=30))
    assert found == (
        Spoke(
            pool=POOL,
            at=after(minutes=2),
            detail="within_budget: cluster budget hold",
            budgets=frozenset({"cluster budget", "budget of team ml"}),
        ),
        Spoke(pool=POOL, at=after(minutes=3)),
        Spoke(pool=POOL, at=after(minutes=3, seconds=10), detail="within_budget: cluster budget hold"),
    )


@pytest.mark.database("the store in memory prunes nothing")
def test_a_closed_report_comes_back_as_it_was_and_is_not_replaced(store: SqlStore) -> None:
    document = {"usd": Decimal("12.30"), "from": NOW, "lines": [{"gpu_hours": 0.1, "team": "a|b"}], "budget": None}
    store.close_report("2026-11", "everybody", document, NOW)
    store.close_report("2026-11", "everybody", {"usd": Decimal(1)}, after(days=1))
    store.close_report("2026-11", "everybody", {"usd": Decimal(2)}, NOW)
    store.close_report("2026-11", "team:", {}, NOW)
    store.prune(after(days=5000))
    assert store.closed_report("2026-11", "everybody", NOW) == document
    assert store.closed_report("2026-11", "team:a", NOW) is None
    assert store.closed_scopes("2026-11", NOW) == {"everybody", "team:"}


def test_a_closed_report_that_lies_ahead_is_none_and_gives_way(store: SqlStore) -> None:
    store.close_report("2026-11", "everybody", {"usd": 1}, after(days=1))
    assert store.closed_report("2026-11", "everybody", NOW) is None
    assert not store.closed_scopes("2026-11", NOW)
    store.close_report("2026-11", "everybody", {"usd": 2}, NOW)
    assert store.closed_report("2026-11", "everybody", NOW) == {"usd": 2}


def test_overrides_that_were_in_force_in_between_are_read(store: SqlStore) -> None:
    for number, (start, end) in enumerate([(0, 10), (20, 30), (40, 50)]):
        said = Override(
            id=str(number), kind=OverrideKind.PAUSE, who="a", why="b", at=after(minutes=start), until=after(minutes=end)
        )
        store.set_override(said, notice(key=str(number)))
    store.end_override("1", after(minutes=22), "c", notice(key="end"))
    found = store.overrides_between(after(minutes=5), after(minutes=21))
    assert [(x.override.id, x.ended_at) for x in found] == [("0", None), ("1", after(minutes=22))]
    assert [x.override.id for x in store.overrides_between(after(minutes=25), after(minutes=45))] == ["2"]


def test_the_charges_of_a_month_that_is_over_are_still_there(store: SqlStore) -> None:
    old, new = (Charged(month=month, asked_at=NOW, answered_at=NOW) for month in ("2026-10", "2026-11"))
    store.keep_charged(old)
    store.keep_charged(new)
    assert store.charged_of("2026-10") == old
    assert store.charged_of("2026-09") is None


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


@pytest.mark.database("the store in memory prunes nothing")
def test_charges_of_two_years_ago_are_forgotten_and_seeds_are_not(store: SqlStore) -> None:
    store.keep_charged(ANSWER)
    store.keep_seed(Seed(month="2026-11", at=NOW))
    store.prune(after(days=800))
    found = store.memory(NOW, NOW)
    assert found.charged is None
    assert found.seed is not None
