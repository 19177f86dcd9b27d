"""The lease of several replicas: who may write and until when, by the database's clock. Both clocks are moved here, the
database's and each replica's own."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from receiver.adapters.leader import Lease, Terms
from receiver.adapters.store import SqlStore, open_store, schema
from receiver.adapters.store.database import Database, parse
from receiver.adapters.store.lease_table import LeaseTable
from receiver.ports import WriterLostError
from tests.adapters.store.builders import NOW, PostgresServer, delivery, grow
from tests.docs.pages import text_of
from tests.e2e.waiting import until

LASTS, CALL = 60.0, 35.0
TERMS = Terms(lasts=timedelta(seconds=LASTS), longest_call=timedelta(seconds=CALL))


@dataclass
class Moved:
    """The time of everybody, in seconds from NOW, and how far one replica's own clock is off."""

    passed: float = 0.0
    broken: bool = False  # the database does not answer
    off: dict[str, float] = field(default_factory=dict)

    def of_database(self, _connection: object) -> datetime:
        if self.broken:
            raise OperationalError("SELECT", {}, Exception("server closed the connection unexpectedly"))
        return NOW + timedelta(seconds=self.passed)


Replica = Callable[[str], Lease]


@pytest.fixture
def moved() -> Moved:
    return Moved()


@pytest.fixture
def replica(url: str, moved: Moved) -> Iterator[Replica]:
    """What makes replicas of one store; no thread looks after their leases."""
    with ExitStack() as ends:

        def make(name: str) -> Lease:
            table = LeaseTable(parse(url), now=moved.of_database)
            ends.callback(table.close)
            return Lease(table, TERMS, name, seconds=lambda: moved.passed + moved.off.get(name, 0.0))

        yield make


def test_the_first_leads_and_the_second_waits_and_both_know_who_leads(replica: Replica) -> None:
    first, second = replica("first"), replica("second")
    assert (first.try_acquire(), second.try_acquire()) == (True, False)
    assert (first.held(), second.held()) == (True, False)
    for lease in (first, second):
        assert lease.leader is not None
        assert (lease.leader.name, lease.leader.term, lease.leader.mine) == ("first", 1, lease is first)


def test_a_lease_that_is_renewed_lasts(replica: Replica, moved: Moved) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    for _ in range(50):
        moved.passed += 10
        first.heartbeat()
        assert first.held()
        assert not second.try_acquire()


def test_nothing_may_be_written_once_the_lease_does_not_outlast_the_longest_call(
    replica: Replica, moved: Moved
) -> None:
    first = replica("first")
    first.try_acquire()
    moved.passed = LASTS - CALL
    assert first.held()
    moved.passed += 0.001
    assert not first.held()


def test_the_databases_word_counts_when_a_replicas_clock_stood_still(replica: Replica, moved: Moved) -> None:
    first = replica("first")
    first.try_acquire()
    moved.passed = LASTS - CALL + 1
    moved.off["first"] = -moved.passed  # as in a machine that was frozen: its own clock says that no time has passed
    assert not first.held()


def test_another_leads_only_once_the_longest_call_of_the_last_leader_could_have_ended(
    replica: Replica, moved: Moved
) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    moved.passed = LASTS + CALL - 0.001
    assert not second.try_acquire()
    moved.passed += 0.001
    assert second.try_acquire()
    assert second.leader is not None
    assert second.leader.term == 2


def test_a_takeover_waits_as_long_after_a_renewal(replica: Replica, moved: Moved) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    moved.passed = 20
    first.heartbeat()
    moved.passed += LASTS + CALL - 0.001
    assert not second.try_acquire()
    moved.passed += 0.001
    assert second.try_acquire()


def test_a_takeover_waits_for_the_last_leaders_calls_not_for_ones_own(url: str, moved: Moved) -> None:
    table = LeaseTable(parse(url), now=moved.of_database)
    patient = Terms(lasts=timedelta(seconds=LASTS), longest_call=timedelta(seconds=40))
    first, second = Lease(table, patient, "first", lambda: moved.passed), Lease(table, TERMS, "second")
    first.try_acquire()
    moved.passed = LASTS + CALL + 1
    assert not second.try_acquire()
    table.close()


def test_a_takeover_takes_less_than_two_leases(replica: Replica, moved: Moved) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    while not second.try_acquire():
        moved.passed += 1
    assert moved.passed <= 2 * LASTS


def test_a_leader_that_wakes_up_after_another_took_over_may_not_write_and_says_so(
    replica: Replica, moved: Moved
) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    moved.passed = LASTS + CALL
    second.try_acquire()
    moved.off["first"] = -moved.passed
    with capture_logs() as logged:
        assert not first.held()
    assert [line["event"] for line in logged] == ["lease lost"]
    assert not first.try_acquire()
    assert second.held()


