"""What commitments cost and pay for: in the ledger, in what is shared out, and in what budgets reserve."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Spend
from receiver.core.model.policy import Anchor, Billing, Budget, CommittedNodes, Rounding
from receiver.core.money.attribution import MonthToDate, Part, attribute
from receiver.core.money.budget import views
from receiver.core.money.cost import EndedLog, spend_by_pool, unit_price, units_between, with_committed
from tests.core.builders import GPU, HOUR, HOURLY, MINUTE, NOW, a_life, a_node, a_policy, a_pool, a_state, facts
from tests.core.money.builders import NOVEMBER, SIZE, a_usage
from tests.core.worlds import LAWS

PRICE, COMMITTED_PRICE = Decimal("1.29"), Decimal("1.00")
START, END = NOVEMBER.start, NOVEMBER.end
DAYS = 24 * HOUR


def committed(nodes: int = 1, pool: str = "l40s-id", **changes: Any) -> CommittedNodes:
    """So many nodes of the L40S pool, at a dollar an hour for longer than the month."""
    given: dict[str, Any] = {"until": END + 30 * DAYS, "size": SIZE, "usd_per_hour": COMMITTED_PRICE}
    return CommittedNodes(pool=pool, nodes=nodes, **{**given, **changes})


def billing(*commitments: CommittedNodes, **changes: Any) -> Billing:
    return replace(HOURLY, committed=commitments, **changes)


def a_life_of(name: str, begins: float, lasts: float | None, **changes: Any) -> NodeLife:
    """A node that began so many hours into November, and lasted so many (None: it lives)."""
    created = START + begins * HOUR
    return a_life(name, created_at=created, gone_at=None if lasts is None else created + lasts * HOUR, **changes)


def spent(lives: Sequence[NodeLife], how: Billing, now: datetime = END - MINUTE) -> Decimal:
    pools, _ = spend_by_pool(lives, START, now, how)
    return sum(pools.values(), Decimal(0))


def test_a_commitment_costs_every_hour_whether_or_not_a_node_exists() -> None:
    assert spent([], billing(committed(2)), START + 10 * HOUR) == 20


def test_the_first_nodes_cost_the_commitment_and_those_beyond_them_the_list_price() -> None:
    lives = [a_life_of("a", 0, 10), a_life_of("b", 1, 4), a_life_of("c", 2, 3)]
    assert spent(lives, billing(committed(2)), START + 10 * HOUR) == 20 + 3 * PRICE


def test_a_node_takes_the_place_of_an_older_one_that_is_gone_from_its_next_paid_hour_on() -> None:
    lives = [a_life_of("a", 0, 2.25), a_life_of("b", 1.5, 3)]  # the hours of b begin at 1:30, 2:30 and 3:30
    assert spent(lives, billing(committed(1)), START + 10 * HOUR) == 10 + 1 * PRICE


def test_a_node_that_replaces_another_within_a_paid_hour_costs_nothing_more() -> None:
    lives = [a_life_of("a", 0, 0.5), a_life_of("b", 0.5, 0.25), a_life_of("c", 0.75, 0.25)]
    assert spent(lives, billing(committed(1)), START + 1 * HOUR) == 1


def test_from_its_end_on_all_nodes_cost_the_list_price() -> None:
    ends = committed(1, until=START + 5 * HOUR)
    assert spent([a_life_of("a", 0, 8)], billing(ends), START + 8 * HOUR) == 5 + 3 * PRICE


def test_before_the_ledger_knew_of_it_nothing_is_paid_for() -> None:
    begins = committed(1, since=START + 5 * HOUR)
    assert spent([a_life_of("a", 0, 8)], billing(begins), START + 8 * HOUR) == 3 + 5 * PRICE


def test_another_pools_nodes_are_not_paid_for() -> None:
    assert spent([a_life_of("a", 0, 3, pool="h100-id")], billing(committed(1)), START + 3 * HOUR) == 3 + 3 * PRICE


def test_lives_in_the_log_of_ended_ones_are_paid_for_too() -> None:
    lives = [a_life_of("a", 0, 4), a_life_of("b", 1, None)]
    log = EndedLog([lives[0]])
    pools, _ = spend_by_pool([lives[1]], START, START + 6 * HOUR - MINUTE, billing(committed(1)), log)
    # The hours of b begin at 1:00 to 5:00, and from 4:00 on the commitment pays for them.
    assert pools["l40s-id"] == Decimal(6) - Decimal(1) / 60 + 3 * PRICE


random_lives = st.lists(
    st.tuples(st.integers(0, 6000), st.none() | st.integers(1, 3000)).map(
        lambda minutes: (minutes[0] / 60, None if minutes[1] is None else minutes[1] / 60)
    ),
    max_size=8,
)


@LAWS
@given(
    random_lives,
    st.integers(1, 3),
    st.integers(0, 6000),
    st.integers(0, 6000),
    st.sampled_from(Anchor),
    st.sampled_from(Rounding),
)
def test_each_paid_hour_is_covered_or_costs_the_list_price(
    spans: list[tuple[float, float | None]], nodes: int, since: int, until: int, anchor: Anchor, rounding: Rounding
) -> None:
    """As the invoice is made: hour by hour, by how many older nodes exist as it begins."""
    lives = [a_life_of(f"i-{n}", *span) for n, span in enumerate(spans)]
    how = billing(
        committed(nodes, since=START + since * MINUTE, until=START + until * MINUTE), anchor=anchor, rounding=rounding
    )
    plain, now = replace(how, committed=()), START + 150 * HOUR
    [term] = how.committed
    expected = max(Decimal(0), Decimal(until - since) / 60) * nodes
    for number, life in enumerate(sorted(lives, key=lambda x: (x.created_at, x.instance))):
        older = sorted(lives, key=lambda x: (x.created_at, x.instance))[:number]
        total = units_between(life, START, END, now, plain)
        begins = life.created_at
        if anchor is Anchor.CLOCK:
            begins = life.created_at.replace(minute=0)
        for count in range(total):
            at = max(begins + count * HOUR, life.created_at)
            before = sum(1 for x in older if x.gone_at is None or x.gone_at > at)
            if not (term.since <= at < term.until and before < nodes):
                expected += PRICE
    assert spent(lives, how, now) == pytest.approx(expected)


@LAWS
@given(random_lives, st.integers(1, 3), st.integers(0, 6000), st.integers(0, 6000), st.integers(1, 9000))
def test_what_is_shared_out_is_what_the_ledger_has(
    spans: list[tuple[float, float | None]], nodes: int, since: int, until: int, now: int
) -> None:
    at = START + now * MINUTE
    seen = [life for n, span in enumerate(spans) if (life := a_life_of(f"i-{n}", *span)).created_at <= at]
    lives = [replace(x, gone_at=None) if x.gone_at is not None and x.gone_at > at else x for x in seen]
    how = billing(committed(nodes, since=START + since * MINUTE, until=START + until * MINUTE))
    usage = [a_usage(hours=0.5, instance=life.instance) for life in lives[::2]]
    attributed = attribute(lives, usage, (), MonthToDate(NOVEMBER, at, how))
    assert attributed.usd == spent(lives, how, at).quantize(Decimal("0.01"))


def test_a_workload_pays_its_share_at_the_committed_price_and_places_without_a_node_are_unallocated() -> None:
    lives = [a_life_of("i-n1", 0, 10)]
    to_date = MonthToDate(NOVEMBER, START + 10 * HOUR, billing(committed(2)))
    attributed = attribute(lives, [a_usage(hours=10)], (), to_date)
    assert {(share.part, share.instance): share.usd for share in attributed.shares} == {
        (Part.HELD, "i-n1"): 10,
        (Part.UNALLOCATED, ""): 10,
    }


# --- which commitments the ledger knows of


def test_a_commitment_begins_when_it_is_first_configured() -> None:
    assert with_committed((), billing(committed()), NOW) == (committed(since=NOW),)


def test_a_known_commitment_stays_as_it_was() -> None:
    known = (committed(since=NOW - 10 * DAYS),)
    assert with_committed(known, billing(committed()), NOW) == known


def test_one_that_is_changed_ends_and_another_begins() -> None:
    known = (committed(1, since=NOW - 10 * DAYS),)
    ended = committed(1, since=NOW - 10 * DAYS, until=NOW)
    assert with_committed(known, billing(committed(2)), NOW) == (ended, committed(2, since=NOW))


def test_one_that_is_over_is_still_known_and_never_begins_again() -> None:
    over = committed(since=NOW - 10 * DAYS, until=NOW - DAYS)
    assert with_committed((over,), billing(committed(until=NOW - DAYS)), NOW) == (over,)
    assert with_committed((over,), billing(), NOW) == (over,)


# --- what budgets reserve


def a_view(nodes: int, *commitments: CommittedNodes, ahead: str = "0") -> Any:
    state = a_state(*(a_node(f"n{n}") for n in range(nodes)))
    spend = Spend(month="2026-11", usd=Decimal(100), committed={"l40s-id": Decimal(ahead)})
    policy = a_policy(a_pool(), budget=Budget(monthly_usd=Decimal(1000)), billing=billing(*commitments))
    return views(facts(state, spend=spend), policy).views[0]


def test_committed_nodes_reserve_nothing_beside_what_the_commitment_still_costs_this_month() -> None:
    assert a_view(3, committed(2), ahead="250").reserved == 250 + PRICE


def test_what_runs_costs_the_commitment_and_the_nodes_beyond_it() -> None:
    assert a_view(3, committed(2)).per_hour == 2 * COMMITTED_PRICE + PRICE
    assert a_view(1, committed(2)).per_hour == 2 * COMMITTED_PRICE


def test_nodes_whose_next_hour_begins_after_the_end_reserve_it() -> None:
    assert a_view(2, committed(2, until=NOW + timedelta(minutes=59))).reserved == 2 * PRICE
    assert a_view(2, committed(2, until=NOW + timedelta(minutes=61))).reserved == 0


def test_a_price_of_a_unit_is_what_a_node_beyond_the_commitment_reserves() -> None:
    how = billing(committed(1), granularity=timedelta(minutes=30))
    policy = a_policy(a_pool(resources={GPU: 1}), budget=Budget(monthly_usd=Decimal(1000)), billing=how)
    [view] = views(facts(a_state(a_node("a"), a_node("b"))), policy).views
    assert view.reserved == unit_price(PRICE, how)
