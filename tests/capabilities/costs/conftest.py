"""A store without rows for each test: they share one, because to open one takes longer than most tests do with it."""

from collections.abc import Iterator

import pytest

from receiver.adapters.store import SqlStore
from tests.stores import a_store, empty, rebuilt


@pytest.fixture(scope="session")
def shared() -> Iterator[SqlStore]:
    """The store that this folder's tests have one after the other."""
    with a_store() as store:
        yield store


@pytest.fixture
def no_rows(shared: SqlStore) -> SqlStore:
    """A store without rows, as a new process knows it."""
    empty(shared)
    return rebuilt(shared)
