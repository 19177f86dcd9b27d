"""Waiting work is told when it starts."""

from datetime import timedelta

from receiver.ports import Store
from tests.core.builders import MINUTE
from tests.given import lives
from tests.given.life import Life, a_job

LONG = timedelta(hours=5)


def told(life: Life, pod: str) -> list[tuple[str, str]]:
    return [(e.reason, e.message) for e in life.world.events if e.name == pod]


def test_the_event_on_a_growth_says_when_the_pod_starts_and_no_step_repeats_it(store: Store) -> None:
    life = lives.experienced(store)
    life.submit(a_job("late", duration=LONG))
    life.run(5 * MINUTE)
    ((reason, message),) = [e for e in told(life, "late-0") if e[0] in ("TriggeredScaleUp", "WaitsForNode")]
    assert reason == "TriggeredScaleUp"
    assert message.startswith("GPU pool l40s grows from 6 to 7 nodes for pending GPU pods. This pod starts in ")


def test_a_pod_that_a_growth_does_not_reach_is_promised_nothing(store: Store) -> None:
    life = lives.experienced(store)
    life.submit(a_job("late", pods=3, duration=LONG))
    life.step()
    assert [[reason for reason, _ in told(life, f"late-{n}")] for n in range(3)] == [
        ["TriggeredScaleUp"],
        ["TriggeredScaleUp"],
        ["NotTriggerScaleUp"],
    ]


def test_a_pod_that_takes_room_on_a_node_on_its_way_is_told_so_once(store: Store) -> None:
    life = lives.experienced(store)
    life.set_override("floor", 7)
    life.run(MINUTE / 2)
    life.submit(a_job("second", duration=LONG))
    life.run(MINUTE)
    ((_, message),) = [e for e in told(life, "second-0") if e[0] == "WaitsForNode"]
    assert "is being built; starts in " in message
