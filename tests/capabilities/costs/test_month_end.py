"""What the calendar asks for: units of work counted, and each month's reports told once."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import SqlStore
from receiver.capabilities.costs.monthly import report_of
from receiver.core.model.policy import Budget, Monthly, Policy, ReportPolicy, UnitOfWork
from receiver.core.model.usage import Accounting
from receiver.core.money.attribution import Watch
from receiver.core.notices.money_notices import report_notice
from receiver.core.notices.notice import Cause
from receiver.core.report.lines import Counted
from receiver.ports import TryLater
from tests.capabilities.costs.month_ends import DUE, EPOCH, UnitCounter, month_end
from tests.core.report.builders import HOUR, MONTH, START, a_policy, at
from tests.core.report.simulated import a_month
from tests.given.life import Wrapped

STEP = UnitOfWork(name="step", query="sum(steps)")


@pytest.fixture
def store(no_rows: SqlStore) -> SqlStore:
    """A store with the simulated month."""
    month = a_month()
    no_rows.saw(month.lives, {}, MONTH.end)
    lives = tuple(month.workloads)
    assert no_rows.account(Accounting(), None, START)
    told = Accounting(usage=tuple(month.usage), unwatched=tuple(month.unwatched), lives=lives)
    assert no_rows.account(told, START, DUE)
    return no_rows


def a_policy_that_sends(*teams: str, everybody: bool = True, **changes: Any) -> Policy:
    monthly = Monthly(everybody=everybody, teams=teams)
    return a_policy(reports=ReportPolicy(monthly=monthly, **changes))


def reported(store: SqlStore) -> list[str | None]:
    """The teams whose reports of the month were told, oldest first; None for that of everybody."""
    notices = [n.notice for n in store.notices_due(DUE + timedelta(days=365), limit=100)]
    assert {(n.cause, n.key) for n in notices} <= {(Cause.REPORT, MONTH.name)}
    return [n.team for n in notices]


# --- the reports


def test_each_scope_that_wants_it_is_told_once(store: SqlStore) -> None:
    sender = month_end(store, a_policy_that_sends("vision", "search"))
    for hours in range(48):
        sender.look(DUE + hours * HOUR)
    assert reported(store) == [None, "vision", "search"]


def test_a_restart_tells_nothing_again(store: SqlStore) -> None:
    for hours in range(3):
        month_end(store, a_policy_that_sends("vision")).look(DUE + hours * HOUR)
    assert reported(store) == [None, "vision"]


def test_a_crash_between_two_scopes_leaves_the_second_to_the_next_process(store: SqlStore) -> None:
    said: list[str] = []

    def say(notice: Any, now: datetime) -> bool:
        if said:
            raise TryLater("the process died here", code="store")
        said.append(notice.topic)
        return store.say(notice, now)

    policy = a_policy_that_sends("vision")
    month_end(Wrapped(store, say=say), policy).look(DUE)
    assert reported(store) == [None]
    month_end(store, policy).look(DUE + HOUR)
    assert reported(store) == [None, "vision"]


def test_nothing_is_sent_before_the_last_paid_hour_of_the_month_is_known(store: SqlStore) -> None:
    sender = month_end(store, a_policy_that_sends())
    sender.look(MONTH.end)
    sender.look(DUE - timedelta(seconds=1))
    assert reported(store) == []


def test_while_usage_is_not_known_up_to_then_the_report_waits(store: SqlStore) -> None:
    stands = MONTH.end + HOUR - timedelta(minutes=1)
    sender = month_end(Wrapped(store, watch=lambda: Watch(since=START, until=stands)), a_policy_that_sends())
    sender.look(DUE)
    assert reported(store) == []
    stands = DUE
    sender.look(DUE + timedelta(minutes=5))
    assert reported(store) == [None]


@pytest.mark.parametrize(("days", "sent"), [(6, 1), (7, 0), (20, 0)])
def test_who_was_down_on_the_first_sends_it_in_the_first_week(store: SqlStore, days: int, sent: int) -> None:
    month_end(store, a_policy_that_sends()).look(MONTH.end + timedelta(days=days))
    assert len(reported(store)) == sent


def test_without_the_wish_nothing_is_sent(store: SqlStore) -> None:
    month_end(store, a_policy()).look(DUE)
    assert reported(store) == []


def test_a_month_that_nobody_knows_anything_of_is_no_news(no_rows: SqlStore) -> None:
    assert no_rows.account(Accounting(), None, DUE)
    month_end(no_rows, a_policy_that_sends("vision")).look(DUE)
    assert reported(no_rows) == []


def test_the_message_of_a_team_says_what_its_report_says(store: SqlStore) -> None:
    policy = a_policy_that_sends("vision", everybody=False)
    policy = replace(policy, budget=Budget(monthly_usd=Decimal(16000), teams={"vision": Decimal(2500)}))
    month_end(store, policy).look(DUE)
    [stored] = store.notices_due(DUE + HOUR)
    report = report_of(store, policy, MONTH, DUE, "vision")
    assert report.budgets[0].monthly_usd == Decimal(2500)
    assert stored.notice == report_notice(report)
    assert "$1,431.91" in stored.notice.title


def test_a_store_that_fails_is_tried_again_and_raises_nothing(store: SqlStore) -> None:
    def fails(*_: Any) -> Any:
        raise TryLater("store: disk full", code="store")

    policy = a_policy_that_sends()
    month_end(Wrapped(store, told=fails), policy).look(DUE)
    month_end(Wrapped(store, usage=lambda _: 1 / 0), policy).look(DUE)
    month_end(store, policy).look(DUE + HOUR)
    assert len(reported(store)) == 1


# --- units of work


def counted(store: SqlStore) -> dict[str, tuple[float, datetime]]:
    return {name: (c.count, c.at) for name, c in store.unit_counts(MONTH.name).items()}


def test_a_unit_is_counted_hourly_and_at_the_very_end_of_its_month(store: SqlStore) -> None:
    counter = UnitCounter(values={EPOCH.query: 10.0})
    keeper = month_end(store, a_policy(reports=ReportPolicy(units=(EPOCH,))), counter)
    now = MONTH.end - 3 * HOUR
    while now < MONTH.end + 2 * HOUR:
        keeper.look(now)
        now += timedelta(minutes=10)
    asked_of_october = [when for _, when in counter.asked if when <= MONTH.end]
    assert asked_of_october[-1] == MONTH.end
    assert 3 <= len(asked_of_october) <= 5
    assert counted(store) == {"epoch": (10.0, MONTH.end)}


def test_a_query_is_asked_for_the_month_that_it_counts(store: SqlStore) -> None:
    unit = replace(EPOCH, query="sum(increase(epochs[$range]))")
    counter = UnitCounter()
    month_end(store, a_policy(reports=ReportPolicy(units=(unit,))), counter).look(MONTH.end + HOUR)
    assert {query for query, _ in counter.asked} == {
        "sum(increase(epochs[2678400s]))",
        "sum(increase(epochs[3600s]))",
    }


def test_after_a_restart_a_finished_count_is_not_asked_for_again(store: SqlStore) -> None:
    counter = UnitCounter(values={EPOCH.query: 10.0})
    policy = a_policy(reports=ReportPolicy(units=(EPOCH,)))
    month_end(store, policy, counter).look(MONTH.end + HOUR)
    first = [when for _, when in counter.asked if when == MONTH.end]
    month_end(store, policy, counter).look(MONTH.end + 3 * HOUR)
    assert [when for _, when in counter.asked if when == MONTH.end] == first == [MONTH.end]


def test_a_query_without_a_value_keeps_nothing_and_is_asked_hourly(store: SqlStore) -> None:
    counter = UnitCounter()
    keeper = month_end(store, a_policy(reports=ReportPolicy(units=(EPOCH,))), counter)
    for minutes in range(0, 60, 6):
        keeper.look(START + timedelta(days=10, minutes=minutes))
    assert counted(store) == {}
    assert len([when for _, when in counter.asked if when > START]) == 1


def test_a_refused_query_does_not_keep_the_next_one_from_being_asked(store: SqlStore) -> None:
    counter = UnitCounter(failing=TryLater("bad query", code="http_400"))
    month_end(store, a_policy(reports=ReportPolicy(units=(EPOCH, STEP))), counter).look(at(100))
    assert {query for query, _ in counter.asked} == {EPOCH.query, STEP.query}


def test_a_prometheus_that_does_not_answer_is_asked_once(store: SqlStore) -> None:
    counter = UnitCounter(failing=TryLater("no answer", code="timeout"))
    month_end(store, a_policy(reports=ReportPolicy(units=(EPOCH, STEP))), counter).look(at(100))
    assert len(counter.asked) == 1


def test_without_units_or_prometheus_nothing_is_asked(store: SqlStore) -> None:
    counter = UnitCounter()
    month_end(store, a_policy(), counter).look(at(100))
    month_end(store, a_policy(reports=ReportPolicy(units=(EPOCH,)))).look(at(100))
    assert counter.asked == []


def test_a_month_long_over_is_not_counted_any_more(store: SqlStore) -> None:
    counter = UnitCounter(values={EPOCH.query: 10.0})
    month_end(store, a_policy(reports=ReportPolicy(units=(EPOCH,))), counter).look(MONTH.end + timedelta(days=8))
    assert counted(store) == {}


def test_a_count_is_kept_in_the_place_of_the_one_before(store: SqlStore) -> None:
    first = Counted(month=MONTH.name, name="epoch", count=1.5, at=at(10))
    store.keep_unit_count(first)
    store.keep_unit_count(replace(first, count=2.5, at=at(11)))
    assert counted(store) == {"epoch": (2.5, at(11))}
    assert store.unit_counts("2026-09") == {}
