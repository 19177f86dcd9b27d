"""One store per test: on SQLite always, on PostgreSQL where its server programs are installed, and in memory where the
subject is the promise: a test of the database itself has its URL, or the mark `database` with the reason."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from receiver.adapters.store import SqlStore, open_store
from simulator.store import MemoryStore
from tests.adapters.store.builders import PostgresServer, migrated, migrated_server
from tests.stores import empty

ENGINES = ("sqlite", "postgresql")
IN_MEMORY = "memory"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play each test on both engines, and those of `store` in memory too."""
    if "url" not in metafunc.fixturenames:
        return
    if "url" in vars(metafunc.module):  # a URL of its own
        return
    asked = inspect.signature(metafunc.function).parameters
    promise = "store" in asked and "url" not in asked and metafunc.definition.get_closest_marker("database") is None
    metafunc.parametrize("url", [*ENGINES, IN_MEMORY] if promise else ENGINES, indirect=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of ours."""
    with migrated_server() as url:  # each test leaves its tables empty
        server = PostgresServer(url)
        yield server
        server.close()


@pytest.fixture(params=ENGINES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables, on each engine."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/state/store.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    server.run("CREATE DATABASE empty")
    yield server.url.removesuffix("/postgres") + "/empty"
    server.run("DROP DATABASE empty WITH (FORCE)")


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store with no rows, on each engine: that of `store` for a test that uses both."""
    if request.param == IN_MEMORY:
        yield IN_MEMORY
        return
    if request.param == "sqlite":
        shared = "store" in request.fixturenames
        yield request.getfixturevalue("sqlite_file") if shared else migrated(tmp_path / "state" / "store.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    yield server.url
    server.empty()


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the file that this worker's stores share, in memory where the system has a folder there."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="stores-") as folder:
        yield migrated(Path(folder) / "store.db")


@pytest.fixture(scope="session")
def opened() -> Iterator[dict[str, SqlStore]]:
    """The stores that are open already, by URL: to open one takes longer than most tests do with it."""
    stores: dict[str, SqlStore] = {}
    yield stores
    for store in stores.values():
        store.close()


@pytest.fixture
def store(url: str, opened: dict[str, SqlStore]) -> Iterator[SqlStore | MemoryStore]:
    """An open store without rows, as a new process knows it. A test that harms it takes `own_store`."""
    if url == IN_MEMORY:
        yield MemoryStore()
        return
    if url not in opened:
        opened[url] = open_store(url)
    yield SqlStore(opened[url]._database)
    if url.startswith("sqlite"):
        empty(opened[url])


@pytest.fixture
def own_store(url: str) -> Iterator[SqlStore]:
    """An open store with connections of its own."""
    opened = open_store(url)
    yield opened
    opened.close()
