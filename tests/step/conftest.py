"""The store that every life in memory writes to, and the clock of loops."""

import pytest

from receiver.runtime import loop as loops
from tests.given.stores_of_lives import new_store as new_store
from tests.given.stores_of_lives import of_all_lives as of_all_lives
from tests.given.stores_of_lives import store as store
from tests.step.loop_builders import Seconds


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """Turn the loop's clock by hand."""
    turned = Seconds()
    monkeypatch.setattr(loops, "monotonic", turned)
    return turned