def test_a_renewal_that_comes_after_another_took_over_is_refused(replica: Replica, moved: Moved) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    moved.passed = LASTS + CALL
    second.try_acquire()
    with capture_logs() as logged:
        first.heartbeat()
    assert [line["event"] for line in logged] == ["lease lost"]
    moved.passed += 1
    assert second.held()


def test_a_lease_that_nobody_took_meanwhile_goes_on_in_the_same_term(replica: Replica, moved: Moved) -> None:
    first = replica("first")
    first.try_acquire()
    moved.passed = 10 * LASTS
    assert not first.held()
    assert first.try_acquire()
    assert first.leader is not None
    assert (first.held(), first.leader.term) == (True, 1)


def test_a_lease_that_is_given_up_is_anothers_at_once(replica: Replica) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    first.release()
    assert not first.held()
    assert second.try_acquire()
    first.release()  # once more changes nothing
    assert second.held()


def test_a_leader_that_gave_up_without_being_heard_takes_its_own_lease_anew(replica: Replica, moved: Moved) -> None:
    first = replica("first")
    first.try_acquire()
    moved.broken = True
    first.release()
    moved.broken = False
    assert first.try_acquire()
    assert first.leader is not None
    assert first.leader.term == 2


def test_while_the_database_does_not_answer_nothing_is_written_and_that_is_logged_once(
    replica: Replica, moved: Moved
) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    moved.passed, moved.broken = 11, True
    with capture_logs() as logged:
        first.heartbeat()
        assert [first.held(), first.held(), first.try_acquire(), second.try_acquire()] == [False] * 4
    assert [line["event"] for line in logged] == ["lease out of reach"] * 2  # one each
    moved.broken = False
    first.heartbeat()
    assert first.held()


