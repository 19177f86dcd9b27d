"""The store that every life in memory writes to, and the clock of loops."""

from collections.abc import Iterator

import pytest

from receiver.adapters.store import SqlStore
from receiver.ports import Store
from receiver.runtime import loop as loops
from simulator.store import MemoryStore
from tests.step.loop_builders import Seconds
from tests.stores import a_store, empty


@pytest.fixture(scope="session")
def _of_all_lives() -> Iterator[SqlStore]:
    with a_store() as opened:
        yield opened


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    """A store without rows in memory: the tests of its contract hold it to what the real one does. With the mark
    `database`, as for restarts, a real one in a file where waiting for the disk would prove nothing."""
    if request.node.get_closest_marker("database") is None:
        return MemoryStore()
    real: SqlStore = request.getfixturevalue("_of_all_lives")
    empty(real)
    return SqlStore(real._database)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """Turn the loop's clock by hand."""
    turned = Seconds()
    monkeypatch.setattr(loops, "monotonic", turned)
    return turned
