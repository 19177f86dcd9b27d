"""The store that every life in memory writes to."""

from collections.abc import Iterator

import pytest

from receiver.ports import Store
from tests.faults.stores import a_store


@pytest.fixture
def store() -> Iterator[Store]:
    """A real store in a file of its own, where waiting for the disk would prove nothing."""
    with a_store() as opened:
        yield opened
