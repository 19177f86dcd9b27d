"""Opening a store: its folder, its schema, and what a person is told when it cannot be."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from receiver.adapters.store import SqlStore, migrate, open_in_memory, open_store, store_at
from receiver.adapters.store.database import Database, parse
from receiver.adapters.store.migrate import newest
from receiver.adapters.store.schema import metadata
from receiver.ports import TryLater, WontWork
from tests.adapters.store.builders import NOW, PostgresServer, delivery, grow, notice, outcome
from tests.adapters.store.processes import forked, open_when_told

VARIABLE = "GPU_AUTOSCALER_DATABASE_URL"


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_the_folder_of_a_database_is_created(tmp_path: Path) -> None:
    open_store(sqlite_url(tmp_path / "a" / "b" / "store.db")).close()
    assert (tmp_path / "a" / "b" / "store.db").is_file()


def test_a_store_opened_again_has_what_was_kept(url: str) -> None:
    first = open_store(url)
    number = first.remember(delivery(), NOW)
    first.close()
    second = open_store(url)
    assert second.memory(NOW, NOW).deliveries == (number,)
    second.close()


def test_the_migrations_make_the_tables_that_the_code_uses(store: SqlStore, url: str) -> None:
    database = Database(parse(url))
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []
    database.close()


@pytest.mark.parametrize(
    "written",
    [
        "",
        "store.db",
        "/var/lib/store.db",
        "mysql://root:hunter2@db/x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite://var/lib/store.db",
        "postgresql://user:hunter2@host:port/db",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(WontWork, match=VARIABLE) as refused:
        open_store(written)
    assert "sqlite:////var/lib/gpu-autoscaler/store.db" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.database("connections")
def test_the_connection_that_was_used_last_is_used_next(store: SqlStore) -> None:
    connect = store._database.engine.connect
    one, other = connect(), connect()
    used = one.connection.driver_connection
    other.close()
    one.close()
    for _ in range(3):
        with connect() as again:
            assert again.connection.driver_connection is used


def test_a_store_in_memory_works_from_many_threads_and_starts_empty() -> None:
    store = open_in_memory()
    with ThreadPoolExecutor(4) as threads:
        numbers = sorted(threads.map(lambda _: store.remember(delivery(), NOW), range(20)))
    store.check()
    assert store.memory(NOW, NOW).deliveries == tuple(numbers)
    store.close()
    another = open_in_memory()
    assert another.memory(NOW, NOW).deliveries == ()
    another.close()


def test_an_option_of_the_url_that_no_server_will_ever_take_is_refused() -> None:
    with pytest.raises(WontWork, match=f"{VARIABLE} has the unknown option 'ssl_mode'"):
        store_at("postgresql://user@127.0.0.1:9/db?connect_timeout=2&ssl_mode=require")


def test_a_store_that_was_not_opened_says_so_at_every_call(empty_url: str) -> None:
    store = store_at(empty_url)
    calls = (store.check, store.counts, store.snapshot, lambda: store.remember(delivery(), NOW))
    for call in (*calls, lambda: store.fenced(lambda _: None).memory(NOW, NOW)):
        with pytest.raises(TryLater, match="has not been reached yet"):
            call()
    store.open()
    assert store.remember(delivery(), NOW) in store.memory(NOW, NOW).deliveries
    store.close()


def test_a_server_that_refuses_our_user_is_named_at_every_call_until_it_lets_us_in(
    request: pytest.FixtureRequest,
) -> None:
    server: PostgresServer = request.getfixturevalue("postgres")
    store = store_at(server.url.replace("receiver@", "newcomer:hunter2@"))
    refused = 'not open since this process started: .*role "newcomer" does not exist'
    with pytest.raises(TryLater, match='role "newcomer" does not exist'):
        store.open()
    with pytest.raises(TryLater, match=refused) as failed:
        store.check()
    assert "hunter2" not in str(failed.value)
    server.run("CREATE ROLE newcomer LOGIN SUPERUSER")
    try:
        store.open()
        store.check()
    finally:
        store.close()
        server.run("DROP ROLE newcomer")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_may_be_written_in_every_usual_way(scheme: str) -> None:
    assert parse(f"{scheme}://user@host/db").drivername == "postgresql+psycopg"


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WontWork, match=f"is a folder.*{VARIABLE}"):
        open_store(sqlite_url(tmp_path))


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WontWork, match=f"cannot create .*{VARIABLE}"):
        open_store(sqlite_url(tmp_path / "file" / "store.db"))


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root, who may run this, may write anywhere
    with pytest.raises(WontWork, match=f"cannot write to .*{VARIABLE}.*mounted volume"):
        open_store(sqlite_url(tmp_path / "store.db"))


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("a letter to my landlord " * 200)
    with pytest.raises(WontWork, match=f"{VARIABLE} names is not a SQLite database"):
        open_store(sqlite_url(tmp_path / "store.db"))
    assert (tmp_path / "store.db").read_text().startswith("a letter")


def test_a_database_of_a_newer_version_is_refused(empty_url: str) -> None:
    open_store(empty_url).close()
    database = Database(parse(empty_url))
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("UPDATE compatibility SET oldest = '9999'"))
    database.close()
    with pytest.raises(WontWork, match=f"{VARIABLE}.*newer version.*9999.*run that version"):
        open_store(empty_url)


def test_a_database_that_a_newer_version_has_only_added_to_is_read_and_written(empty_url: str) -> None:
    """A rolling upgrade: the new version has migrated, and a replica of this one is started once more."""
    before = open_store(empty_url)
    database = Database(parse(empty_url))
    with database.write() as connection:
        for statement in (
            "ALTER TABLE deliveries ADD COLUMN of_tomorrow TEXT",
            "ALTER TABLE actions ADD COLUMN of_tomorrow INTEGER",
            "CREATE TABLE tomorrows (id INTEGER PRIMARY KEY)",
            "UPDATE alembic_version SET version_num = '9999'",
        ):
            connection.execute(text(statement))
    database.close()
    started_again = open_store(empty_url)
    for store in (before, started_again):
        number = store.remember(delivery(), NOW)
        assert number in store.memory(NOW, NOW).deliveries
    assert before.opened(grow())
    assert [stored.action for stored in started_again.actions()] == [grow()]
    started_again.closed(grow(), outcome(), None, notice())
    assert [told.notice for told in before.undelivered()] == [notice()]
    before.close()
    started_again.close()


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (
            "ALTER TABLE pools DROP COLUMN offer",
            "has schema revision {newest} but lacks column pools.offer; restore an intact backup",
        ),
        ("DROP TABLE samples", "has schema revision {newest} but lacks table samples; restore an intact backup"),
        (
            "DROP INDEX one_open_action_per_pool",
            "has schema revision {newest} but lacks index one_open_action_per_pool;",
        ),
        ("DROP TABLE alembic_version", r"has our tables but no schema revision \(actions, alerts, .* more\); rest"),
        ("DELETE FROM alembic_version", "has our tables but no schema revision"),
    ],
)
def test_a_database_whose_schema_is_not_what_its_revision_says_is_refused(
    empty_url: str, harm: str, named: str
) -> None:
    open_store(empty_url).close()
    _harm(empty_url, harm)
    with pytest.raises(WontWork, match=f"{VARIABLE} names {named.format(newest=newest())}"):
        open_store(empty_url)


def test_a_newer_database_that_lacks_what_we_read_is_refused(empty_url: str) -> None:
    open_store(empty_url).close()
    _harm(empty_url, "UPDATE alembic_version SET version_num = '9999'", "ALTER TABLE pools DROP COLUMN offer")
    with pytest.raises(WontWork, match=r"has schema revision 9999 but lacks column pools\.offer"):
        open_store(empty_url)


def test_an_older_database_that_lacks_a_table_is_refused_and_left_as_it_was(empty_url: str) -> None:
    database = Database(parse(empty_url))
    config = Config()
    config.set_main_option("script_location", str(migrate.SCRIPTS))
    store_at(empty_url).close()  # makes the folder
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(text("DROP TABLE samples"))
    with pytest.raises(WontWork, match="lacks table samples"):
        open_store(empty_url)
    with database.read() as connection:
        assert MigrationContext.configure(connection).get_current_heads() == ("0001",)
        assert not inspect(connection).has_table("lease")
    database.close()


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_every_column_that_is_missing_is_named(table: str) -> None:
    whole = {t.name: {c.name for c in t.columns} | {str(i.name) for i in t.indexes} for t in metadata.sorted_tables}
    assert migrate.missing({**whole, "tomorrows": {"id"}, table: {*whole[table], "of_tomorrow"}}) == []
    for column in metadata.tables[table].columns:
        assert migrate.missing({**whole, table: whole[table] - {column.name}}) == [f"column {table}.{column.name}"]
    assert migrate.missing({t: c for t, c in whole.items() if t != table}) == [f"table {table}"]


def _harm(url: str, *statements: str) -> None:
    database = Database(parse(url))
    with database.write() as connection:
        for statement in statements:
            connection.execute(text(statement))
    database.close()


def test_a_server_that_does_not_answer_may_do_so_later_and_its_password_is_not_told() -> None:
    with pytest.raises(TryLater) as failed:
        open_store("postgresql://user:hunter2@127.0.0.1:9/db?connect_timeout=2")
    assert failed.value.code == "store"
    assert "hunter2" not in str(failed.value)
    assert "127.0.0.1" in str(failed.value)


def test_a_password_that_the_server_repeats_is_not_told(request: pytest.FixtureRequest) -> None:
    server: PostgresServer = request.getfixturevalue("postgres")
    with pytest.raises(TryLater, match=r'database "\*\*\*" does not exist'):
        open_store(server.url.replace("receiver@", "receiver:hunter2@").removesuffix("/postgres") + "/hunter2")


def test_a_migration_that_dies_half_way_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = command.upgrade

    def interrupted(*args: object, **kwargs: object) -> None:
        whole(*args, **kwargs)  # type: ignore[arg-type]  # passed on as they came
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "upgrade", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_store(empty_url)
    monkeypatch.undo()
    database = Database(parse(empty_url))
    with database.read() as connection:
        assert MigrationContext.configure(connection).get_current_heads() == ()
    database.close()
    open_store(empty_url).close()


@pytest.mark.parametrize("empty_url", ["postgresql"], indirect=True)
def test_postgres_lets_a_migration_load_what_it_needs(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    migrated = migrate._migrate

    def watched(connection: Connection) -> None:
        found.append(connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar())
        migrated(connection)

    monkeypatch.setattr(migrate, "_migrate", watched)
    open_store(empty_url).close()
    assert found == ["10min"]


def test_processes_that_migrate_at_once_all_get_a_store(empty_url: str) -> None:
    with forked(open_when_told, empty_url) as (_, first), forked(open_when_told, empty_url) as (_, second):
        assert [answers.recv() for answers in (first, second)] == ["ready", "ready"]
        for answers in (first, second):
            answers.send("open it")
        numbers = [answers.recv() for answers in (first, second)]
    assert sorted(map(str, numbers)) == ["1", "2"]


def test_a_store_that_is_up_to_date_is_opened_without_loading_what_migrates(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(url).close()
    monkeypatch.setattr(migrate, "_migrate", lambda _: pytest.fail("there is nothing to migrate"))
    open_store(url).close()
