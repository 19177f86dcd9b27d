"""Node lives as money."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Anchor, Billing, Budget, Rounding
from receiver.core.money.budget import BudgetStage, month_of, stage_of
from receiver.core.money.cost import (
    dearer_per_hour,
    elsewhere_per_hour,
    next_unit_at,
    spend_by_pool,
    unit_price,
    units,
    units_since,
)
from tests.core.builders import MINUTE, a_life, a_pool

BORN = datetime(2026, 11, 20, 12, 10, tzinfo=UTC)
HOURLY = Billing()
BY_THE_CLOCK = Billing(anchor=Anchor.CLOCK)


def lived(lasted: timedelta | None = None, price: Decimal | None = Decimal("1.29"), born: datetime = BORN) -> NodeLife:
    gone = None if lasted is None else born + lasted
    return a_life(pool="p", created_at=born, price_usd_per_hour=price, gone_at=gone)


@pytest.mark.parametrize(
    ("lasted", "ceil", "floor"),
    [
        pytest.param(timedelta(seconds=1), 1, 1, id="a second"),
        pytest.param(59 * MINUTE, 1, 1, id="59 minutes"),
        pytest.param(60 * MINUTE, 1, 1, id="exactly an hour"),
        pytest.param(61 * MINUTE, 2, 1, id="61 minutes"),
        pytest.param(timedelta(hours=18, minutes=7), 19, 18, id="18.11 hours, as in a sample of the charges API"),
    ],
)
def test_hours_are_paid_as_started_or_by_the_other_reading_as_whole(lasted: timedelta, ceil: int, floor: int) -> None:
    later = BORN + timedelta(days=2)
    assert units(lived(lasted), later, HOURLY) == ceil
    assert units(lived(lasted), later, Billing(rounding=Rounding.FLOOR_MIN_ONE)) == floor


def test_a_living_node_owes_its_started_hour_whole() -> None:
    assert units(lived(), BORN + 60 * MINUTE, Billing(rounding=Rounding.FLOOR_MIN_ONE)) == 2


def test_hours_on_the_clock_count_the_borders_crossed() -> None:
    assert units(lived(60 * MINUTE), BORN + timedelta(days=1), BY_THE_CLOCK) == 2
    assert next_unit_at(BORN, BORN, BY_THE_CLOCK) == datetime(2026, 11, 20, 13, 0, tzinfo=UTC)


def test_an_hour_belongs_to_the_month_it_begins_in() -> None:
    born = datetime(2026, 10, 31, 22, 30, tzinfo=UTC)
    november = datetime(2026, 11, 1, tzinfo=UTC)
    life = lived(timedelta(hours=4), born=born)  # begun at 22:30, 23:30 | 00:30, 01:30
    assert units_since(life, november, november + timedelta(days=1), HOURLY) == 2


def test_a_size_without_a_price_is_named_and_not_counted_as_nothing() -> None:
    pools, unpriced = spend_by_pool([lived(), lived(price=None)], BORN, BORN + MINUTE, HOURLY)
    assert (sum(pools.values()), unpriced) == (Decimal("1.29"), ("an.g1.l40s.kube.x1",))


def test_a_price_per_second_adds_up_to_the_price_per_hour() -> None:
    by_second = Billing(granularity=timedelta(seconds=1))
    assert units(lived(60 * MINUTE), BORN + timedelta(days=1), by_second) * unit_price(Decimal(36), by_second) == 36


moments = st.integers(0, 10**6).map(lambda s: BORN + timedelta(seconds=s))
billings = st.builds(
    Billing,
    granularity=st.sampled_from([timedelta(seconds=1), MINUTE, timedelta(hours=1)]),
    anchor=st.sampled_from(list(Anchor)),
)


@given(moments, billings)
def test_the_next_unit_is_after_now_and_at_most_one_unit_away(now: datetime, billing: Billing) -> None:
    ahead = next_unit_at(BORN, now, billing)
    assert now < ahead <= now + billing.granularity


@given(moments, billings)
def test_a_node_removed_before_its_next_unit_never_pays_that_unit(now: datetime, billing: Billing) -> None:
    border = next_unit_at(BORN, now, billing)
    before = units(lived(max(border - BORN, timedelta(seconds=1))), border + timedelta(days=9), billing)
    after = units(lived(border - BORN + timedelta(microseconds=1)), border + timedelta(days=9), billing)
    assert after == before + 1


@given(moments, moments, billings)
def test_a_node_never_pays_less_than_it_lived(since: datetime, until: datetime, billing: Billing) -> None:
    lasted = abs(until - since)
    assert units(lived(lasted), until + timedelta(days=30), billing) * billing.granularity >= lasted


@pytest.mark.parametrize(
    ("spent", "stage"),
    [
        ("49.99", BudgetStage.OK),
        ("50", BudgetStage.WARN),
        ("79.99", BudgetStage.WARN),
        ("80", BudgetStage.HOLD),
        ("99.99", BudgetStage.HOLD),
        ("100", BudgetStage.STOP),
    ],
)
def test_the_stage_of_a_budget_of_100_dollars(spent: str, stage: BudgetStage) -> None:
    assert stage_of(Decimal(spent), Budget(monthly_usd=Decimal(100)), Decimal(100)) is stage


def test_a_month_is_that_of_the_budgets_zone() -> None:
    now = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
    there = month_of(now, "America/New_York")
    assert (there.name, there.start) == ("2026-11", datetime(2026, 11, 1, 4, 0, tzinfo=UTC))
    assert there.end == datetime(2026, 12, 1, 5, 0, tzinfo=UTC)


def test_living_nodes_of_a_pool_that_left_the_configuration_go_on_costing() -> None:
    lives = [lived(), lived(price=None), lived(lasted=MINUTE)]
    assert elsewhere_per_hour(lives, set()) == Decimal("1.29")
    assert elsewhere_per_hour(lives, {"p"}) == 0


@pytest.mark.parametrize(("now", "more"), [("1.00", {"p": Decimal("0.29")}), ("1.29", {}), ("2", {}), (None, {})])
def test_a_living_node_costs_what_it_did_when_it_came(now: str | None, more: dict[str, Decimal]) -> None:
    lives = [lived(), lived(price=None), lived(lasted=MINUTE)]
    pool = a_pool("p", id="p", price_usd_per_hour=None if now is None else Decimal(now))
    assert dearer_per_hour(lives, [pool]) == more
