"""How many nodes existed at once; what always-on and committed capacity would have cost."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing, Commitment, CommittedNodes
from receiver.core.money.attribution import MonthToDate, attribute
from receiver.core.report.always_on import (
    CommittedAdvice,
    advice,
    always_on,
    baselines,
    committed_advice,
    occupancy,
)
from tests.core.report.builders import (
    A100_X8,
    AFTER,
    H100,
    HOUR,
    L40S,
    MONTH,
    PRICES,
    START,
    a_life,
    a_policy,
    a_usage,
    at,
)

spans = st.tuples(st.integers(-60, 24 * 60), st.one_of(st.none(), st.integers(1, 24 * 60)))
lives_of_a_day = st.lists(spans, max_size=12).map(
    lambda found: [a_life(f"i-{n}", b / 60, None if x is None else x / 60) for n, (b, x) in enumerate(found)]
)


def test_nodes_are_counted_for_as_long_as_so_many_existed() -> None:
    found = occupancy([a_life("a", 0, 4), a_life("b", 1, 2), a_life("c", 6, None)], START, at(8))
    assert found.at_least == (6 * HOUR, 2 * HOUR)
    assert (found.peak, found.always) == (2, 0)


def test_a_node_that_follows_another_at_once_needs_no_second_slot() -> None:
    found = occupancy([a_life("a", 0, 4), a_life("b", 4, 4)], START, at(8))
    assert (found.peak, found.always) == (1, 1)


def test_what_existed_outside_of_the_time_looked_at_does_not_count() -> None:
    assert occupancy([a_life("a", -5, 2), a_life("b", 9, 2)], START, at(8)).peak == 0


@given(lives_of_a_day)
def test_hours_by_level_add_up_to_the_hours_of_all_nodes(lives: list[NodeLife]) -> None:
    found = occupancy(lives, START, at(24))
    each = [max(min(x.gone_at or at(24), at(24)) - max(x.created_at, START), timedelta(0)) for x in lives]
    assert sum(found.at_least, timedelta(0)) == sum(each, timedelta(0))
    assert list(found.at_least) == sorted(found.at_least, reverse=True)


def test_always_on_is_each_pool_at_its_own_peak_all_the_time() -> None:
    lives = [a_life("a", 0, 2), a_life("b", 1, 1), a_life("c", 5, 1, size=H100)]
    found = always_on(lives, a_policy(), MONTH, at(10), {})
    assert found.peaks == {"h100": 1, "l40s": 2}
    assert found.usd == 10 * (2 * Decimal("1.29") + Decimal("2.99"))
    assert found.spent_usd == 3 * Decimal("1.29") + Decimal("2.99")
    assert found.saved_usd == Decimal("55.70") - Decimal("6.86")
    assert found.saved_ratio is not None
    assert round(found.saved_ratio, 4) == Decimal("0.8768")


def test_a_pool_without_a_price_is_left_out_of_both_sides_and_named() -> None:
    lives = [a_life("a", 0, 2), a_life("b", 0, 2, size=H100, price_usd_per_hour=None)]
    found = always_on(lives, a_policy(), MONTH, at(10), {})
    assert (found.usd, found.spent_usd, found.left_out) == (Decimal("12.90"), Decimal("2.58"), ("h100",))


def test_a_pool_that_the_ledger_knows_for_a_part_of_the_month_is_compared_over_that_part_alone() -> None:
    lives = [a_life("a", 3.5, 4), a_life("b", 6, 1), a_life("c", 0, 10, size=H100)]
    found = always_on(lives, a_policy(), MONTH, at(10), {"pool-l40s": at(5), "pool-h100": at(-100)})
    assert found.since == {"h100": START, "l40s": at(5)}
    assert found.usd == 5 * 2 * Decimal("1.29") + 10 * Decimal("2.99")
    # Of node a the unit that was under way counts, and the two after it; what it cost before does not.
    assert found.spent_usd == (3 + 1) * Decimal("1.29") + 10 * Decimal("2.99")


def test_a_pool_that_was_not_known_in_the_month_is_not_compared() -> None:
    found = always_on([a_life("a", 0, 2)], a_policy(), MONTH, at(10), {"pool-l40s": at(10)})
    assert (found.usd, found.peaks) == (Decimal(0), {})


def test_a_pool_that_left_the_configuration_goes_by_its_id() -> None:
    assert always_on([a_life("a", 0, 2, pool="old")], a_policy(), MONTH, at(10), {}).peaks == {"old": 1}


def test_without_nodes_there_is_nothing_to_save_and_no_ratio() -> None:
    found = always_on([], a_policy(), MONTH, at(10), {})
    assert (found.saved_usd, found.saved_ratio) == (Decimal(0), None)


@given(lives_of_a_day)
def test_no_saving_is_more_than_everything(lives: list[NodeLife]) -> None:
    found = always_on(lives, a_policy(), MONTH, at(24), {})
    assert found.spent_usd >= 0
    assert found.saved_ratio is None or found.saved_ratio <= 1


def a_commitment(usd: str = "1.09", size: str = L40S, months: int = 12) -> Commitment:
    return Commitment(size=size, term_months=months, usd_per_hour=Decimal(usd))


def test_the_nodes_that_exist_for_longer_than_the_break_even_are_recommended() -> None:
    lives = [a_life("a", 0, None), a_life("b", 0, 90), a_life("c", 0, 80)]
    [found] = advice([a_commitment()], lives, START, at(100))
    assert found.break_even is not None
    assert round(found.break_even, 4) == Decimal("0.8450")  # 84.5 of 100 hours: b pays, c does not
    assert found.recommended == 2
    assert found.saves_usd == (100 * Decimal("1.29") - 109) + (90 * Decimal("1.29") - 109)


def test_a_node_at_exactly_the_break_even_gains_nothing_and_is_not_recommended() -> None:
    [found] = advice([a_commitment("0.645")], [a_life("a", 0, 50)], START, at(100))
    assert (found.break_even, found.recommended) == (Decimal("0.5"), 0)


def test_a_commitment_dearer_than_on_demand_is_never_recommended() -> None:
    [found] = advice([a_commitment("1.29")], [a_life("a", 0, None)], START, at(100))
    assert (found.break_even, found.recommended, found.saves_usd) == (Decimal(1), 0, Decimal(0))


def test_a_commitment_of_a_size_that_nobody_used_is_not_recommended() -> None:
    [found] = advice([a_commitment(size=H100)], [a_life("a", 0, None)], START, at(100))
    assert (found.on_demand_usd_per_hour, found.break_even, found.recommended) == (None, None, 0)


def test_without_a_price_on_demand_nothing_is_recommended() -> None:
    [found] = advice([a_commitment()], [a_life("a", 0, None, price_usd_per_hour=None)], START, at(100))
    assert (found.break_even, found.recommended) == (None, 0)


@example(lives=[a_life("a", 0, None)], usd=PRICES[L40S])  # at the break-even
@given(lives_of_a_day, st.decimals("0.05", "2", places=2))
def test_a_recommended_commitment_never_costs_more_than_it_replaces(lives: list[NodeLife], usd: Decimal) -> None:
    offer = Commitment(size=L40S, term_months=12, usd_per_hour=usd)
    [found] = advice([offer], lives, START, at(24))
    assert found.saves_usd >= 0
    assert (found.saves_usd > 0) is (found.recommended > 0)
    assert found.recommended <= occupancy(lives, START, at(24)).peak


def test_the_baseline_is_what_existed_all_the_time() -> None:
    lives = [a_life("a", -1, None), a_life("b", 2, 3), a_life("c", 1, 2, size=A100_X8)]
    by_size = {b.size: (b.always, b.any_hours, b.peak) for b in baselines(lives, START, at(10))}
    assert by_size == {L40S: (1, Decimal(10), 2), A100_X8: (0, Decimal(2), 1)}


@pytest.mark.parametrize("hours", [0, -1])
def test_a_time_of_no_length_has_nothing_in_it(hours: int) -> None:
    assert occupancy([a_life("a", -2, None)], START, at(hours)).peak == 0
    assert always_on([a_life("a", -2, None)], a_policy(), MONTH, at(hours), {}).usd == 0


# --- pools with committed nodes


def committed_report(nodes: int, *lives: NodeLife, held: float = 0, now: datetime = AFTER) -> CommittedAdvice:
    """The advice on a month of the L40S pool with so many *nodes* at USD 0.89, in which work *held* GPUs for so many
    hours."""
    term = CommittedNodes(
        pool="pool-l40s", size=L40S, nodes=nodes, usd_per_hour=Decimal("0.89"), until=AFTER + 30 * HOUR
    )
    policy = a_policy(billing=Billing(committed=(term,)))
    usage = [a_usage(instance=life.instance, hours=held / len(lives)) for life in lives if held]
    attributed = attribute(lives, usage, (), MonthToDate(MONTH, now, policy.billing))
    [found] = committed_advice(lives, attributed, policy, MONTH, min(now, MONTH.end))
    return found


def test_one_more_committed_node_pays_when_more_nodes_ran_for_longer_than_its_price_is_lower() -> None:
    """31 days of USD 0.89 are USD 662.16: 513.3 hours of USD 1.29."""
    lives = [a_life("a", 0, None), a_life("b", 0, 514)]
    assert committed_report(1, *lives, held=744).more_saves_usd == 514 * Decimal("1.29") - Decimal("662.16") > 0
    shorter = [a_life("a", 0, None), a_life("b", 0, 513)]
    assert committed_report(1, *shorter, held=744).more_saves_usd < 0


def test_one_committed_node_fewer_pays_when_work_held_too_little_of_it() -> None:
    lives = [a_life("a", 0, None), a_life("b", 0, None)]  # they stay, used or not
    assert committed_report(2, *lives, held=1028).fewer_saves_usd < 0
    found = committed_report(2, *lives, held=1000)
    assert found.fewer_saves_usd == Decimal("662.16") - 500 * Decimal("1.29") > 0
    assert found.beyond_hours == 0
    assert found.held_hours == 1000


def test_a_committed_node_that_never_existed_would_not_be_missed() -> None:
    assert committed_report(2, a_life("a", 0, None), held=744).fewer_saves_usd == Decimal("662.16")


def test_what_is_left_of_a_month_speaks_for_no_change() -> None:
    early = committed_report(2, a_life("a", 0, None), now=MONTH.start + 24 * HOUR)
    assert early.fewer_saves_usd < 0
    assert early.more_saves_usd < 0
