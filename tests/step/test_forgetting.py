"""Old rows go once an hour, and only under a clock that has been right for an hour."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from receiver.capabilities.registry import step_additions
from receiver.ports import Store
from receiver.server.bootstrap import Connections, Stepping
from tests.core.builders import HOUR, MINUTE
from tests.given import lives


class Forgetting:
    """The server's step over a life; *pruned* is when old rows were deleted."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.life = lives.at_zero(store)
        self.life.pauses_are_jumps = True
        self.pruned: list[datetime] = []
        monkeypatch.setattr(store, "prune", self.pruned.append, raising=False)
        self.begun = self.life.now
        self._step = Stepping(cast("Connections", self._connections(store)), self.begun)

    def _connections(self, store: Store) -> Any:
        notify, mode = SimpleNamespace(weekly_digest=False), SimpleNamespace(value="act")
        configuration = SimpleNamespace(mode=mode, warm_up=timedelta(0), notify=notify)
        settings = SimpleNamespace(policy=self.life.policy, configuration=configuration)
        return SimpleNamespace(
            loops_store=store,
            sources=self.life.sources,
            settings=settings,
            live=SimpleNamespace(settings=settings),
            hands=lambda _: self.life.hands,
            observing=self.life.hands,
            last_step=None,
            additions=step_additions(),
        )

    def run(self, lasts: timedelta, ahead: timedelta = timedelta(0)) -> None:
        """Step once a minute by a clock that is *ahead*."""
        until = self.life.now + lasts
        while self.life.now < until:
            self.life.pass_time(MINUTE)
            self._step(self.life.now + ahead)


def test_old_rows_are_deleted_once_an_hour(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    forgetting = Forgetting(store, monkeypatch)
    forgetting.run(4 * HOUR)
    assert len(forgetting.pruned) == 3  # not before the clock is trusted


def test_a_clock_that_was_ahead_for_half_an_hour_deletes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    forgetting = Forgetting(store, monkeypatch)
    forgetting.run(30 * MINUTE)
    forgetting.run(30 * MINUTE, ahead=timedelta(days=500))
    forgetting.run(3 * HOUR)
    assert forgetting.pruned
    assert all(at <= forgetting.life.now for at in forgetting.pruned)
