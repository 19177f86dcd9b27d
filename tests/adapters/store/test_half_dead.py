"""PostgreSQL behind a connection that stays open while nobody answers: a frozen server, a pooler that hangs."""

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import OperationalError

from receiver.adapters.leader import Lease
from receiver.adapters.store import migrate, open_store
from receiver.adapters.store.database import Database, parse
from receiver.adapters.store.lease_table import LeaseTable
from receiver.ports import TryLater
from tests.adapters.store.builders import PostgresServer
from tests.wires import Wire

WITHIN = 1.5  # seconds; less, and a busy machine looks silent


@pytest.fixture
def wire(postgres: PostgresServer) -> Iterator[Wire]:
    """A way to the server that can fall silent, for 10 s at most: whoever waits without end fails a test by that."""
    found = Wire(make_url(postgres.url).port or 5432)
    at_last = threading.Timer(10, found.mend)
    at_last.start()
    yield found
    at_last.cancel()
    found.close()
    postgres.run("TRUNCATE lease")


def by(wire: Wire, server: PostgresServer) -> str:
    """The server's URL through *wire*."""
    return make_url(server.url).set(port=wire.port).render_as_string(hide_password=False)


@pytest.mark.parametrize("open_transaction", ["read", "write"])
def test_a_server_that_falls_silent_is_an_outage_and_forgotten_when_it_answers_again(
    wire: Wire, postgres: PostgresServer, open_transaction: str
) -> None:
    database = Database(parse(by(wire, postgres)), answers_within=WITHIN)

    def ask() -> object:
        with getattr(database, open_transaction)() as connection:
            asked = connection.execute(text("SELECT 1")).scalar()
            if asking:
                wire.silence()
                connection.execute(text("SELECT 2"))
            return asked

    asking = True
    with pytest.raises(TryLater, match="no answer within"):
        ask()
    wire.mend()
    asking = False
    assert ask() == 1
    database.close()


def test_a_silent_server_gives_no_lease_and_the_loop_that_asks_goes_on(wire: Wire, postgres: PostgresServer) -> None:
    url, terms = parse(by(wire, postgres) + "?connect_timeout=2"), (timedelta(minutes=1), timedelta(seconds=5))
    table = LeaseTable(url, "us", *terms, answers_within=WITHIN)
    lease = Lease(table)
    assert lease.try_acquire()
    wire.silence()
    assert not lease.held()
    wire.mend()
    assert lease.held()
    lease.release()
    table.close()


def test_a_migration_may_take_longer_than_other_statements(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(parse(postgres.url), answers_within=WITHIN)
    monkeypatch.setattr(migrate, "_is_current", lambda _: False)
    monkeypatch.setattr(migrate, "_migrate", lambda connection: connection.execute(text("SELECT pg_sleep(2)")))
    migrate.upgrade(database)
    with database.read() as connection, pytest.raises(OperationalError, match="no answer within"):
        connection.execute(text("SELECT pg_sleep(2)"))
    database.close()


def test_a_url_with_settings_of_its_own_keeps_our_time_limits_and_has_the_last_word(postgres: PostgresServer) -> None:
    url = f"{postgres.url}?options=-csearch_path%3Dpublic%20-cstatement_timeout%3D9s"
    store, table = open_store(url), LeaseTable(parse(url), "us", timedelta(minutes=1), timedelta(seconds=5))
    shown = []
    with store._database.read() as of_store, table._engine.connect() as of_lease:
        for connection in (of_store, of_lease):
            names = ("search_path", "statement_timeout", "idle_in_transaction_session_timeout", "synchronous_commit")
            shown.append([connection.execute(text(f"SHOW {name}")).scalar() for name in names])
    assert shown == [["public", "9s", "5s", "on"], ["public", "9s", "3s", "on"]]
    store.close()
    table.close()
