"""How soon a replayed controller notices a change."""

from datetime import datetime, timedelta

from receiver.replay.play import Reaction, play
from receiver.replay.world.objects import Job, WorldConfig, WorldPool
from simulator.world import World
from tests.given.life import GPU, SIZE, START, a_job

SECOND = timedelta(seconds=1)
AT = START + 7 * SECOND


def reacting(**given: timedelta) -> float:
    """Seconds from a change 7 s after the start until it is noticed, with a tick of 60 s."""
    reaction = Reaction(**{"start": START, "tick": 60 * SECOND, **given})  # type: ignore[arg-type]
    return (reaction.noticed(AT) - AT).total_seconds()


def test_without_alert_and_watch_the_tick_finds_it() -> None:
    assert reacting() == 53


def test_an_alert_takes_a_scrape_then_an_evaluation_then_the_group_wait() -> None:
    assert reacting(scrape=4 * SECOND, evaluation=5 * SECOND, group_wait=1 * SECOND) == 8 + 2 + 1 - 7


def test_a_watch_tells_of_it_before_the_alert_does() -> None:
    assert reacting(scrape=5 * SECOND, evaluation=5 * SECOND, watch=1 * SECOND) == 1


def test_a_watch_needs_no_prometheus() -> None:
    assert reacting(watch=timedelta(0)) == 0


def test_a_slow_watch_delays_neither_the_alert_nor_the_tick() -> None:
    assert reacting(scrape=5 * SECOND, evaluation=5 * SECOND, watch=20 * SECOND) == 3
    assert reacting(tick=10 * SECOND, watch=20 * SECOND) == 3


def test_what_is_no_waiting_pod_is_found_at_the_tick() -> None:
    reaction = Reaction(start=START, tick=60 * SECOND, scrape=5 * SECOND, evaluation=5 * SECOND, watch=1 * SECOND)
    assert reaction.noticed(AT, waits=False) == START + 60 * SECOND


class Onlooker:
    """Changes nothing and notes when it looks."""

    actions = 0

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def look(self, now: datetime) -> datetime | None:
        self.seconds.append((now - START).total_seconds())
        return None


def looks(*jobs: Job, watch: timedelta | None) -> list[float]:
    """When a controller with a tick of a minute looks, in seconds, over a pool with one usable node of 8 GPUs."""
    pools = (WorldPool(id="l40s-id", size=SIZE, resources={GPU: 8}, count=1),)
    world = World(WorldConfig(pools=pools, packing="first_fit"), START)
    controller = Onlooker()
    play(world, jobs, controller, Reaction(start=START, tick=60 * SECOND, watch=watch))
    return controller.seconds


def test_a_pod_without_room_is_looked_at_when_the_watch_tells_of_it() -> None:
    full = a_job("full", submit_at=START + 62 * SECOND, gpus_per_pod=8, duration=600 * SECOND)
    waiting = a_job("waiting", submit_at=START + 130 * SECOND, gpus_per_pod=1)
    unwatched, watched = (looks(full, waiting, watch=w) for w in (None, SECOND))
    assert all(at % 60 == 0 for at in unwatched)
    assert len([at for at in watched if 131 <= at < 133]) == 1
    assert len([at for at in watched if at % 60]) == 1  # neither a start nor an end is news to it


class Punctual(Onlooker):
    """Names a moment that is on no tick."""

    def look(self, now: datetime) -> datetime | None:
        super().look(now)
        named = START + 77 * SECOND
        return named if now < named else None


def test_a_moment_that_was_named_is_kept_by_whoever_wakes_by_itself() -> None:
    kept = []
    for by_itself in (True, False):
        world = World(WorldConfig(pools=(WorldPool(id="l40s-id", size=SIZE, resources={GPU: 8}, count=1),)), START)
        controller = Punctual()
        job = a_job(submit_at=START, duration=200 * SECOND)
        play(world, [job], controller, Reaction(start=START, tick=60 * SECOND, by_itself=by_itself))
        kept.append(77.0 in controller.seconds)
    assert kept == [True, False]
