"""One forecast for every budget: overview, API, metrics, command line and report give the same amounts."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.costs.documents import ReportDocument
from receiver.capabilities.costs.monthly import report_of
from receiver.core.model.charges import Charge
from receiver.core.model.policy import Budget
from receiver.core.money.budget import Forecast, month_of
from receiver.core.money.cost import spend_by_pool
from receiver.ports import Store
from receiver.step import books
from simulator.store import MemoryStore
from tests.core.builders import HOUR
from tests.expect import published
from tests.given import lives
from tests.given.life import PRICE, SIZE, START, Life, a_job, a_policy

LEFT = Decimal(11 * 24 - 12 - 30)  # hours from START to the month's end, less the thirty that pass
BUDGET = Budget(
    monthly_usd=Decimal(5000), account_usd=Decimal(9000), teams={"vision": Decimal(900), "idle": Decimal(100)}
)


def by_budget(found: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """What *found* budgets foresee, by scope and name."""
    return {
        (budget["scope"], budget["name"]): {
            key: None if budget[key] is None else str(budget[key])
            for key in ("spent_usd", "forecast_usd", "burn_usd_per_hour")
        }
        for budget in found
    }


def on_the_overview(store: Store) -> dict[tuple[str, str], dict[str, Any]]:
    return by_budget(published(store)["budgets"])


def in_the_report(life: Life, team: str | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    found = report_of(life.store, life.policy, month_of(life.now, "UTC"), life.now, team)
    return by_budget(ReportDocument.of(found).document()["budgets"])


@pytest.fixture(scope="module")
def life() -> Life:
    """Thirty hours of a ledger that began on the 20th; a team's node of that time, and a node that was there before.
    The tests leave it as it is."""
    pool = a_policy().pools[0]
    found = lives.at_zero(MemoryStore())
    found.policy = a_policy(type(pool)(**{**_fields(pool), "budget_usd": Decimal(2000)}), budget=BUDGET)
    before = Charge(
        code=f"kube-node-{SIZE}", label="gone", frm=START - 10 * HOUR, to=START - 3 * HOUR, hours=Decimal(7)
    )
    found.accounts.others = (before,)
    found.submit(a_job("train", team="vision", duration=50 * HOUR))
    found.run(29 * HOUR, tick=timedelta(minutes=10))
    found.run(HOUR, tick=timedelta(minutes=5))
    found.step()
    return found


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def test_every_budget_has_one_forecast_wherever_it_is_told(life: Life) -> None:
    overview = on_the_overview(life.store)
    assert set(overview) == {("account", ""), ("cluster", ""), ("pool", "l40s"), ("team", "idle"), ("team", "vision")}
    report = in_the_report(life)
    assert {**report, **in_the_report(life, "vision")} == report
    for budget, told in overview.items():
        spent = [Decimal(found.pop("spent_usd")) for found in (told, report[budget])]
        assert abs(spent[0] - spent[1]) < Decimal("0.15")  # a team's spend is as old as the last accounting
    assert report == overview
    assert all(budget["forecast_usd"] and budget["burn_usd_per_hour"] for budget in overview.values())


def test_the_forecast_rests_on_what_the_ledger_saw_and_not_on_the_whole_month(life: Life) -> None:
    before = 7 * PRICE  # spent by a node that was gone before this ledger began
    cluster = on_the_overview(life.store)["cluster", ""]
    seen = Decimal(cluster["spent_usd"]) - before
    assert seen >= 30 * PRICE
    expected = Decimal(cluster["spent_usd"]) + seen / 31 * LEFT  # thirty-one hours have started
    assert abs(Decimal(cluster["forecast_usd"]) - expected) < Decimal("0.2")


def test_a_team_burns_as_much_in_the_report_as_in_its_budget(life: Life) -> None:
    found = report_of(life.store, life.policy, month_of(life.now, "UTC"), life.now)
    [team] = ReportDocument.of(found).document()["teams"]
    budget = on_the_overview(life.store)["team", "vision"]
    assert team["name"] == "vision"
    assert abs(Decimal(team["burn_usd_per_hour"]) - Decimal(budget["burn_usd_per_hour"])) <= Decimal("0.01")


def test_the_forecasts_of_an_account_are_never_below_those_of_its_cluster(life: Life) -> None:
    overview = on_the_overview(life.store)
    for key in ("spent_usd", "forecast_usd", "burn_usd_per_hour"):
        assert Decimal(overview["account", ""][key]) >= Decimal(overview["cluster", ""][key])


def test_what_the_ledger_saw_is_unknown_and_not_nothing_after_a_bug(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(lives: Any, since: datetime, *more: Any) -> Any:
        if since != month_of(life.now, "UTC").start:
            raise RuntimeError("a bug")
        return spend_by_pool(lives, since, *more)

    monkeypatch.setattr(books, "spend_by_pool", broken)
    life.step()
    cluster = on_the_overview(life.store)["cluster", ""]
    assert (cluster["forecast_usd"], cluster["burn_usd_per_hour"]) == (None, None)
    monkeypatch.undo()
    life.step()


def test_a_month_that_is_over_has_no_forecast(life: Life) -> None:
    found = report_of(life.store, life.policy, month_of(START.replace(month=10), "UTC"), life.now)
    assert {line.forecast for line in found.budgets} == {Forecast()}
