"""One store per test: on SQLite always, on PostgreSQL where its server programs are installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.schema import metadata
from tests.adapters.store.builders import PostgresServer, migrated, postgres_programs, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of ours."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL's initdb is not installed")
    with postgres_server(programs) as url:
        open_store(url).close()  # its tables, which each test leaves empty
        server = PostgresServer(url)
        yield server
        server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables, on each engine."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/state/store.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    server.run("CREATE DATABASE empty")
    yield server.url.removesuffix("/postgres") + "/empty"
    server.run("DROP DATABASE empty WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store with no rows, on each engine."""
    if request.param == "sqlite":
        yield migrated(tmp_path / "state" / "store.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    yield server.url
    server.run(f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY")  # quicker than a database per test


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    """An open store."""
    opened = open_store(url)
    yield opened
    opened.close()
