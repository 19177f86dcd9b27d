"""Stores for worlds: in memory, a file of its own per test, or a real one that worlds share and empty."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.ports import Store
from simulator.store import MemoryStore
from tests.adapters.store.builders import migrated
from tests.stores import a_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A real store in a file of its own."""
    opened = open_store(migrated(tmp_path / "ledger.db"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def emptied() -> MemoryStore:
    """A store in memory that each world empties before it begins."""
    return MemoryStore()


@pytest.fixture(scope="module")
def real() -> Iterator[SqlStore]:
    """A real store that each world empties before it begins."""
    with a_store() as opened:
        yield opened
