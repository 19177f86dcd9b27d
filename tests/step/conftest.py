"""The store that every life in memory writes to."""

from collections.abc import Iterator

import pytest

from receiver.adapters.store import SqlStore
from receiver.ports import Store
from simulator.store import MemoryStore
from tests.faults.stores import a_store, empty


@pytest.fixture
def store() -> Store:
    """A store without rows in memory: the tests of its contract hold it to what the real one does."""
    return MemoryStore()


@pytest.fixture(scope="session")
def _of_all_lives() -> Iterator[SqlStore]:
    with a_store() as opened:
        yield opened


@pytest.fixture
def sql_store(_of_all_lives: SqlStore) -> SqlStore:
    """A real store without rows, in a file where waiting for the disk would prove nothing: for restarts, and wherever
    else the database is the subject."""
    empty(_of_all_lives)
    return SqlStore(_of_all_lives._database)
