"""What idle workloads held for too long in a month, and what ending others saved."""

import random
from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.money.cost import in_cents
from receiver.core.report.idle import SAVED_AT_MOST, IdleCost, idle_costs
from tests.core.report.builders import AFTER, MONTH, START, an_idle_span, at

END = MONTH.end


def the(*spans: object, team: str | None = None) -> tuple[IdleCost, ...]:
    return idle_costs(spans, START, END, team)  # type: ignore[arg-type]


def test_what_a_workload_held_is_added_up_over_its_times() -> None:
    (cost,) = the(an_idle_span(since=1), an_idle_span(since=30, until=at(32)))
    assert (cost.workload, cost.namespace, cost.team) == ("ml/StatefulSet/lab", "ml", "vision")
    assert (cost.ended, cost.times, cost.gpu_hours, cost.usd) == (False, 2, 3.0, Decimal("3.87"))


def test_only_the_time_in_the_month_counts() -> None:
    (first,) = the(an_idle_span(since=-5, until=at(2)))
    (last,) = the(an_idle_span(since=31 * 24 - 3, until=AFTER))
    assert (first.gpu_hours, last.gpu_hours) == (2.0, 3.0)
    assert the(an_idle_span(since=-5, until=START), an_idle_span(since=31 * 24)) == ()


def test_a_span_without_a_second_look_held_nothing() -> None:
    assert the(an_idle_span(until=None)) == ()


@pytest.mark.parametrize("until, hours", [(at(6), 6.0), (at(30), 24.0), (None, 24.0)])
def test_an_end_saves_until_the_workload_runs_again_and_a_day_at_most(until: object, hours: float) -> None:
    (cost,) = the(an_idle_span(ended=True, until=until))
    assert (cost.ended, cost.gpu_hours) == (True, hours)


def test_an_end_late_in_the_month_before_saves_in_this_one() -> None:
    (cost,) = the(an_idle_span(since=-4, ended=True, until=None))
    assert cost.gpu_hours == SAVED_AT_MOST / timedelta(hours=1) - 4


def test_an_end_saves_no_more_than_has_passed() -> None:
    (cost,) = idle_costs([an_idle_span(ended=True, until=None)], START, at(3))
    assert cost.gpu_hours == 3.0


def test_what_is_held_comes_first_and_the_most_expensive_of_it() -> None:
    spans = [
        an_idle_span("ml/Job/small"),
        an_idle_span("ml/Job/saved", ended=True, until=at(9)),
        an_idle_span("ml/Job/large", until=at(3)),
    ]
    assert [cost.workload for cost in the(*spans)] == ["ml/Job/large", "ml/Job/small", "ml/Job/saved"]


def test_gpus_without_a_price_are_in_the_hours_alone() -> None:
    (cost,) = the(an_idle_span(usd_per_hour=None, gpus=2.0))
    assert (cost.gpu_hours, cost.usd) == (2.0, Decimal("0.00"))


def test_a_team_gets_its_own() -> None:
    spans = an_idle_span(), an_idle_span("search/Job/x", team="search"), an_idle_span("search/Job/y", team="")
    assert [cost.team for cost in the(*spans, team="search")] == ["search"]
    assert [cost.workload for cost in the(*spans, team="")] == ["search/Job/y"]


@pytest.mark.parametrize("seed", range(20))
def test_cents_add_up_to_the_rounded_sum_of_what_was_held_and_of_what_was_saved(seed: int) -> None:
    dice = random.Random(seed)
    spans = [
        an_idle_span(
            f"ml/Job/{dice.randrange(9)}",
            since=dice.uniform(0, 500),
            ended=dice.random() < 0.5,
            until=at(500 + dice.uniform(0, 24)),
            usd_per_hour=Decimal(str(round(dice.uniform(0.01, 3), 4))),
        )
        for _ in range(dice.randrange(1, 40))
    ]
    for ended in (False, True):
        mine = [span for span in spans if span.ended is ended]
        hours = [min(s.until - s.since, SAVED_AT_MOST if ended else END - START) for s in mine if s.until]
        pairs = zip(mine, hours, strict=True)
        exact = sum(((s.usd_per_hour or 0) * Decimal(str(h / timedelta(hours=1))) for s, h in pairs), Decimal(0))
        assert sum(cost.usd for cost in the(*spans) if cost.ended is ended) == in_cents(exact)
