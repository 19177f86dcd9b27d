"""What a courier needs: a store, a clock, and a wire that answers for every destination."""

from collections.abc import Iterator

import pytest
import responses

from simulator.store import MemoryStore
from tests.adapters.messages.destinations import NOW
from tests.clocks import FixedClock


@pytest.fixture
def wire() -> Iterator[responses.RequestsMock]:
    """Catches every request; a test says what answers."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as wire:
        yield wire


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return MemoryStore()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FixedClock:
    """The clock; Apprise's pause of a second between two messages to Slack is left out."""
    monkeypatch.setattr("apprise.plugins.base.NotifyBase.throttle", lambda *_, **__: None)
    return FixedClock(NOW)
