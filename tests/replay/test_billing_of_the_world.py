"""Charges: started units of every instance, hours and no money, and a window of at most 31 days."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.replay.world.objects import Behaviour, Denied
from simulator.world import World
from tests.replay.builders import L40S, PRICE, T0, after, job, pool, run, vms, world


def one_life(lasts: float, **behaviour: Any) -> World:
    """A node ordered at the beginning and deleted so that it is gone after *lasts* seconds."""
    w = world(behaviour=Behaviour(**behaviour))
    w.resize("a", 1)
    run(w, lasts - 20)
    w.delete_instance("a", vms(w)[0].id)
    return run(w, lasts)


@pytest.mark.parametrize(
    "lasts, rounding, hours",
    [
        (60, "ceil", 1),
        (3600, "ceil", 1),
        (3601, "ceil", 2),
        (65_200, "ceil", 19),
        (60, "floor_min_one", 1),
        (7199, "floor_min_one", 1),
        (65_200, "floor_min_one", 18),
    ],
)
def test_hours_are_started_ones_or_whole_ones_but_at_least_one(lasts: float, rounding: str, hours: int) -> None:
    w = one_life(lasts, rounding=rounding)
    (charge,) = w.charges(T0, w.now)
    assert charge.num_hours == hours
    assert charge.to == after(lasts)
    assert w.paid() == PRICE * hours


def test_a_record_names_size_and_node_and_stays_open_while_the_instance_lives() -> None:
    w = world(pool(count=1))
    run(w, 5400)
    (charge,) = w.charges(T0, w.now)
    assert (charge.code, charge.label) == (f"kube-node-{L40S}", vms(w)[0].hostname)
    assert (charge.frm, charge.to, charge.num_hours) == (T0, None, 2)


def test_billing_begins_with_the_order_and_not_with_the_node() -> None:
    w = world()
    w.resize("a", 1)
    assert w.paid() == PRICE


@pytest.mark.parametrize("until, hours", [("gone", 2), ("delete", 1)])
def test_billing_ends_when_the_instance_is_gone_or_when_its_deletion_was_asked(until: str, hours: int) -> None:
    assert one_life(3610, billed_until=until).paid() == PRICE * hours


def test_a_finer_granularity_bills_parts_of_an_hour() -> None:
    w = one_life(90, granularity=timedelta(minutes=1))
    assert w.charges(T0, w.now)[0].num_hours == pytest.approx(2 / 60)
    assert w.paid() == PRICE * 2 / 60


def test_a_size_without_price_has_hours_and_adds_nothing_to_what_is_paid() -> None:
    w = world(pool(count=1, size="new.size"))
    assert w.paid() == Decimal(0)
    assert w.charges(T0, T0)[0].num_hours == 1


def test_a_window_shows_only_records_that_overlap_it_and_shows_them_whole() -> None:
    w = one_life(3600)
    run(w, 100_000)
    assert w.charges(after(4000), after(5000)) == []
    assert [c.frm for c in w.charges(after(1000), after(5000))] == [T0]


@pytest.mark.parametrize(
    "span, code",
    [(timedelta(days=31, seconds=1), "parameter_date_range_too_long"), (timedelta(days=-1), "parameter_date_range")],
)
def test_a_window_over_31_days_or_the_wrong_way_round_is_refused(span: timedelta, code: str) -> None:
    w = run(world(), 100)
    with pytest.raises(Denied) as refused:
        w.charges(T0, T0 + span)
    assert (refused.value.code, refused.value.status) == (code, 400)


def test_a_window_of_exactly_31_days_is_answered() -> None:
    assert world().charges(T0, T0 + timedelta(days=31)) == []


def test_what_was_paid_for_ended_instances_stays() -> None:
    w = one_life(3600)
    run(w, 1_000_000)
    assert w.paid() == PRICE
    assert w.paid_gpu_seconds() == 3600


def test_gpu_seconds_used_never_exceed_those_paid_for() -> None:
    w = world(pool(count=2), behaviour=Behaviour(granularity=timedelta(seconds=1)))
    for number in range(6):
        w.submit(job(f"x{number}", runs=300))
    run(w, 400)
    for vm in list(vms(w)):
        w.delete_instance("a", vm.id)
    run(w, 1000)
    assert 0 < w.gpu_seconds <= w.paid_gpu_seconds()
