"""The store that every life in memory writes to."""

from collections.abc import Iterator

import pytest

from receiver.adapters.store import SqlStore
from receiver.ports import Store
from tests.faults.stores import a_store, empty


@pytest.fixture(scope="session")
def _of_all_lives() -> Iterator[SqlStore]:
    with a_store() as opened:
        yield opened


@pytest.fixture
def store(_of_all_lives: SqlStore) -> Store:
    """A real store in a file without rows, where waiting for the disk would prove nothing; it remembers no other
    life."""
    empty(_of_all_lives)
    return SqlStore(_of_all_lives._database)