def test_an_orphan_holds_it_no_longer_and_lets_it_end(
    replica: Replica, moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert not first.held()
    moved.passed = 20
    first.heartbeat()
    monkeypatch.undo()
    moved.passed = LASTS + CALL
    assert second.try_acquire()


def test_a_fork_of_the_leader_does_not_lead(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    first = replica("first")
    first.try_acquire()
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert not first.held()
    assert not first.try_acquire()
    first.release()
    monkeypatch.undo()
    assert first.held()


# --- what a former leader still wants to store


@pytest.fixture
def fenced(url: str, replica: Replica) -> Iterator[tuple[Lease, SqlStore, Lease, SqlStore]]:
    """Two replicas, each with the store as its loop writes it."""
    first, second = replica("first"), replica("second")
    store = open_store(url)
    yield first, store.fenced(first.fence), second, store.fenced(second.fence)
    store.close()


def test_what_the_leader_stores_is_kept(fenced: tuple[Lease, SqlStore, Lease, SqlStore]) -> None:
    first, its_store, _, _ = fenced
    first.try_acquire()
    assert its_store.opened(grow())


def test_what_a_former_leader_stores_is_refused_and_changes_nothing(
    fenced: tuple[Lease, SqlStore, Lease, SqlStore], moved: Moved
) -> None:
    first, its_store, second, the_seconds = fenced
    first.try_acquire()
    moved.passed = LASTS + CALL
    second.try_acquire()
    with pytest.raises(WriterLostError):
        its_store.opened(grow())
    assert list(the_seconds.actions()) == []
    assert the_seconds.opened(grow())


def test_a_copy_that_is_restored_gives_no_two_leaders_one_term(
    fenced: tuple[Lease, SqlStore, Lease, SqlStore],
) -> None:
    """The terms of the copy begin again where it was made: by the number alone both would be in force."""
    first, its_store, second, the_seconds = fenced
    first.try_acquire()
    with its_store._database.write() as connection:
        connection.execute(update(schema.lease).values(owner=None, term=0))
    assert second.try_acquire()
    with pytest.raises(WriterLostError):
        its_store.opened(grow())
    assert the_seconds.opened(grow())


def test_who_never_led_stores_nothing_as_a_loop(fenced: tuple[Lease, SqlStore, Lease, SqlStore]) -> None:
    with pytest.raises(WriterLostError):
        fenced[1].opened(grow())


def test_webhooks_are_kept_by_every_replica(fenced: tuple[Lease, SqlStore, Lease, SqlStore], url: str) -> None:
    fenced[0].try_acquire()
    store = open_store(url)
    number = store.remember(delivery(), NOW)
    assert fenced[3].memory(NOW, NOW).deliveries == (number,)
    store.close()


# --- who does not lead wakes who does


def woken(lease: Lease) -> list[str]:
    """Count wake-ups without the thread."""
    calls: list[str] = []
    lease._wake = lambda: calls.append("woken")
    return calls


def test_a_replica_that_waits_wakes_the_leader(replica: Replica) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    calls = woken(first)
    first.heartbeat()
    second.nudge_leader()
    first.heartbeat()
    assert calls == []  # nothing was passed on yet
    second.heartbeat()
    first.heartbeat()
    first.heartbeat()
    assert calls == ["woken"]


def test_a_call_that_the_database_did_not_take_is_made_again(replica: Replica, moved: Moved) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    calls = woken(first)
    first.heartbeat()
    second.nudge_leader()
    second._table.close()
    original, second._table.wake = second._table.wake, _fails  # type: ignore[method-assign]
    second.heartbeat()
    second._table.wake = original  # type: ignore[method-assign]
    second.heartbeat()
    first.heartbeat()
    assert calls == ["woken"]


def _fails() -> None:
    raise OperationalError("UPDATE", {}, Exception("gone"))


# --- of PostgreSQL alone


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    found: PostgresServer = request.getfixturevalue("postgres")
    yield found
    found.run("TRUNCATE lease, actions RESTART IDENTITY")


def test_a_takeover_waits_for_a_write_under_way_and_renewals_do_not(server: PostgresServer, moved: Moved) -> None:
    table = LeaseTable(parse(server.url), now=moved.of_database)
    first, second = (Lease(table, TERMS, name, lambda: moved.passed) for name in ("first", "second"))
    store = open_store(server.url)
    first.try_acquire()
    with store.fenced(first.fence)._database.write():
        moved.passed = 20
        first.heartbeat()
        assert first.held()
        moved.passed += LASTS + CALL
        assert not second.try_acquire()  # by its lock's timeout
    assert second.try_acquire()
    store.close()
    table.close()


def test_the_databases_own_clock_is_asked(server: PostgresServer) -> None:
    table = LeaseTable(parse(server.url))
    first, second = Lease(table, TERMS, "first"), Lease(table, TERMS, "second")
    assert first.try_acquire()
    assert first.held()
    assert not second.try_acquire()
    left = table.left("first", 1)
    assert left is not None
    assert timedelta(0) < left <= TERMS.lasts
    table.close()


def test_a_server_that_does_not_answer_gives_no_lease_and_its_password_is_not_logged() -> None:
    lease = Lease(LeaseTable(parse("postgresql://user:hunter2@127.0.0.1:9/db?connect_timeout=2")), TERMS)
    with capture_logs() as logged:
        assert [lease.try_acquire(), lease.try_acquire(), lease.held()] == [False, False, False]
    (line,) = logged
    assert line["event"] == "lease out of reach"
    assert "hunter2" not in str(line)


def test_a_process_that_is_frozen_in_a_transaction_does_not_keep_the_lease_from_others(
    server: PostgresServer, moved: Moved
) -> None:
    """The server ends its session: before a takeover is due, at any lease that the configuration takes by default."""
    table = LeaseTable(parse(server.url), now=moved.of_database)
    store = open_store(server.url)
    with store._database.read() as of_store, table._engine.connect() as of_lease:
        found = [c.execute(text("SHOW idle_in_transaction_session_timeout")).scalar() for c in (of_store, of_lease)]
    assert found == ["5s", "3s"]
    store.close()
    table.close()


def test_a_former_leader_that_is_silent_in_the_midst_of_a_statement_does_not_keep_the_lease_from_the_next(
    server: PostgresServer, moved: Moved
) -> None:
    """PostgreSQL's own timeouts wait for the rest of what was begun, and a proxy between may keep the connection."""
    table = LeaseTable(parse(server.url), now=moved.of_database)
    first, second = (Lease(table, TERMS, name, lambda: moved.passed) for name in ("first", "second"))
    assert first.try_acquire()
    with psycopg.connect(server.url, options="-c idle_in_transaction_session_timeout=500") as silent:
        silent.execute("SELECT term FROM lease WHERE id = 1 FOR KEY SHARE")
        silent.pgconn.enter_pipeline_mode()
        silent.pgconn.send_query_params(b"SELECT 1", None)
        silent.pgconn.send_flush_request()
        silent.pgconn.flush()  # and no word that this is all
        moved.passed = LASTS + CALL + 5
        assert not second.try_acquire()
        until(second.try_acquire, "the lease")
        silent.pgconn.finish()
    assert not first.held()
    table.close()


def test_the_page_says_how_many_connections_a_replica_may_open() -> None:
    url = parse("postgresql://nobody@127.0.0.1:1/none")
    pools: list[Any] = [Database(url).engine.pool, LeaseTable(url)._engine.pool]
    most = sum(pool.size() + pool._max_overflow for pool in pools)
    assert f"A replica opens at most {most} to the database" in text_of("docs/operations.md")
