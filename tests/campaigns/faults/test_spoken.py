"""The checks know what people said of pools: a product that does not listen is seen in the smallest world."""

from dataclasses import replace

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.generate import scenario
from campaigns.faults.scenario import Event, Scenario
from receiver.core.model.overrides import OverridesInForce
from simulator.store import MemoryStore
from tests.campaigns.faults.small import POOL, a_job, small


def a_world(say: str, nodes: int | None = None, **pool: int) -> Scenario:
    """One pool of which somebody says something before two pods wait for it."""
    what = {"id": "o0", "say": say, "seconds": 1500, **({} if nodes is None else {"nodes": nodes})}
    said = Event(at=5, kind="override", what=what)
    plan = replace(POOL, **pool)  # type: ignore[arg-type] # these fields are numbers
    return small(said, a_job(seconds=60, pods=2), pool=plan, ticks=[20], granularity=1)


@pytest.mark.parametrize(
    ("world", "seen"),
    [
        (a_world("pause"), "2 paused"),
        (a_world("ceiling", 1), "2 maximum"),
        (a_world("pin", 1), "2 maximum"),
        (a_world("snooze", count=1), "2 snooze"),
        (a_world("floor", 1, count=1), "2 floor"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_product_that_does_not_listen_is_seen_and_one_that_does_is_not(
    emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch, world: Scenario, seen: str
) -> None:
    assert judge(world, emptied).message == ""
    monkeypatch.setattr("receiver.core.scaling.bounds.overrides_in_force", lambda *_: OverridesInForce())
    assert judge(world, emptied).message.startswith(seen)


def test_in_some_worlds_people_say_everything_that_they_may() -> None:
    events = [event for seed in range(60) for event in scenario(seed).events]
    said = {event.what["say"] for event in events if event.kind == "override"}
    assert said == {"pin", "floor", "ceiling", "pause", "snooze"}
    assert any(event.kind == "override_end" for event in events)
