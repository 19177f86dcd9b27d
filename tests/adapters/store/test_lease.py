"""The lease of several replicas: who may write and until when, by the database's clock. Both clocks are moved here, the
database's and each replica's own."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import ColumnElement, bindparam, delete, event, text, update
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from receiver.adapters.leader import Lease, process_name
from receiver.adapters.store import SqlStore, open_store, schema
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import Database, parse
from receiver.adapters.store.lease_table import CLOCK, LeaseRow, LeaseTable
from receiver.config.model import LeaderSpec
from receiver.ports import WriterLostError
from tests.adapters.store.builders import NOW, PostgresServer, delivery, grow
from tests.docs.pages import text_of
from tests.e2e.waiting import until

LASTS, WRITE = 15.0, 10.0


@dataclass
class Moved:
    """The time of everybody, in seconds from NOW, and how far one replica's own clock is off."""

    passed: float = 0.0
    broken: bool = False  # the database does not answer
    off: dict[str, float] = field(default_factory=dict)

    def of_database(self) -> datetime:
        if self.broken:
            raise ValueError("server closed the connection unexpectedly")
        return NOW + timedelta(seconds=self.passed)


Replica = Callable[..., Lease]


@pytest.fixture
def moved() -> Moved:
    return Moved()


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres
    postgres.empty()


@pytest.fixture
def replica(server: PostgresServer, moved: Moved) -> Iterator[Replica]:
    """What makes replicas of one store; no thread looks after their leases."""
    clock: ColumnElement[datetime] = bindparam("moved", callable_=moved.of_database, type_=Moment)
    with ExitStack() as ends:

        def make(
            name: str, lasts: float = LASTS, write: float = WRITE, clock: ColumnElement[datetime] = clock
        ) -> Lease:
            terms = timedelta(seconds=lasts), timedelta(seconds=write)
            table = LeaseTable(parse(server.url), name, *terms, clock=clock)
            ends.callback(table.close)
            return Lease(table, seconds=lambda: moved.passed + moved.off.get(name, 0.0))

        yield make


def test_the_first_leads_and_the_second_waits_and_both_know_who_leads(replica: Replica) -> None:
    first, second = replica("first"), replica("second")
    assert (first.try_acquire(), second.try_acquire()) == (True, False)
    assert (first.held(), second.held()) == (True, False)
    for lease in (first, second):
        assert lease.leader is not None
        assert (lease.leader.name, lease.leader.term, lease.leader.mine) == ("first", 1, lease is first)


