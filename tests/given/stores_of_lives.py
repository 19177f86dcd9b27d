"""The store that every life in memory writes to, as fixtures for a conftest."""

from collections.abc import Callable, Iterator

import pytest

from receiver.adapters.store import SqlStore
from receiver.ports import Store
from simulator.store import MemoryStore
from tests.stores import StoreWithoutRecords, a_store, empty, rebuilt


@pytest.fixture(scope="session")
def of_all_lives() -> Iterator[SqlStore]:
    with a_store() as opened:
        yield opened


@pytest.fixture
def new_store(request: pytest.FixtureRequest) -> Callable[[], Store]:
    """Make a store without rows in memory: the tests of its contract hold it to what the real one does. With the mark
    `chores(False)`, one for steps without chores. With the mark `database`, as for restarts, a real one in a file where
    waiting for the disk would prove nothing; the one made before forgets its rows."""
    if request.node.get_closest_marker("database") is None:
        chores = request.node.get_closest_marker("chores")
        return MemoryStore if chores is None or chores.args[0] else StoreWithoutRecords
    real: SqlStore = request.getfixturevalue("of_all_lives")

    def make() -> Store:
        empty(real)
        return rebuilt(real)

    return make


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Store:
    """The store of a test with one life."""
    return new_store()
