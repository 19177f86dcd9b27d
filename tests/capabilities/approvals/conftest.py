"""A server for the command line to ask, over the store that its tests fill."""

from collections.abc import Iterator

import pytest

from simulator.store import MemoryStore
from tests.cli.asked import serving
from tests.web.builders import Bench, a_full_store


@pytest.fixture
def full_store() -> MemoryStore:
    """What the server serves; a test may change it."""
    return a_full_store()


@pytest.fixture
def url(full_store: MemoryStore) -> Iterator[str]:
    """Where that server listens until the test ends."""
    with serving(Bench(store=full_store).parts()) as address:
        yield address
