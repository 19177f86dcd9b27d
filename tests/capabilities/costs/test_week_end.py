"""The digest is sent once per week, on Monday morning, whatever restarts, and never under a doubtful clock; that of
observe mode each morning."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.adapters.store import SqlStore
from receiver.capabilities.costs.weekly import ObservedDay, WeekEnd
from receiver.core.model.usage import Accounting
from receiver.core.money.attribution import Watch
from receiver.core.notices.digest import last_week
from receiver.core.notices.notice import Cause
from receiver.ports import Store, TryLater
from tests.core.report.builders import HOUR, START, a_policy, at
from tests.core.report.simulated import a_month
from tests.given.life import Wrapped

WEEK = last_week(at(11 * 24 + 12), "UTC")
DUE = WEEK.end + timedelta(minutes=1)


@pytest.fixture
def store(no_rows: SqlStore) -> SqlStore:
    """A store with the nodes and workloads of a simulated month, accounted for until the digest is due."""
    month = a_month()
    no_rows.saw(month.lives, {}, DUE)
    assert no_rows.account(Accounting(), None, START)
    told = Accounting(usage=tuple(month.usage), lives=tuple(month.workloads))
    assert no_rows.account(told, START, DUE)
    return no_rows


def week_end(store: Store) -> WeekEnd:
    return WeekEnd(store, a_policy())


def digests(store: SqlStore) -> list[tuple[str, str]]:
    """Cause and day of each message, oldest first."""
    return [(n.notice.cause, n.notice.key) for n in store.notices_due(DUE + timedelta(days=365), limit=100)]


def test_a_week_is_told_once_also_after_a_restart(store: SqlStore) -> None:
    for hours in range(24):
        week_end(store).look(DUE + hours * HOUR)
    assert digests(store) == [(Cause.DIGEST, WEEK.name)]


def test_nothing_is_sent_before_monday_at_eight(store: SqlStore) -> None:
    week_end(store).look(WEEK.end - timedelta(seconds=1))
    assert digests(store) == []


@pytest.mark.parametrize(("hours", "sent"), [(23, 1), (24, 0)])
def test_after_a_downtime_it_is_sent_within_a_day(store: SqlStore, hours: int, sent: int) -> None:
    week_end(store).look(WEEK.end + hours * HOUR)
    assert len(digests(store)) == sent


def test_under_a_doubtful_clock_it_waits(store: SqlStore) -> None:
    sender = week_end(store)
    sender.look(DUE, sure=False)
    assert digests(store) == []
    sender.look(DUE + timedelta(seconds=10))
    assert len(digests(store)) == 1


def test_it_waits_until_usage_is_known(store: SqlStore) -> None:
    stands = WEEK.end - HOUR
    sender = week_end(Wrapped(store, watch=lambda: Watch(since=START, until=stands)))
    sender.look(DUE)
    assert digests(store) == []
    stands = DUE
    sender.look(DUE + timedelta(minutes=5))
    assert len(digests(store)) == 1


def test_a_week_without_nodes_and_work_is_no_news(no_rows: SqlStore) -> None:
    assert no_rows.account(Accounting(), None, DUE)
    week_end(no_rows).look(DUE)
    assert digests(no_rows) == []


@pytest.mark.parametrize("error", [TryLater("database is locked"), RuntimeError("a bug")])
def test_a_failure_is_tried_again_and_ends_no_step(store: SqlStore, error: Exception) -> None:
    failing: list[Exception] = [error]

    def told(prefix: str) -> Any:
        if failing:
            raise failing.pop()
        return store.told(prefix)

    sender = week_end(Wrapped(store, told=told))
    sender.look(DUE)
    assert digests(store) == []
    sender.look(DUE + timedelta(minutes=5))
    assert len(digests(store)) == 1


def observed(store: SqlStore, until: timedelta = timedelta(0), **changes: Any) -> None:
    """Store a picture with a sum of observe mode up to that long before the digest is due."""
    sums = {"would_usd": "1035.00", "margin_usd": "31.00", "as_run_usd": "1260.10", "always_on_usd": "2100.00"}
    times = {"at": DUE, "since": WEEK.start, "until": DUE - until}
    shown = {name: at.isoformat() for name, at in times.items()}
    store.keep_snapshot({"observed": {**shown, **sums, **changes}}, DUE)


def test_in_observe_mode_the_sum_is_told_each_morning_once(no_rows: SqlStore) -> None:
    observed(no_rows)
    for hours in range(30):
        ObservedDay(no_rows, a_policy()).look(DUE + hours * HOUR)
    assert digests(no_rows) == [(Cause.DIGEST, "2026-10-12"), (Cause.DIGEST, "2026-10-13")]


def test_on_the_day_of_the_installation_nothing_is_told_before_the_next_morning(no_rows: SqlStore) -> None:
    observed(no_rows, until=-7 * HOUR, since=(DUE + 6 * HOUR).isoformat())
    told = []
    for hours in (7, 23, 24):
        ObservedDay(no_rows, a_policy()).look(DUE + hours * HOUR)
        told.append(len(digests(no_rows)))
    assert told == [0, 0, 1]


def test_no_old_sum_is_told_and_none_before_the_first_replay(no_rows: SqlStore) -> None:
    for shown in ({"until": timedelta(days=2)}, {"would_usd": None}):
        observed(no_rows, **shown)
        ObservedDay(no_rows, a_policy()).look(DUE)
    no_rows.keep_snapshot({}, DUE)
    ObservedDay(no_rows, a_policy()).look(DUE)
    assert digests(no_rows) == []
