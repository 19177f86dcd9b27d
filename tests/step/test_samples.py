"""Every minute one step leaves what it saw of the pools and their nodes."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from receiver.core.explain.samples import Doing
from receiver.ports import Store, TryLater
from receiver.reports.picture import kept_picture
from tests.core.builders import MINUTE
from tests.given import lives
from tests.given.life import FAST, POOL, a_job

SHORT = a_job(duration=3 * MINUTE)


def test_a_pool_is_sampled_once_a_minute(store: Store) -> None:
    life = lives.waiting(store, SHORT, rest=MINUTE)
    began = life.now
    life.run(10 * MINUTE)
    found = store.samples(began - MINUTE, life.now, pool=POOL)
    assert len(found) == 10
    assert {later.at - earlier.at for earlier, later in pairwise(found)} == {timedelta(minutes=1)}


def test_a_nodes_way_from_building_to_idle_is_kept(store: Store) -> None:
    timings = replace(FAST, build=2 * MINUTE)  # more than the minute of a sample
    life = lives.waiting(store, SHORT, rest=MINUTE, timings=timings)
    began = life.now
    life.run(13 * MINUTE)
    doings = [turn.doing for turn in store.turns(POOL, began, life.now)]
    assert (doings[0], doings[-2:]) == (Doing.BUILDING, [Doing.BUSY, Doing.IDLE])


def test_while_civo_is_silent_counts_are_unknown(store: Store) -> None:
    life = lives.waiting(store, SHORT, rest=MINUTE)
    life.run(2 * MINUTE)
    life.cloud.fail_next(TryLater("503", code="civo"), "look")
    life.world.advance(life.now.replace(second=0) + MINUTE)
    life.step()
    last = store.samples(life.now - MINUTE, life.now, pool=POOL)[-1]
    assert (last.at, last.required, last.busy) == (life.now, None, None)


def test_while_neither_kubernetes_nor_prometheus_answers_what_waits_is_unknown(store: Store) -> None:
    life = lives.waiting(store, SHORT, rest=MINUTE)
    life.run(2 * MINUTE)
    life.cluster.fail_next(TryLater("503", code="kubernetes"), "look")
    life.telemetry.fail_next(TryLater("503", code="prometheus"), "look")
    life.world.advance(life.now.replace(second=0) + MINUTE)
    life.step()
    shown, _ = kept_picture(store)
    assert (shown.waiting_total, [pool.pending_gpus for pool in shown.pools]) == (None, [None])


def test_under_a_clock_that_jumped_nothing_is_sampled(store: Store) -> None:
    life = lives.waiting(store, SHORT, rest=MINUTE)
    life.run(2 * MINUTE)
    life.pauses_are_jumps = True
    life.world.advance(life.now + timedelta(hours=5))
    life.step()
    assert store.samples(life.now - timedelta(hours=1), life.now, pool=POOL) == ()
