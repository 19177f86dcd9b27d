"""Civo's charges as hours and money, beside the ledger: each cause of a difference, and what a lost store is given."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.charges import (
    Charge,
    Charged,
    Comparison,
    DifferenceCause,
    Seed,
    beside,
    cost,
    distinct,
    is_due,
    new_seed,
    node_price,
    seeded_by_pool,
    seeded_usd,
    windows,
)
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Spend
from receiver.core.model.policy import Billing, Budget, ChargePrice, Policy, Stated
from receiver.core.money.reconciliation import account, compare
from receiver.core.notices.money_notices import of_charges
from receiver.reports.picture import ChargesDocument
from tests.core.builders import HOUR, NOW, a_policy, a_pool, a_state, facts
from tests.core.money.builders import (
    MONTH_START,
    SIZE,
    a_charge,
    a_ledger_life,
    an_answer_of_charges,
    month_hour,
)

PRICE = Decimal("1.29")
PRICES = {
    "loadbalancer": ChargePrice(usd_per_hour=Decimal("0.015")),
    "volume": ChargePrice(usd_per_gb_hour=Decimal("0.00015")),
    "kube-node-g4s.kube.medium": ChargePrice(usd_per_hour=Decimal("0.03")),
}


def a_comparison(
    records: list[Charge], lives: list[NodeLife], policy: Policy | None = None, began: datetime | None = MONTH_START
) -> Comparison:
    return compare(an_answer_of_charges(*records), lives, policy or a_policy(), MONTH_START, began)


@pytest.mark.parametrize(
    ("charge", "hours"),
    [
        pytest.param(a_charge(), 4, id="within the month Civo's own count holds"),
        pytest.param(a_charge(hours=3.5), Decimal("3.5"), id="a fraction is kept"),
        pytest.param(a_charge(10, 13.2, None), 4, id="without a count started hours count"),
        pytest.param(a_charge(10, 10, None), 1, id="one that ended at once is one hour"),
        pytest.param(a_charge(455, None, None), 13, id="one that runs on counts up to the answer"),
        pytest.param(a_charge(-20, 4, 24), 4, id="one from last month is clipped"),
        pytest.param(a_charge(-20, 4, 4), 4, id="one that Civo has clipped already is left alone"),
        pytest.param(a_charge(-20, -2, 18), 0, id="one of last month is none of this"),
        pytest.param(a_charge(None, None, 7), 7, id="without times its count holds"),
        pytest.param(a_charge(None, -3, 7), 0, id="an end before the month is enough"),
        pytest.param(a_charge(nodes=3), 12, id="nodes multiply"),
        pytest.param(a_charge(900, None, 5), 0, id="one from the future has none yet"),
    ],
)
def test_hours_of_a_record_within_the_month(charge: Charge, hours: Decimal) -> None:
    assert charge.hours_in(MONTH_START, NOW) == hours


def test_a_month_of_31_days_and_an_hour_is_asked_for_in_two_windows() -> None:
    october = datetime(2026, 9, 30, 23, tzinfo=UTC)  # Europe/London: the clock goes back on the 25th
    end = datetime(2026, 11, 1, tzinfo=UTC)
    assert list(windows(october, end)) == [(october, october + timedelta(days=31)), (end - HOUR, end)]


def test_a_month_of_31_days_is_one_window_and_no_time_is_none() -> None:
    assert list(windows(MONTH_START, MONTH_START + timedelta(days=31))) == [
        (MONTH_START, MONTH_START + timedelta(days=31))
    ]
    assert list(windows(MONTH_START, MONTH_START)) == []


def test_a_record_in_two_windows_counts_once_with_its_most_hours() -> None:
    first, again, other = a_charge(id="1", hours=4), a_charge(id="1", hours=5), a_charge(id="2")
    assert distinct([[first], [again, other]]) == (again, other)


def test_records_without_an_id_count_once_over_two_windows_and_each_within_one() -> None:
    nameless = a_charge(to=None, hours=4)
    longer = replace(nameless, hours=Decimal(5))
    assert distinct([[nameless, nameless], [longer]]) == (longer, nameless)
    assert distinct([[nameless, nameless], [longer, longer]]) == (longer, longer)
    other = a_charge(11, 14)
    assert distinct([[nameless], [other]]) == (nameless, other)


def test_of_a_record_that_each_window_shows_its_part_of_both_parts_count() -> None:
    parts = a_charge(10, 14, 4, id="1"), a_charge(14, 15, 1, id="1")
    assert distinct([[part] for part in parts]) == parts


def test_records_that_tell_neither_id_nor_beginning_are_all_kept() -> None:
    bare = a_charge(None, None, 7)
    assert distinct([[bare], [bare]]) == (bare, bare)


@pytest.mark.parametrize(
    ("held", "urgent", "due"),
    [
        (None, False, True),
        (an_answer_of_charges(asked_at=NOW - timedelta(minutes=14)), False, False),
        (an_answer_of_charges(asked_at=NOW - timedelta(minutes=15)), False, True),
        (an_answer_of_charges(asked_at=NOW - timedelta(minutes=1), failure="down"), False, False),
        (an_answer_of_charges(asked_at=NOW - timedelta(minutes=1), failure="down"), True, True),
        (an_answer_of_charges(asked_at=NOW - timedelta(minutes=1)), True, False),
        (
            an_answer_of_charges(asked_at=NOW - timedelta(minutes=1), unreadable=("record 3: it has no code",)),
            True,
            True,
        ),
        (
            an_answer_of_charges(asked_at=NOW - timedelta(minutes=1), unreadable=("record 3: it has no code",)),
            False,
            False,
        ),
        (an_answer_of_charges(asked_at=NOW - timedelta(minutes=1), month="2026-10"), False, True),
        (an_answer_of_charges(asked_at=NOW + timedelta(minutes=1)), False, True),
    ],
)
def test_charges_are_asked_for_every_15_minutes_and_sooner_only_while_growth_waits(
    held: Charged | None, urgent: bool, due: bool
) -> None:
    assert is_due(held, "2026-11", NOW, urgent=urgent) is due


@pytest.mark.parametrize(
    ("record", "life", "cause"),
    [
        pytest.param(a_charge(), a_ledger_life(), None, id="the same hours"),
        pytest.param(
            a_charge(hours=3), a_ledger_life(10, 14.5, name="n1"), DifferenceCause.SEEN_LATE, id="its end was seen late"
        ),
        pytest.param(a_charge(hours=3), a_ledger_life(), None, id="an hour less is equal"),
        pytest.param(
            a_charge(10, 20, 10),
            a_ledger_life(),
            DifferenceCause.STILL_CHARGED,
            id="charged beyond the end that was seen",
        ),
        pytest.param(a_charge(10, None, 400), a_ledger_life(), DifferenceCause.STILL_CHARGED, id="charged on and on"),
        pytest.param(
            a_charge(440, None, 2), a_ledger_life(440, None), DifferenceCause.NOT_CHARGED_YET, id="the charges lag"
        ),
        pytest.param(a_charge(hours=9), a_ledger_life(), DifferenceCause.HOURS_DIFFER, id="more hours than it lived"),
        pytest.param(
            a_charge(hours=1), a_ledger_life(), DifferenceCause.HOURS_DIFFER, id="fewer hours, the same times"
        ),
    ],
)
def test_a_node_of_both_is_equal_within_an_hour_or_its_difference_has_a_cause(
    record: Charge, life: NodeLife, cause: DifferenceCause | None
) -> None:
    found = a_comparison([record], [life])
    assert [d.cause for d in found.differences] == ([] if cause is None else [cause])
    assert found.sizes[0].equal == (1 if cause is None else 0)


@pytest.mark.parametrize(
    ("records", "lives", "cause"),
    [
        pytest.param([], [a_ledger_life(467, None)], DifferenceCause.NOT_CHARGED_YET, id="a young node"),
        pytest.param([], [a_ledger_life()], DifferenceCause.NOT_CHARGED, id="an old one"),
        pytest.param([a_charge(410, 411, 1)], [], DifferenceCause.CAME_AND_WENT, id="it came and went"),
        pytest.param([a_charge(20, None, 400)], [], DifferenceCause.ELSEWHERE, id="it lives elsewhere"),
        pytest.param([a_charge(1, 3, 2)], [], DifferenceCause.BEFORE_LEDGER, id="it was before the ledger"),
    ],
)
def test_a_node_of_one_side_alone_has_a_cause(
    records: list[Charge], lives: list[NodeLife], cause: DifferenceCause
) -> None:
    known, its = a_ledger_life(100, 104, name="known"), a_charge(100, 104, label="known")
    found = a_comparison([*records, its], [*lives, known], began=month_hour(50))
    assert [d.cause for d in found.differences] == [cause]


def test_several_records_of_one_node_are_one() -> None:
    found = a_comparison([a_charge(10, 12, 2), a_charge(12, 14, 2)], [a_ledger_life()])
    assert (found.differences, found.sizes[0].equal) == ((), 1)


def test_a_record_is_a_nodes_by_the_instance_id_before_its_name() -> None:
    found = a_comparison([a_charge(label="demo", product="i-n1")], [a_ledger_life()])
    assert (found.differences, found.sizes[0].spare_hours) == ((), Decimal(0))


def test_where_no_label_is_a_name_the_sums_are_compared() -> None:
    records = [a_charge(label="demo"), a_charge(20, 29, 9, label="demo")]
    lives = [a_ledger_life(), a_ledger_life(20, 28, name="n2")]
    assert a_comparison(records, lives).differences == ()
    more = a_comparison([*records, a_charge(30, 40, 10, label="demo")], lives)
    [line] = more.differences
    assert (line.cause, int(line.charged_hours), int(line.ledger_hours)) == (DifferenceCause.NOT_TOLD_APART, 23, 12)
    assert more.sizes[0].spare_hours == 11


def test_young_nodes_that_are_not_charged_yet_take_nothing_off_what_others_were_charged() -> None:
    found = a_comparison([a_charge(label="gone before")], [a_ledger_life(467, None)], began=None)
    assert [d.cause for d in found.differences] == [DifferenceCause.NOT_CHARGED_YET, DifferenceCause.BEFORE_LEDGER]
    assert found.sizes[0].spare_hours == 4


def test_where_one_label_is_a_name_others_are_not_made_up_for_by_their_sum() -> None:
    records = [a_charge(), a_charge(20, 28, 8, label="theirs")]
    found = a_comparison(records, [a_ledger_life(), a_ledger_life(20, 28, name="ours")])
    assert [(d.name, d.cause) for d in found.differences] == [
        ("ours", DifferenceCause.NOT_CHARGED),
        ("theirs", DifferenceCause.CAME_AND_WENT),
    ]


def test_nodes_younger_than_the_answer_are_not_compared() -> None:
    found = compare(an_answer_of_charges(), [a_ledger_life(470, None)], a_policy(), MONTH_START, MONTH_START)
    assert (found.sizes, found.differences) == ((), ())


def test_a_difference_is_worth_its_hours_at_the_pools_price() -> None:
    [line] = a_comparison([a_charge(10, 20, 10)], [a_ledger_life()]).differences
    assert line.usd == 6 * PRICE
    bare = a_policy(a_pool(price_usd_per_hour=None))
    assert a_comparison([a_charge(10, 20, 10)], [a_ledger_life()], bare).differences[0].usd is None


@pytest.mark.parametrize(
    ("record", "usd"),
    [
        (Charge(code="loadbalancer"), Decimal("0.15")),
        (Charge(code="volume", size_gb=Decimal(100)), Decimal("0.15")),
        (Charge(code="volume"), None),
        (Charge(code="dbaas-small"), None),
        (Charge(code="kube-node-g4s.kube.medium"), Decimal("0.3")),
        (Charge(code="kube-node-g4s.kube.large"), None),
        (Charge(code=f"kube-node-{SIZE}"), 10 * PRICE),
    ],
)
def test_ten_hours_of_a_code_cost_what_the_price_file_says_or_nobody_knows(record: Charge, usd: Decimal | None) -> None:
    assert cost(record, Decimal(10), a_policy(charge_prices=PRICES)) == usd


def test_of_pools_that_share_a_size_the_dearer_price_counts() -> None:
    policy = a_policy(a_pool("a"), a_pool("b", price_usd_per_hour=Decimal(2)))
    assert node_price(SIZE, policy) == 2


def test_the_account_is_the_ledger_and_what_else_is_charged_and_names_what_has_no_price() -> None:
    records = [
        a_charge(),
        a_charge(30, 33, 3, label="other"),
        Charge(code="loadbalancer", hours=Decimal(100)),
        Charge(code="dbaas-small", hours=Decimal(12)),
    ]
    policy = a_policy(charge_prices=PRICES)
    found = a_comparison(records, [a_ledger_life()], policy)
    assert account(found, Decimal(100), MONTH_START, policy) == 100 + 3 * PRICE + Decimal("1.5")
    assert found.unpriced == (("dbaas-small", Decimal(12)),)


def test_before_civo_answered_the_account_is_not_known() -> None:
    silent = compare(
        an_answer_of_charges(answered_at=None, failure="down"), [a_ledger_life()], a_policy(), MONTH_START, MONTH_START
    )
    assert account(silent, Decimal(100), MONTH_START, a_policy()) is None


def seed_of(compared: Comparison | None, held: Seed | None = None, stated: Stated | None = None) -> Seed | None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(1000), stated=stated))
    return new_seed(held, compared, Decimal(50), policy, "2026-11", NOW)


def test_a_new_store_is_seeded_with_the_hours_of_our_sizes_that_it_does_not_know() -> None:
    found = a_comparison([a_charge(), a_charge(30, 40, 10, label="gone")], [a_ledger_life()], began=None)
    assert seed_of(found) == Seed(month="2026-11", at=NOW, hours={SIZE: Decimal(10)}, prices={SIZE: PRICE})


def test_a_seed_remembers_the_nodes_that_still_run_and_counts_none_of_them_beside_the_ledger() -> None:
    running = a_charge(448, None, 10, label="later", product="i-later")
    found = a_comparison([running, a_charge(30, 40, 10, label="gone")], [], began=None)
    seed = seed_of(found)
    assert seed is not None
    assert seed.hours == {SIZE: Decimal(20)}
    assert [(n.label, n.hours) for n in seed.elsewhere] == [("later", Decimal(10))]
    for known in (("i-later", ""), ("", "later")):
        counted = beside(seed, [known])
        assert counted is not None
        assert counted.hours == {SIZE: Decimal(10)}
    assert beside(seed, [("i-other", "other")]) == seed
    assert beside(None, [("i-later", "later")]) is None


def test_a_nameless_charge_in_a_seed_is_no_node_that_the_ledger_can_come_to_know() -> None:
    seed = seed_of(a_comparison([a_charge(448, None, 10, label="")], [], began=None))
    assert beside(seed, [("", "")]) == seed


@pytest.mark.parametrize(
    "compared",
    [
        None,
        Comparison(charged=an_answer_of_charges(answered_at=None, failure="down")),
        Comparison(charged=an_answer_of_charges(unreadable=("record 1: it has no code",))),
        Comparison(charged=an_answer_of_charges(month="2026-10")),
    ],
)
def test_without_a_whole_answer_for_the_month_there_is_no_seed(compared: Comparison | None) -> None:
    assert seed_of(compared) is None


def test_a_store_is_seeded_once() -> None:
    held = Seed(month="2026-10", at=MONTH_START)
    assert seed_of(a_comparison([a_charge()], []), held) is None


def test_a_stated_amount_is_the_whole_months_up_to_now() -> None:
    stated = Stated(month="2026-11", usd=Decimal(1200))
    made = seed_of(None, stated=stated)
    assert made == Seed(month="2026-11", at=NOW, usd=Decimal(1150), stated=Decimal(1200))
    assert seed_of(None, held=made, stated=stated) is None
    assert seed_of(None, held=made, stated=replace(stated, usd=Decimal(20))) == Seed(
        month="2026-11", at=NOW, usd=Decimal(0), stated=Decimal(20)
    )


def test_a_new_store_takes_the_larger_of_what_is_stated_and_what_was_charged() -> None:
    found = a_comparison([a_charge(), a_charge(30, 40, 10, label="gone")], [a_ledger_life()], began=None)
    usual: dict[str, Any] = {"month": "2026-11", "at": NOW}
    left_over = Stated(month="2026-11", usd=Decimal(51))
    by_charges = Seed(**usual, hours={SIZE: Decimal(10)}, stated=Decimal(51), prices={SIZE: PRICE})
    assert seed_of(found, stated=left_over) == by_charges
    assert seed_of(found, held=by_charges, stated=left_over) is None
    more = Stated(month="2026-11", usd=Decimal(1200))
    by_statement = Seed(**usual, usd=Decimal(1150), stated=Decimal(1200))
    assert seed_of(found, stated=more) == by_statement
    assert seed_of(found, held=by_statement, stated=left_over) == Seed(**usual, usd=Decimal(1), stated=Decimal(51))


def test_spend_from_before_the_ledger_keeps_the_price_of_then() -> None:
    seed = seed_of(a_comparison([a_charge(30, 40, 10, label="gone")], []))
    assert seed is not None
    dearer = replace(a_policy(), pools=tuple(replace(p, price_usd_per_hour=2 * PRICE) for p in a_policy().pools))
    for policy in (a_policy(), dearer):
        assert seeded_usd(seed, policy, "2026-11") == (10 * PRICE, ())
        assert dict(seeded_by_pool(seed, policy, "2026-11")) == {"l40s-id": 10 * PRICE}


def test_the_accounts_spend_from_before_the_ledger_keeps_the_price_of_then() -> None:
    found = a_comparison([a_charge(30, 40, 10, label="gone")], [])
    dearer = replace(a_policy(), pools=tuple(replace(p, price_usd_per_hour=2 * PRICE) for p in a_policy().pools))
    assert account(found, Decimal(0), MONTH_START, dearer, seed_of(found)) == account(
        found, Decimal(0), MONTH_START, a_policy()
    )


def test_a_seed_of_an_older_version_and_a_size_without_a_price_get_the_first_price_for_good() -> None:
    older = Seed(month="2026-11", at=NOW, hours={SIZE: Decimal(10), "new.size": Decimal(3)})
    assert seed_of(None, older) == replace(older, prices={SIZE: PRICE})
    assert seed_of(None, replace(older, prices={SIZE: Decimal(1)})) is None


def test_a_seed_costs_what_its_sizes_cost_now_and_only_in_its_month() -> None:
    seed = Seed(month="2026-11", at=NOW, hours={SIZE: Decimal(10), "new.size": Decimal(3)})
    assert seeded_usd(seed, a_policy(), "2026-11") == (10 * PRICE, ("new.size",))
    assert seeded_usd(seed, a_policy(), "2026-12") == (Decimal(0), ())
    assert seeded_by_pool(seed, a_policy(), "2026-11") == (("l40s-id", 10 * PRICE),)
    assert seeded_by_pool(seed, a_policy(), "2026-12") == ()


def test_what_nobody_can_tell_apart_counts_for_every_pool_that_it_may_have_been() -> None:
    policy = a_policy(a_pool("a"), a_pool("b"), a_pool("c", size="g4g.kube.small"))
    by_hours = Seed(month="2026-11", at=NOW, hours={SIZE: Decimal(10)})
    assert seeded_by_pool(by_hours, policy, "2026-11") == (("a-id", 10 * PRICE), ("b-id", 10 * PRICE))
    stated = Seed(month="2026-11", at=NOW, usd=Decimal(7), stated=Decimal(8))
    assert seeded_by_pool(stated, policy, "2026-11") == (
        ("a-id", Decimal(7)),
        ("b-id", Decimal(7)),
        ("c-id", Decimal(7)),
    )


def told(compared: Comparison, **billing: Any) -> list[str]:
    found = facts(a_state(), spend=Spend(month="2026-11", usd=Decimal(0)), charges=compared)
    return [n.title for n in of_charges(found, a_policy(billing=Billing(**billing))) if not n.all_clear]


def test_a_difference_is_told_only_above_the_tolerance() -> None:
    found = a_comparison([a_charge(10, 20, 10)], [a_ledger_life()])  # six hours: USD 7.74
    assert told(found) == []
    title = f"Civo's charges and our ledger differ by $7.74 for {SIZE} in 2026-11"
    assert told(found, charges_tolerance_usd=Decimal("7.73")) == [title]
    assert told(found, charges_tolerance_usd=Decimal("7.74")) == []


def test_what_the_seed_holds_or_is_none_of_ours_is_not_told() -> None:
    records = [a_charge(20, None, 400, label="elsewhere"), a_charge(1, 3, 2, label="gone before"), a_charge(100, 104)]
    found = a_comparison(records, [a_ledger_life(100, 104)], began=month_hour(50))
    assert len(found.differences) == 2
    assert told(found, charges_tolerance_usd=Decimal(10)) == []


def test_charges_that_stay_silent_for_an_hour_are_told() -> None:
    since = facts(a_state()).at - HOUR
    silent = Comparison(charged=an_answer_of_charges(failure="no answer within 30 s", failing_since=since))
    assert told(silent) == ["Cannot read Civo's charges"]
    assert told(Comparison(charged=an_answer_of_charges(failure="x", failing_since=since + timedelta(seconds=1)))) == []


def test_the_picture_has_each_difference_with_its_cause_in_words() -> None:
    document = ChargesDocument.of_comparison(
        a_comparison([a_charge(10, 20, 10), Charge(code="x", hours=Decimal(1))], [a_ledger_life()])
    ).document()
    assert document is not None
    assert [(d["name"], d["cause"], d["usd"]) for d in document["differences"]] == [("n1", "still_charged", "7.74")]
    assert (document["differences_total"], document["records"]) == (1, 2)
    assert document["unpriced"] == [{"code": "x", "hours": 1.0}]