def test_of_replicas_that_all_start_at_once_one_leads(replica: Replica) -> None:
    leases = [replica(f"replica-{n}") for n in range(4)]
    found: list[bool] = []
    together = threading.Barrier(len(leases))

    def start(lease: Lease) -> None:
        together.wait()
        found.append(lease.try_acquire())

    threads = [threading.Thread(target=start, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found.count(True), [lease.held() for lease in leases].count(True)) == (1, 1)


def test_a_lease_that_is_renewed_lasts(replica: Replica, moved: Moved) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    for _ in range(5):
        moved.passed += LASTS - 1
        assert first.held()
        assert not second.try_acquire()


def test_a_thread_renews_the_lease_while_the_loop_is_in_a_long_read(replica: Replica, moved: Moved) -> None:
    first = replica("first", lasts=0.7, write=0.1)
    first.try_acquire()
    moved.passed = LASTS
    assert not first.lasts()
    first.start()
    until(first.lasts, "a renewal")
    first.close()


def test_a_write_begins_only_if_the_lease_outlasts_the_longest_write_by_the_database(
    replica: Replica, moved: Moved
) -> None:
    first = replica("first")
    first.try_acquire()
    moved.passed = LASTS - WRITE
    assert first.lasts()
    moved.passed += 0.001
    assert not first.lasts()
    moved.broken = True  # without the database's word there is none, however long the lease lasts
    moved.passed = 0
    assert first.lasts()
    assert not first.held()


def test_an_answer_of_the_database_that_took_long_allows_no_write(replica: Replica, moved: Moved) -> None:
    first = replica("first")
    first.try_acquire()
    renew = first._table.renew

    def slowly(term: int) -> bool:
        renewed = renew(term)
        moved.passed += LASTS - WRITE + 0.001
        return renewed

    first._table.renew = slowly  # type: ignore[method-assign]
    assert not first.held()


def test_a_lease_that_took_long_to_take_lasts_from_before_it_was_asked_for(replica: Replica, moved: Moved) -> None:
    """By the database's clock it began then at the earliest."""
    first = replica("first")
    take = first._table.take

    def slowly() -> LeaseRow:
        row = take()
        moved.passed += LASTS - WRITE + 0.001
        return row

    first._table.take = slowly  # type: ignore[method-assign]
    assert first.try_acquire()
    assert not first.lasts()


def test_the_databases_word_counts_when_a_replicas_clock_stood_still(replica: Replica, moved: Moved) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    moved.passed = LASTS + WRITE
    moved.off["first"] = -moved.passed  # as in a machine that was frozen: its own clock says that no time has passed
    assert second.try_acquire()
    assert first.lasts()
    assert not first.held()


@pytest.mark.parametrize("renewed_after", [0.0, 4.0])
def test_another_leads_only_once_the_longest_write_of_the_last_leader_could_have_ended(
    replica: Replica, moved: Moved, renewed_after: float
) -> None:
    first, second = replica("first"), replica("second", lasts=1, write=0.5)  # its own terms do not count
    first.try_acquire()
    moved.passed = renewed_after
    assert first.held()
    moved.passed += LASTS + WRITE - 0.001
    assert not second.try_acquire()
    moved.passed += 0.001
    assert second.try_acquire()
    assert second.leader is not None
    assert second.leader.term == 2


def test_by_default_another_leads_less_than_thirty_seconds_after_a_crash() -> None:
    retries = 2.0  # a second between two tries, and what they take
    terms = LeaderSpec()
    assert (terms.lease.total_seconds(), terms.longest_write.total_seconds()) == (LASTS, WRITE)
    assert LASTS + WRITE + retries < 30


def test_a_leader_that_wakes_up_after_another_took_over_may_not_write_and_says_so(
    replica: Replica, moved: Moved
) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    moved.passed = LASTS + WRITE
    second.try_acquire()
    with capture_logs() as logged:
        assert not first.held()
    assert [line["event"] for line in logged] == ["lease lost"]
    assert not first.try_acquire()
    assert second.held()


def test_a_lease_that_nobody_took_meanwhile_goes_on_in_the_same_term(replica: Replica, moved: Moved) -> None:
    first = replica("first")
    first.try_acquire()
    moved.passed = 10 * LASTS
    assert not first.lasts()
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
    moved.broken = True
    with capture_logs() as logged:
        assert [first.held(), first.held(), first.try_acquire(), second.try_acquire()] == [False] * 4
    assert [line["event"] for line in logged] == ["lease out of reach"] * 2  # one each
    moved.broken = False
    assert first.held()


def test_an_orphan_holds_it_no_longer_and_lets_it_end(
    replica: Replica, moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = replica("first"), replica("second")
    first.try_acquire()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    moved.passed = LASTS / 2
    assert not first.held()
    assert not first.try_acquire()
    monkeypatch.undo()
    moved.passed = LASTS + WRITE
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


def test_every_process_has_a_name_of_its_own() -> None:
    assert process_name() != process_name()


# --- what a former leader still wants to store


@pytest.fixture
def fenced(server: PostgresServer, replica: Replica) -> Iterator[tuple[Lease, SqlStore, Lease, SqlStore]]:
    """Two replicas, each with the store as its loop writes it."""
    first, second = replica("first"), replica("second")
    store = open_store(server.url)
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
    moved.passed = LASTS + WRITE
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


def test_after_the_lease_was_deleted_a_leader_stores_nothing(
    fenced: tuple[Lease, SqlStore, Lease, SqlStore],
) -> None:
    first, its_store, _, _ = fenced
    first.try_acquire()
    with its_store._database.write() as connection:
        connection.execute(delete(schema.lease))
    with pytest.raises(WriterLostError):
        its_store.opened(grow())


def test_webhooks_are_kept_by_every_replica(
    fenced: tuple[Lease, SqlStore, Lease, SqlStore], server: PostgresServer
) -> None:
    fenced[0].try_acquire()
    store = open_store(server.url)
    number = store.remember(delivery(), NOW)
    assert fenced[3].memory(NOW, NOW).deliveries == (number,)
    store.close()


def test_a_takeover_waits_for_a_write_under_way_and_renewals_do_not(
    server: PostgresServer, replica: Replica, moved: Moved
) -> None:
    first, second = replica("first"), replica("second")
    store = open_store(server.url)
    first.try_acquire()
    with store.fenced(first.fence)._database.write():
        assert first.held()
        moved.passed = LASTS + WRITE
        assert not second.try_acquire()  # by its lock's timeout
    assert second.try_acquire()
    store.close()


def test_a_rival_learns_who_leads_without_waiting_for_a_write_of_the_leader(
    server: PostgresServer, replica: Replica
) -> None:
    first, second = replica("first"), replica("second")
    store = open_store(server.url)
    first.try_acquire()
    with store.fenced(first.fence)._database.write():
        assert second._table.take().owner == "first"
    store.close()


def test_the_databases_own_clock_is_asked(server: PostgresServer, replica: Replica) -> None:
    first, second = replica("first", clock=CLOCK), replica("second", clock=CLOCK)
    assert first.try_acquire()
    assert first.held()
    assert not second.try_acquire()
    with psycopg.connect(server.url) as connection:
        ((left,),) = connection.execute("SELECT expires_at - clock_timestamp() FROM lease").fetchall()
    assert timedelta(0) < left <= timedelta(seconds=LASTS)


def test_a_server_that_does_not_answer_gives_no_lease_and_its_password_is_not_logged() -> None:
    url = parse("postgresql://user:hunter2@127.0.0.1:9/db?connect_timeout=2")
    lease = Lease(LeaseTable(url, "first", timedelta(seconds=LASTS), timedelta(seconds=WRITE)))
    with capture_logs() as logged:
        assert [lease.try_acquire(), lease.try_acquire(), lease.held()] == [False, False, False]
    (line,) = logged
    assert line["event"] == "lease out of reach"
    assert "hunter2" not in str(line)


def test_a_server_out_of_reach_is_tried_once_for_each_take() -> None:
    """Only a lock is a reason to connect again, and to end the transactions that have it."""
    url = parse("postgresql://user@127.0.0.1:9/db?connect_timeout=2")
    table, failures = LeaseTable(url, "first", timedelta(seconds=LASTS), timedelta(seconds=WRITE)), []
    event.listen(table._engine, "handle_error", lambda _: failures.append(1))
    with pytest.raises(OperationalError):
        table.take()
    assert len(failures) == 1


def test_a_process_that_is_frozen_in_a_transaction_does_not_keep_the_lease_from_others(
    server: PostgresServer, replica: Replica
) -> None:
    """The server ends its session: before a takeover is due, at any lease that the configuration takes by default."""
    lease, store = replica("first"), open_store(server.url)
    with store._database.read() as of_store, lease._table._engine.connect() as of_lease:
        found = [c.execute(text("SHOW idle_in_transaction_session_timeout")).scalar() for c in (of_store, of_lease)]
    assert found == ["5s", "3s"]
    store.close()


def test_a_former_leader_that_is_silent_in_the_midst_of_a_statement_does_not_keep_the_lease_from_the_next(
    server: PostgresServer, replica: Replica, moved: Moved
) -> None:
    """PostgreSQL's own timeouts wait for the rest of what was begun, and a proxy between may keep the connection."""
    first, second = replica("first"), replica("second")
    assert first.try_acquire()
    with psycopg.connect(server.url, options="-c idle_in_transaction_session_timeout=500") as silent:
        silent.execute("SELECT term FROM lease WHERE id = 1 FOR KEY SHARE")
        silent.pgconn.enter_pipeline_mode()
        silent.pgconn.send_query_params(b"SELECT 1", None)
        silent.pgconn.send_flush_request()
        silent.pgconn.flush()  # and no word that this is all
        moved.passed = LASTS + WRITE + 5
        assert not second.try_acquire()
        until(second.try_acquire, "the lease")
        silent.pgconn.finish()
    assert not first.held()


def test_the_page_says_how_many_connections_a_replica_may_open(replica: Replica) -> None:
    url = parse("postgresql://nobody@127.0.0.1:1/none")
    pools: list[Any] = [Database(url).engine.pool, replica("first")._table._engine.pool]
    most = sum(pool.size() + pool._max_overflow for pool in pools)
    assert f"A replica opens at most {most} to the database" in text_of("docs/operations.md")
