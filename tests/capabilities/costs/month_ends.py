"""Months that end: when their reports are due, what counts their units of work, and what is read of them later."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from flask.testing import FlaskClient

from receiver.adapters.store import SqlStore
from receiver.capabilities.costs.monthly import MonthEnd
from receiver.core.model.policy import Billing, Budget, Policy, UnitOfWork
from receiver.ports import Store, TryLater
from tests.clocks import FixedClock
from tests.core.report.builders import HOUR, MONTH, a_policy
from tests.web.builders import Bench

EPOCH = UnitOfWork(name="epoch", query="sum(epochs)")
DUE = MONTH.end + 2 * HOUR
LATER = DUE + timedelta(days=3)


@dataclass
class UnitCounter:
    """Prometheus, as far as units of work go: *values* by query, and what was *asked*."""

    values: dict[str, float] = field(default_factory=dict)
    failing: TryLater | None = None
    asked: list[tuple[str, datetime]] = field(default_factory=list)

    def value(self, query: str, at: datetime) -> float | None:
        self.asked.append((query, at))
        if self.failing is not None:
            raise self.failing
        return self.values.get(query)


def month_end(store: Store, policy: Policy, counter: UnitCounter | None = None) -> MonthEnd:
    """What closes and reports months on *store*; *counter* stands for Prometheus."""
    telemetry: Any = counter
    return MonthEnd(store, telemetry, policy)


def close_month(store: SqlStore, policy: Policy, now: datetime = DUE, looks: int = 4) -> None:
    """Look at the month's end every six minutes from *now* on."""
    for look in range(looks):
        month_end(store, policy).look(now + look * timedelta(minutes=6))


def a_later_client(store: SqlStore, policy: Policy, now: datetime = LATER) -> FlaskClient:
    """A client of a server on *store*, three days after the reports were due."""
    known: Any = store
    return Bench(store=known, policy=policy, clock=FixedClock(now)).client()


def another_policy() -> Policy:
    """Other names, prices, kinds, budgets and billing."""
    pools = tuple(replace(p, name=f"new-{p.name}", price_usd_per_hour=Decimal(99)) for p in a_policy().pools)
    return a_policy(
        pools=pools,
        gpu_kinds={},
        gpu_prices={},
        budget=Budget(monthly_usd=Decimal(1)),
        billing=Billing(granularity=2 * HOUR),
    )
