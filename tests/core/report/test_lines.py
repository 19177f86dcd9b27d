"""Cost per unit of work."""

import math
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from receiver.core.model.policy import UnitOfWork
from receiver.core.report.lines import query_of, unit_cost
from tests.core.report.builders import MONTH, START, at

EPOCH = UnitOfWork(name="epoch", query="sum(epochs_total)")
REQUESTS = UnitOfWork(name="requests", query="sum(requests_total)", per=Decimal(1000))


@pytest.mark.parametrize(
    ("moment", "length"),
    [(START, "60s"), (at(36), "129600s"), (MONTH.end, "2678400s"), (MONTH.end + timedelta(days=3), "2678400s")],
    ids=["at the beginning", "after 36 hours", "at the end", "afterwards"],
)
def test_a_query_counts_from_the_beginning_of_the_month(moment: datetime, length: str) -> None:
    unit = replace(EPOCH, query="sum(increase(epochs_total[$range]))")
    assert query_of(unit, MONTH, moment) == f"sum(increase(epochs_total[{length}]))"


def test_the_cost_is_divided_by_what_was_counted() -> None:
    assert unit_cost(EPOCH, Decimal(300), 40.0).usd_per == Decimal("7.5")


def test_the_cost_is_told_for_as_many_as_the_operator_said() -> None:
    assert unit_cost(REQUESTS, Decimal(300), 1_500_000.0).usd_per == Decimal("0.2")


@pytest.mark.parametrize(
    ("count", "why_not"),
    [
        (None, "its query gave no value for this month"),
        (0.0, "its query counted 0"),
        (-3.0, "its query counted -3"),
        (math.nan, "its query counted nan"),
        (math.inf, "its query counted inf"),
    ],
)
def test_without_a_positive_count_nothing_is_divided_and_the_reason_is_said(count: float | None, why_not: str) -> None:
    found = unit_cost(EPOCH, Decimal(300), count)
    assert (found.usd_per, found.why_not) == (None, why_not)


@pytest.mark.parametrize(
    ("only", "why_not"),
    [
        ({"team": "visoin"}, "no cost of this month matches its `only`"),
        ({}, "nothing was paid for in this month"),
    ],
)
def test_work_that_cost_nothing_is_not_called_free(only: dict[str, str], why_not: str) -> None:
    found = unit_cost(replace(EPOCH, only=only), Decimal("0.00"), 40.0)
    assert (found.usd_per, found.why_not) == (None, why_not)
