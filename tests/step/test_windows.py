"""A day with windows: what is bought when one opens, and what becomes of running work when one closes the pool."""

from receiver.core.model.windows import Window
from receiver.ports import Store
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import living
from tests.given import lives
from tests.given.life import START, a_job

# START is 12:00 UTC; Berlin's clock shows 13:00.
AFTERNOON = Window(
    name="afternoon", location="Europe/Berlin", times=((14 * 60, 18 * 60),), standby_nodes=2, min_nodes=0
)
CLOSED = Window(name="closed", location="Europe/Berlin", times=((14 * 60, 18 * 60),), max_nodes=0)
OPENS = START + HOUR
CLOSES = START + 5 * HOUR


def test_standby_of_a_window_is_bought_at_the_very_moment_it_opens_and_goes_after_it(store: Store) -> None:
    life = lives.at_zero(store, a_pool(windows=(AFTERNOON,)))
    assert life.step().reconsider_at == OPENS
    life.run(HOUR, tick=10 * MINUTE)
    assert life.writes() == []
    life.run(2 * SECOND)
    assert life.writes("resize") == [("resize", ("l40s-id", 2))]
    life.run(CLOSES - life.now, tick=2 * MINUTE)
    assert len(living(life)) == 2
    life.run(HOUR + MINUTE, tick=2 * MINUTE)
    assert living(life) == []


def test_a_window_that_closes_the_pool_lets_running_work_finish_and_serves_what_waits_when_it_ends(
    store: Store,
) -> None:
    life = lives.waiting(
        store, a_job("long", duration=3 * HOUR), a_job("short", duration=80 * MINUTE), pool=a_pool(windows=(CLOSED,))
    )
    life.run(OPENS - life.now + MINUTE, tick=MINUTE)
    assert len(living(life)) == 2
    life.run(HOUR, tick=2 * MINUTE)
    assert [job.id for job in life.world.finished] == ["short"]
    assert len(living(life)) == 1  # the other node was idle, and went before its next paid hour
    life.run(2 * HOUR, tick=2 * MINUTE)
    assert [job.id for job in life.world.finished] == ["short", "long"]
    assert living(life) == []
    assert (life.world.kills, life.writes("evict")) == ([], [])

    life.submit(a_job("late"))
    life.run(CLOSES - life.now - SECOND, tick=10 * MINUTE)
    [decision] = life.step().decisions.values()
    assert decision.deciding.rule == "within_maximum"
    assert "window closed" in decision.deciding.detail
    assert decision.reconsider_at == CLOSES
    before = len(life.writes("resize"))
    life.run(2 * SECOND)
    assert len(life.writes("resize")) == before + 1
