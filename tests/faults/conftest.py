"""The store that every life in memory writes to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from receiver.adapters.store import open_store
from receiver.ports import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A real store in a file of its own."""
    opened = open_store(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()
