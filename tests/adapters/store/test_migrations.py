"""A store of the first schema, with rows in every table, is brought up to date on each engine, and nothing is lost."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import (
    BigInteger,
    Boolean,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    text,
)
from sqlalchemy.types import TypeEngine

from receiver.adapters.store import migrate, open_store
from receiver.adapters.store.database import Database, parse
from receiver.adapters.store.schema import metadata
from receiver.ports import WontWork
from tests.adapters.store.builders import NOW, grow

FIRST = "0001"
# What the first schema has not.
OTHERS = {"alembic_version", "compatibility", "seals", "control", "lease", "pool_facts", "idle_spans"}


def test_the_migrations_are_one_line_and_each_file_begins_with_its_number() -> None:
    """Two of one number: only one of them ran, whichever Alembic met last."""
    files = sorted(f.name for f in (migrate.SCRIPTS / "versions").glob("[0-9]*_*.py"))
    numbers = [name.partition("_")[0] for name in files]
    assert numbers == [f"{n:04}" for n in range(1, len(files) + 1)]
    config = Config()
    config.set_main_option("script_location", str(migrate.SCRIPTS))
    walked = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert walked == numbers[::-1]


def of_the_first_release(url: str) -> dict[str, list[dict[str, Any]]]:
    """Make the first schema at *url*, put two rows into each table, and return them by table."""
    if url.startswith("sqlite"):
        Path(parse(url).database or "").parent.mkdir(parents=True, exist_ok=True)
    database = Database(parse(url))
    with database.write() as connection:
        config = Config()
        config.set_main_option("script_location", str(migrate.SCRIPTS))
        config.attributes["connection"] = connection
        command.upgrade(config, FIRST)
        found = MetaData()
        found.reflect(connection)
        for table in found.sorted_tables:
            if table.name not in OTHERS:
                connection.execute(table.insert(), [_row(table, number) for number in (1, 2)])
        rows = _rows(connection, found)
    database.close()
    return rows


def _row(table: Table, number: int) -> dict[str, Any]:
    """A row of *table* in which every column has a value, another one for each *number*."""
    return {column.name: _value(column.type, number) for column in table.columns}


def _value(kind: TypeEngine[Any], number: int) -> Any:
    if isinstance(kind, Boolean):
        return number == 1
    if isinstance(kind, DateTime):
        return datetime.fromtimestamp(NOW.timestamp() + number, tz=NOW.tzinfo)
    if isinstance(kind, BigInteger | Integer):
        return number
    if isinstance(kind, Float | Numeric):
        return Decimal(number) / 2
    if isinstance(kind, LargeBinary):
        return bytes([number])
    return f"[{number}]"


def _rows(connection: Connection, found: MetaData) -> dict[str, list[dict[str, Any]]]:
    """Every row by table."""
    return {
        table.name: sorted((dict(row) for row in connection.execute(table.select()).mappings()), key=repr)
        for table in found.sorted_tables
        if table.name not in OTHERS
    }


def test_every_row_of_the_first_schema_comes_through_every_migration(empty_url: str) -> None:
    before = of_the_first_release(empty_url)
    assert len(before) > 15
    assert all(len(rows) == 2 for rows in before.values())
    open_store(empty_url).close()
    database = Database(parse(empty_url))
    with database.read() as connection:
        found = MetaData()
        found.reflect(connection)
        after = _rows(connection, found)
        newest = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    database.close()
    assert newest != FIRST
    added = {(name, key) for name, rows in before.items() for key in after[name][0].keys() - rows[0].keys()}
    assert all(row.pop(key) is None for name, key in added for row in after[name])
    assert after == before
    assert found.tables.keys() == metadata.tables.keys() | {"alembic_version"}


def test_a_store_of_the_first_schema_works_once_it_is_up_to_date(empty_url: str) -> None:
    of_the_first_release(empty_url)
    store = open_store(empty_url)
    store.check()
    assert store.opened(grow())
    assert not store.opened(grow())
    store.close()


def test_without_a_word_of_the_newer_version_an_older_one_stays_away(empty_url: str) -> None:
    store = open_store(empty_url)
    with store._database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("DELETE FROM compatibility"))
    store.close()
    with pytest.raises(WontWork, match="newer version"):
        open_store(empty_url)
