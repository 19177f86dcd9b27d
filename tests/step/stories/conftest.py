"""A store for each of the lives that one test compares."""

from collections.abc import Callable

import pytest

from receiver.adapters.store import SqlStore
from tests.stores import empty, rebuilt


@pytest.fixture
def new_store(_of_all_lives: SqlStore) -> Callable[[], SqlStore]:
    """Make a store that remembers no other life: whatever made one before forgets its own."""

    def make() -> SqlStore:
        empty(_of_all_lives)
        return rebuilt(_of_all_lives)

    return make
