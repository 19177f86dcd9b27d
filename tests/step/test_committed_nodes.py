"""Steps with committed nodes: what the store knows of them, and what the month has cost so far."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from receiver.capabilities.costs.monthly import as_paid, costs_of
from receiver.core.model.policy import Budget, CommittedNodes, Policy
from receiver.core.money.budget import month_of
from receiver.ports import Store
from simulator.store import MemoryStore
from tests.core.builders import HOURLY, a_pool
from tests.given.life import HOUR, PRICE, SIZE, START, Life, a_job, a_policy, a_world

UNTIL = START + timedelta(days=30)


def committed(nodes: int = 1, since: datetime | None = None, until: datetime = UNTIL) -> CommittedNodes:
    term = CommittedNodes(pool="l40s-id", size=SIZE, nodes=nodes, usd_per_hour=Decimal(1), until=until)
    return term if since is None else replace(term, since=since)


def policy_with(*commitments: CommittedNodes) -> Policy:
    billing = replace(HOURLY, committed=commitments)
    return a_policy(a_pool(), billing=billing, budget=Budget(monthly_usd=Decimal(10_000)))


def known(store: Store) -> tuple[CommittedNodes, ...]:
    control = store.control()
    assert control is not None
    return control.committed


def test_the_ledger_keeps_since_when_a_commitment_is_paid_for_over_restarts() -> None:
    store = MemoryStore()
    life = Life(a_world(), policy_with(committed(2)), store)
    life.step()
    again = Life(life.world, policy_with(committed(2)), store)
    life.world.advance(START + HOUR)
    again.step()
    assert known(store) == (committed(2, since=START),)
    life.world.advance(START + 2 * HOUR)
    changed = Life(life.world, policy_with(committed(3)), store)
    changed.step()
    ended = committed(2, since=START, until=START + 2 * HOUR)
    assert known(store) == (ended, committed(3, since=START + 2 * HOUR))


def test_the_spend_of_a_step_and_the_costs_of_the_report_are_those_of_the_commitment() -> None:
    store = MemoryStore()
    life = Life(a_world(), policy_with(committed(1)), store)
    life.submit(*(a_job(name, duration=150 * timedelta(minutes=1)) for name in ("one", "two")))
    life.run(4 * HOUR, tick=timedelta(minutes=5))
    spend = life.steps[-1].facts.spend
    attributed = costs_of(store, life.policy, month_of(life.now, "UTC"), life.now)
    hours = Decimal((life.steps[-1].facts.at - known(store)[0].since).total_seconds()) / 3600
    assert spend.usd == pytest.approx(hours + 3 * PRICE)  # the second node of two lived into its third hour
    assert attributed.usd - spend.usd < Decimal("0.1")  # some minutes later
    assert as_paid(life.policy, store).billing.committed == known(store)


def test_what_the_commitment_still_costs_this_month_is_reserved() -> None:
    store = MemoryStore()
    life = Life(a_world(), policy_with(committed(2)), store)
    stepped = life.step()
    rest = Decimal((month_of(START, "UTC").end - START).total_seconds()) / 3600 * 2
    [view] = stepped.assignment.budgets.views
    assert view.reserved == rest


def test_the_forecast_goes_on_with_the_commitment() -> None:
    life = Life(a_world(), policy_with(committed(2)), MemoryStore())
    life.step()
    life.world.advance(START + 48 * HOUR)
    [view] = life.step().assignment.budgets.views
    month = month_of(START, "UTC")
    whole = Decimal((month.end - START) / HOUR) * 2
    assert view.spent == 96
    assert view.forecast.usd is not None
    assert abs(view.forecast.usd - whole) < whole * Decimal("0.03")  # a mean of hours begun
