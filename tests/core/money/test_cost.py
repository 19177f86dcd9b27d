"""Node lives as money: ended lives counted once, and cents that add up on every level."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Anchor, Billing, Budget, Rounding
from receiver.core.money.budget import BudgetStage, month_of, stage_of
from receiver.core.money.cost import (
    CENT,
    EndedLog,
    amount,
    dearer_per_hour,
    elsewhere_per_hour,
    in_cents,
    level_by_level,
    next_unit_at,
    paid_units,
    spend_by_pool,
    to_cents,
    unit_price,
    units,
    units_since,
)
from tests.core.builders import HOUR, MINUTE, NOW, a_life, a_pool

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


@pytest.mark.parametrize("rounding", Rounding)
def test_of_a_life_that_ends_later_only_what_was_until_now_is_paid(rounding: Rounding) -> None:
    """As of a month that was closed while the node ran."""
    now = BORN + 5 * HOUR
    assert units(lived(9 * HOUR), now, Billing(rounding=rounding)) == 5


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


amounts = st.decimals("0", "50", places=6)
paths = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))
dealt = st.dictionaries(st.integers(0, 40), st.tuples(amounts, paths), max_size=25)


def total(cents: dict[int, Decimal]) -> Decimal:
    return sum(cents.values(), Decimal(0))


@given(dealt)
def test_every_level_adds_up_to_the_one_above(found: dict[int, tuple[Decimal, tuple[str, str]]]) -> None:
    exact = {name: usd for name, (usd, _) in found.items()}
    cents = level_by_level(exact, {name: path for name, (_, path) in found.items()})
    widest = to_cents({top: sum((u for u, p in found.values() if p[0] == top), Decimal(0)) for top in "abc"})
    assert total(cents) == in_cents(sum(exact.values(), Decimal(0)))
    for top, usd in widest.items():
        assert sum((cents[n] for n, (_, path) in found.items() if path[0] == top), Decimal(0)) == usd


def test_half_a_cent_goes_up_whatever_the_rest_of_a_division_says() -> None:
    minutes, hourly = 75, Decimal("0.0440")
    by_the_minute = sum((hourly / 60 for _ in range(minutes)), Decimal(0))
    at_once = hourly * minutes / 60
    assert by_the_minute != at_once, "the two ways agree: choose another price"
    assert in_cents(by_the_minute) == in_cents(at_once) == Decimal("0.06")


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12))
def test_an_amount_is_written_in_digits_alone_and_is_the_same_amount(usd: Decimal) -> None:
    text = amount(usd)
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text)
    assert Decimal(text) == usd


@pytest.mark.parametrize(
    ("usd", "text"), [("0E-29", "0.00"), ("1E+3", "1000"), ("1.5", "1.5"), ("1.2900", "1.29"), ("0.0001500", "0.00015")]
)
def test_an_amount_has_no_zeros_behind_its_cents(usd: str, text: str) -> None:
    assert amount(Decimal(usd)) == text


@given(dealt)
def test_no_amount_is_further_from_the_exact_one_than_a_cent(
    found: dict[int, tuple[Decimal, tuple[str, str]]],
) -> None:
    exact = {name: usd for name, (usd, _) in found.items()}
    cents = level_by_level(exact, {name: path for name, (_, path) in found.items()})
    assert all(abs(cents[name] - exact[name]) < CENT for name in exact)


@given(st.dictionaries(st.integers(0, 40), amounts, min_size=1, max_size=25), st.integers(-5, 5))
def test_a_total_that_was_rounded_elsewhere_is_met(exact: dict[int, Decimal], off: int) -> None:
    wanted = max(Decimal("0.00"), in_cents(sum(exact.values(), Decimal(0))) + off * CENT)
    found = to_cents(exact, wanted)
    assert total(found) == wanted
    assert all(usd >= 0 for usd in found.values())


def test_the_rest_of_a_division_is_never_a_cent_below_nothing() -> None:
    exact = {"a": Decimal("0.056"), "b": Decimal("-1E-12")}
    assert to_cents(exact) == {"a": Decimal("0.06"), "b": Decimal("0.00")}


def test_what_cost_nothing_gets_no_cent() -> None:
    assert to_cents({"a": Decimal(0), "b": Decimal("0.014"), "c": Decimal("0.001")}, Decimal("0.03")) == {
        "a": Decimal("0.00"),
        "b": Decimal("0.02"),
        "c": Decimal("0.01"),
    }


BILLINGS = (
    Billing(),
    Billing(anchor=Anchor.CLOCK),
    Billing(rounding=Rounding.FLOOR_MIN_ONE),
    Billing(granularity=timedelta(seconds=1)),
)


def drawn(dice: Random, number: int, gone_at: datetime | None) -> NodeLife:
    """One of two pools, created before *gone_at*; some sizes have no price."""
    price = dice.choice((Decimal("1.29"), Decimal("1.29"), Decimal("2.58"), None))
    return a_life(
        f"i-{number}",
        pool=dice.choice(("a", "b")),
        size=f"size-{price}",
        created_at=(gone_at or NOW) - dice.uniform(0, 90) * HOUR,
        price_usd_per_hour=price,
        gone_at=gone_at,
    )


@pytest.mark.parametrize("billing", BILLINGS)
@pytest.mark.parametrize("since", [NOW - 60 * HOUR, NOW - 20 * HOUR])
def test_what_ended_lives_and_others_cost_is_what_counting_all_of_them_gives(billing: Billing, since: datetime) -> None:
    dice = Random(7)
    living = [drawn(dice, 1000 + number, None) for number in range(5)]
    ended, all_of_them = EndedLog(), list(living)
    for number in range(40):
        life = drawn(dice, number, NOW - dice.uniform(0, 50) * HOUR)
        ended.add(life)
        all_of_them.append(life)
        assert spend_by_pool(living, since, NOW, billing, ended) == spend_by_pool(all_of_them, since, NOW, billing)


def test_another_month_is_counted_anew() -> None:
    dice, ended = Random(8), EndedLog()
    for number in range(20):
        ended.add(drawn(dice, number, NOW - dice.uniform(0, 50) * HOUR))
    for since in (NOW - 60 * HOUR, NOW - 20 * HOUR, NOW - 60 * HOUR):
        assert ended.paid_units(since, Billing()) == paid_units(ended.lives, since, NOW, Billing())


def test_a_life_that_goes_on_is_refused() -> None:
    with pytest.raises(ValueError, match="instance i-1 is not gone"):
        EndedLog().add(drawn(Random(1), 1, None))


def test_two_logs_of_the_same_lives_are_equal() -> None:
    lives = [drawn(Random(2), number, NOW) for number in range(3)]
    assert EndedLog(lives) == EndedLog(lives)
    assert EndedLog(lives) != EndedLog(lives[:2])
