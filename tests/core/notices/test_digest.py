"""The digest of a week: from Monday to Monday by the budget's clocks, and what it says."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.explain.samples import HeldHours, PoolMinutes
from receiver.core.notices.digest import Outlook, WeekFound, digest, last_week
from tests.core.report.builders import A100_X8, a_life, a_policy, a_workload, at

WEEK = last_week(at(11 * 24 + 12), "UTC")  # the month began on a Thursday
NOW = WEEK.end + timedelta(hours=1)
INTO = (WEEK.start - at(0)) / timedelta(hours=1)  # hours from the beginning of the month to that of the week


def said(found: Iterable[Any] = (), workloads: Iterable[Any] = (), **more: Any) -> str:
    given_values: dict[str, Any] = {"week": WEEK, "now": NOW, "minutes": {}}
    notice = digest(WeekFound(lives=list(found), workloads=list(workloads), **{**given_values, **more}), a_policy())
    return f"{notice.title}\n{notice.body}"


@pytest.mark.parametrize(
    ("now", "name"),
    [
        (datetime(2026, 10, 12, 7, 59, tzinfo=UTC), "2026-10-05"),
        (datetime(2026, 10, 12, 8, 0, tzinfo=UTC), "2026-10-12"),
        (datetime(2026, 10, 18, 23, 0, tzinfo=UTC), "2026-10-12"),
    ],
)
def test_a_week_ends_on_monday_at_eight(now: datetime, name: str) -> None:
    assert last_week(now, "UTC").name == name


def test_a_week_in_which_clocks_change_has_another_length() -> None:
    week = last_week(datetime(2026, 10, 26, 12, tzinfo=UTC), "Europe/Berlin")
    assert (week.start, week.end) == (datetime(2026, 10, 19, 6, tzinfo=UTC), datetime(2026, 10, 26, 7, tzinfo=UTC))


@given(
    st.timedeltas(timedelta(0), timedelta(days=1500)).map(lambda later: at(0) + later),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kolkata"]),
)
def test_weeks_follow_each_other_without_a_gap(now: datetime, zone: str) -> None:
    week = last_week(now, zone)
    assert week.end <= now < week.end + timedelta(days=7, hours=1)
    assert last_week(week.end, zone) == week
    assert last_week(week.end - timedelta(microseconds=1), zone).end == week.start


def test_the_title_has_what_began_in_the_week() -> None:
    inside, before = a_life("i-1", INTO + 1, 10), a_life("i-2", INTO - 20, 10)
    across = a_life("i-3", INTO - 5, 10)
    assert said([inside, before, across]).startswith("GPU costs for the week ending 2026-10-12: $19.35\n")  # 15 x 1.29


def test_a_node_without_a_price_is_named() -> None:
    assert f"This total is too low: nodes of size {A100_X8} have no price." in said(
        [a_life(size=A100_X8, begins=INTO, price_usd_per_hour=None)]
    )


WHOLE = 7 * 24 * 60  # minutes


def test_a_node_of_which_one_gpu_was_held_all_week_was_not_busy_with_all_of_them() -> None:
    held = HeldHours(gpu_hours=168.0, known=1.0)
    minutes = {"pool-a100": PoolMinutes(known=WHOLE, busy=WHOLE)}  # the node had a GPU pod all the time
    text = said([a_life(size=A100_X8, begins=INTO - 24, lasts=400)], minutes=minutes, held=held)
    assert "1,344 GPU-hours paid, 168 held by workloads (13%)." in text


def test_held_hours_of_a_part_of_the_week_are_no_share_of_the_paid_ones() -> None:
    text = said([a_life(begins=INTO, lasts=10)], held=HeldHours(gpu_hours=1.0, known=0.25))
    assert "10 GPU-hours paid, 1 held by workloads in the 25% of the time that is known." in text


def test_what_was_not_accounted_for_is_unknown() -> None:
    assert "10 GPU-hours paid; how many workloads held is unknown." in said([a_life(begins=INTO, lasts=10)])


def test_waits_of_the_week_are_told_with_those_that_go_on() -> None:
    started = [a_workload(str(n), INTO + 1, minutes) for n, minutes in enumerate((1, 2, 90))]
    waiting, later = a_workload("waits", INTO + 2, None), a_workload("later", INTO + 200, None)
    assert (
        "3 workloads started: median wait 2 min, p95 1 h 30 min, longest 1 h 30 min;"
        " 1 workload still waited." in said(workloads=[*started, waiting, later])
    )


def test_nodes_that_came_and_went_are_counted() -> None:
    lives = [a_life("i-1", INTO + 1, 2), a_life("i-2", INTO - 5, 10), a_life("i-3", INTO + 3, None)]
    assert "2 nodes added, 2 removed." in said(lives)


def test_the_pool_whose_idle_nodes_cost_most_is_named() -> None:
    cheap, dear = (p.id for p in a_policy().pools if p.name in ("l40s", "h100"))
    minutes = {cheap: PoolMinutes(known=WHOLE, idle=120), dear: PoolMinutes(known=WHOLE, idle=120)}
    assert "Most idle: pool h100, $5.98 for nodes without GPU work." in said(minutes=minutes)


def test_idle_nodes_cost_what_they_were_bought_for() -> None:
    pool = next(p.id for p in a_policy().pools if p.name == "l40s")
    life = a_life("i-1", INTO, 10, pool=pool, price_usd_per_hour=Decimal("2.58"))
    minutes = {pool: PoolMinutes(known=WHOLE, idle=120)}
    assert "Most idle: pool l40s, $5.16 for nodes without GPU work." in said([life], minutes=minutes)


def test_without_idle_nodes_no_pool_is_named() -> None:
    assert "Most idle" not in said(minutes={p.id: PoolMinutes(known=WHOLE) for p in a_policy().pools})


def test_the_budget_is_told_with_its_forecast() -> None:
    outlook = Outlook(month="2026-10", monthly=Decimal(5000), spent=Decimal(1200), forecast=Decimal(3100))
    assert said(outlook=outlook).endswith(
        "Budget 2026-10: $1,200.00 of $5,000.00 spent; forecast $3,100.00 by the month's end."
    )
    unknown = replace(outlook, spent=None, forecast=None)
    assert said(outlook=unknown).endswith("Budget 2026-10: An unknown amount of $5,000.00 spent.")
