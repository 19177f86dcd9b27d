"""A step that goes on is no stuck one, however long it lasts: /healthz, and so the kubelet, goes by what it shows."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from receiver.adapters.clock import SystemClock
from receiver.config.model import Mode
from receiver.ports import Store, TryLater
from receiver.runtime.loop import Beat, Loop, LoopTerms
from receiver.runtime.store_opener import Opening
from receiver.server.bootstrap import loop_of
from receiver.step.gather import gather
from receiver.step.parts import Parts
from receiver.step.reconcile import Stepped
from tests.core.builders import MINUTE
from tests.given import lives
from tests.given.life import Wrapped
from tests.step.loop_builders import Right, Seconds
from tests.step.process_builders import outside_of


@pytest.mark.parametrize("shows", [True, False])
def test_a_step_is_stuck_when_it_shows_nothing_and_not_when_it_lasts(seconds: Seconds, shows: bool) -> None:
    beat, right, found = Beat(), Right(), SimpleQueue[bool]()

    def step(_now: datetime) -> Stepped:
        for _ in range(3):
            seconds.now += 60
            if shows:
                beat()
        found.put(loop.health().alive)
        raise TryLater("nobody answered")

    loop = Loop(step, right, SystemClock(), timedelta(seconds=10), right, LoopTerms(beat=beat))
    loop.start()
    assert found.get(timeout=60) is shows
    loop.stop()


def test_a_step_shows_that_it_goes_on_before_each_source_that_it_asks(store: Store) -> None:
    life = lives.at_zero(store)
    order: list[str] = []

    def unanswered(name: str) -> Callable[..., Any]:
        def refuse(*_: object) -> Any:
            order.append(name)
            raise TryLater("no answer")

        return refuse

    def unknown_sizes() -> Any:
        order.append("sizes")
        return {}

    sources = replace(
        life.sources,
        cloud=Wrapped(life.cloud, look=unanswered("civo")),
        cluster=Wrapped(life.cluster, look=unanswered("kubernetes")),
        telemetry=Wrapped(life.telemetry, look=unanswered("prometheus")),
        alarms=Wrapped(life.alarms, look=unanswered("alertmanager")),
        sizes=Wrapped(life.cloud, machines=unknown_sizes),
        accounts=Wrapped(life.accounts, charges=unanswered("charges")),
        beat=lambda: order.append("on"),
    )
    gather(sources, life.policy, life.now, Parts())
    expected = ["civo", "kubernetes", "prometheus", "alertmanager", "sizes", "charges"]
    assert order == [word for source in expected for word in ("on", source)]


@pytest.mark.parametrize("part", ["a source", "a write", "a write that is only told"])
def test_the_server_hears_it_from_every_source_and_every_write(seconds: Seconds, tmp_path: Path, part: str) -> None:
    outside = outside_of(tmp_path, "mode: act")
    shows = {
        "a source": outside.sources.beat,
        "a write": outside.hands(Mode.ACT).may_write,
        "a write that is only told": outside.observing.may_write,
    }[part]
    loop = loop_of(outside, Opening(lambda: None), SystemClock())
    seconds.now += 60
    assert loop.health().beat_age == MINUTE
    shows()
    assert loop.health().beat_age == timedelta(0)


@pytest.mark.parametrize(("said", "fresh"), [("30s", 75), ("2m", 165)])
def test_one_call_that_takes_as_long_as_it_may_is_not_stuck(tmp_path: Path, said: str, fresh: float) -> None:
    outside = outside_of(tmp_path, f"leader: {{call_timeout: {said}, lease: 10m}}")
    loop = loop_of(outside, Opening(lambda: None), SystemClock())
    assert loop.health().fresh == timedelta(seconds=fresh)
