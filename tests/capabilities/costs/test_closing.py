"""A month that is over is closed once, and says the same whatever the configuration is later."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import SqlStore
from receiver.capabilities.costs.formats import as_text
from receiver.capabilities.costs.monthly import MonthEnd
from receiver.core.model.policy import Budget, Monthly, Policy, ReportPolicy
from receiver.core.model.usage import Accounting
from receiver.core.report.lines import Counted
from tests.capabilities.costs.month_ends import (
    DUE,
    EPOCH,
    LATER,
    UnitCounter,
    a_later_client,
    another_policy,
    close_month,
    month_end,
)
from tests.clocks import FixedClock
from tests.core.report.builders import HOUR, MONTH, a_life, a_policy, a_usage, at
from tests.web.builders import Bench


@pytest.fixture
def store(no_rows: SqlStore) -> SqlStore:
    """A store with one node of eight hours, six of them held by team vision."""
    no_rows.saw((a_life(lasts=8),), {"pool-l40s": 0}, at(0))
    assert no_rows.account(Accounting(usage=(a_usage(hours=6),)), None, DUE)
    return no_rows


def report(store: SqlStore, policy: Policy, query: str = "") -> Any:
    return a_later_client(store, policy).get(f"/api/v1/report?month=2026-10{query}")


def test_a_report_names_its_cluster_before_and_after_it_is_closed(store: SqlStore) -> None:
    known: Any = store
    served = Bench(store=known, policy=a_policy(), clock=FixedClock(LATER), cluster_name="prod-lon1").client()

    def answered() -> Any:
        return served.get("/api/v1/report?month=2026-10").json

    assert (answered()["finalised"], answered()["cluster_name"]) == (None, "prod-lon1")
    close_month(store, a_policy())
    assert answered()["finalised"] is not None
    assert answered()["cluster_name"] == "prod-lon1"


@pytest.mark.parametrize("query", ["", "&team=vision", "&team="])
def test_a_closed_month_is_the_same_bytes_whatever_the_configuration_is_later(store: SqlStore, query: str) -> None:
    close_month(store, a_policy())
    before = report(store, a_policy(), query).get_data()
    assert report(store, another_policy(), query).get_data() == before
    assert b'"finalised":"2026-11-01T02:' in before.replace(b" ", b"")
    page = a_later_client(store, a_policy()).get(f"/costs?month=2026-10{query}").get_data(as_text=True)
    assert "no later configuration changes it" in page


def test_a_month_that_was_not_closed_is_worked_out_anew_and_says_so(store: SqlStore) -> None:
    assert report(store, a_policy()).get_json()["finalised"] is None
    assert report(store, another_policy()).get_json() != report(store, a_policy()).get_json()


def test_a_closed_report_says_when_it_was_finalised(store: SqlStore) -> None:
    close_month(store, a_policy())
    said = list(as_text(report(store, a_policy()).get_json()))
    assert "Finalised on 2026-11-01 02:06 UTC: no later configuration changes it." in said


def test_a_team_that_the_closed_month_does_not_know_is_refused_with_those_it_knows(store: SqlStore) -> None:
    close_month(store, a_policy())
    answer = report(store, a_policy(), "&team=visoin")
    assert (answer.status_code, answer.get_json()["known"]) == (404, ["vision"])


def test_a_month_is_not_closed_before_its_last_paid_hour_is_known(store: SqlStore) -> None:
    close_month(store, a_policy(), DUE - HOUR)
    assert store.closed_scopes("2026-10", LATER) == frozenset()


def test_a_month_waits_a_day_for_the_counts_of_its_units(store: SqlStore) -> None:
    policy, silent = a_policy(reports=ReportPolicy(units=(EPOCH,))), UnitCounter()
    month_end(store, policy, silent).look(DUE)
    assert store.closed_scopes("2026-10", LATER) == frozenset()
    month_end(store, policy, silent).look(MONTH.end + timedelta(days=1))
    assert store.closed_scopes("2026-10", LATER) != frozenset()


def test_a_month_whose_units_were_counted_is_closed_at_once(store: SqlStore) -> None:
    policy = a_policy(reports=ReportPolicy(units=(EPOCH,)))
    store.keep_unit_count(Counted(month="2026-10", name="epoch", count=2.0, at=MONTH.end))
    close_month(store, policy)
    assert report(store, a_policy()).get_json()["units"][0]["count"] == 2.0


def test_everybodys_report_is_kept_last_so_that_a_crash_leaves_no_month_half_closed(store: SqlStore) -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(9), teams={"a": Decimal(1), "b": Decimal(2)}))
    month_end(store, policy).look(DUE)
    assert store.closed_scopes("2026-10", LATER) == {"team:", "team:a"}
    assert report(store, policy).get_json()["finalised"] is None
    close_month(store, policy, DUE + HOUR)
    assert store.closed_scopes("2026-10", LATER) == {"team:", "team:a", "team:b", "team:vision", "everybody"}


def test_an_empty_month_is_not_closed(no_rows: SqlStore) -> None:
    no_rows.saw((), {"pool-l40s": 0}, at(0))
    assert no_rows.account(Accounting(), None, DUE)
    close_month(no_rows, a_policy())
    assert no_rows.closed_scopes("2026-10", LATER) == frozenset()


def test_nothing_is_closed_or_sent_before_the_clock_is_sure(store: SqlStore) -> None:
    policy = a_policy(reports=ReportPolicy(monthly=Monthly(everybody=True)))
    month_end(store, policy).look(DUE, sure=False)
    assert store.closed_scopes("2026-10", LATER) == frozenset()
    assert not store.notices_due(LATER, limit=10)
    month_end(store, policy).look(DUE)
    assert len(store.closed_scopes("2026-10", LATER)) == 2
    assert len(store.notices_due(LATER, limit=10)) == 1


def test_a_report_that_was_closed_under_a_clock_ahead_gives_way_to_the_right_one(store: SqlStore) -> None:
    ahead = DUE + timedelta(days=5)
    store.close_report("2026-10", "everybody", {"usd": Decimal(1)}, ahead)
    assert report(store, a_policy()).get_json()["finalised"] is None
    close_month(store, a_policy())
    assert report(store, a_policy()).get_json()["finalised"].startswith("2026-11-01T02:")
    assert a_later_client(store, a_policy(), ahead).get("/api/v1/report?month=2026-10").get_json()["usd"] != 1


def test_what_one_process_closed_under_a_clock_ahead_it_closes_again(store: SqlStore) -> None:
    one = month_end(store, a_policy())
    for minutes in (0, 6, 12):
        one.look(DUE + timedelta(days=5, minutes=minutes))
    assert store.closed_scopes("2026-10", LATER) == frozenset()
    for minutes in (0, 6, 12):
        one.look(DUE + timedelta(minutes=minutes))
    assert store.closed_scopes("2026-10", LATER) != frozenset()


@pytest.mark.parametrize("watched", [True, False], ids=["with a cluster", "without one"])
def test_where_no_cluster_is_configured_a_month_does_not_wait_for_who_held_what(
    no_rows: SqlStore, watched: bool
) -> None:
    no_rows.saw((a_life(lasts=8),), {"pool-l40s": 0}, at(0))
    policy = a_policy(reports=ReportPolicy(monthly=Monthly(everybody=True)))
    for minutes in (0, 6, 12):
        MonthEnd(no_rows, None, policy, watched=watched).look(DUE + timedelta(minutes=minutes))
    assert ("everybody" in no_rows.closed_scopes("2026-10", LATER)) is not watched
    assert len(no_rows.notices_due(LATER, limit=10)) == (not watched)
