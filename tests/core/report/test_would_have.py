"""What is said of the sum of observe mode, of more and less, and with its margin."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.report.would_have import WouldHave, conclusion, waits

SINCE = datetime(2026, 11, 23, 7, 30, tzinfo=UTC)
FOUND = WouldHave(
    at=SINCE,
    since=SINCE,
    until=SINCE + timedelta(days=3),
    would_usd=Decimal(1035),
    margin_usd=Decimal(31),
    always_on_usd=Decimal(2100),
    as_run_usd=Decimal("1260.10"),
    pods=60,
    wait_p95_seconds=300.0,
    as_run_wait_p95_seconds=7200.0,
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "$1,035.00 (±3%): $225.10 less than the pools as they ran and $1,065.00 less than always-on."),
        ({"as_run_usd": Decimal(1000)}, "$1,035.00 (±3%): $35.00 more than the pools as they ran and $1,065.00 less"),
        ({"as_run_usd": Decimal(1035)}, "$1,035.00 (±3%): as much as the pools as they ran and $1,065.00 less"),
        ({"as_run_usd": None}, "$1,035.00 (±3%): $1,065.00 less than always-on."),
        ({"would_usd": Decimal(0)}, "$0.00: $1,260.10 less than the pools as they ran and $2,100.00 less"),
    ],
)
def test_the_sum_is_told_with_its_margin_beside_the_pools_as_they_ran_and_always_on(
    changes: dict[str, Any], said: str
) -> None:
    text = conclusion(replace(FOUND, **changes))
    assert text.startswith(f"Since Mon 23 Nov, 07:30 UTC, act mode would have cost {said}")


def test_without_a_replay_nothing_is_told() -> None:
    assert conclusion(WouldHave(at=SINCE, since=SINCE, until=SINCE)) == ""
    assert waits(WouldHave(at=SINCE, since=SINCE, until=SINCE)) == ""


def test_a_lower_cost_is_told_with_the_waits() -> None:
    assert waits(FOUND) == "95% of 60 pods would have waited at most 5 min; they waited 2 h."
    assert waits(replace(FOUND, pods=1)).startswith("95% of 1 pod would")
