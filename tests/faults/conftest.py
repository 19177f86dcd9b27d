"""Stores for worlds: a file of its own per test, or one in memory that worlds share and empty."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.ports import Store
from tests.adapters.store.builders import migrated
from tests.faults.stores import a_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A real store in a file of its own."""
    opened = open_store(migrated(tmp_path / "ledger.db"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def emptied() -> Iterator[SqlStore]:
    """A real store that each world empties before it begins."""
    with a_store() as opened:
        yield opened
