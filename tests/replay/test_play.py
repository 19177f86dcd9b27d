"""Traces played through a world, by the product and by a peer, checked by what the world itself logged."""

import gc
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import cast

import pytest

from receiver.adapters.store import open_in_memory
from receiver.capabilities.registry import step_additions
from receiver.core.model.actions import Decision
from receiver.core.model.memory import Memory
from receiver.core.model.policy import Budget
from receiver.ports import Store
from receiver.replay.contest import Product, the_product
from receiver.replay.figures import Figures, figures, fluid_gpu_hours, quantile, schedule, started_hours, violations
from receiver.replay.peers import ClusterAutoscaler
from receiver.replay.play import Controller, Played, Reaction, Setting, rare_collections
from receiver.replay.store import ReplayStore
from simulator.world import World
from tests.given.life import PRICE, SIZE, START, Life, a_job
from tests.replay.plays import POOL, SECOND, TICK, a_trace_policy, a_trace_world, by_product, played_by, some_jobs


def by_peer(world: World) -> Controller:
    """Cluster Autoscaler."""
    return ClusterAutoscaler(world, {POOL: 12})


def of(played: Played) -> Figures:
    """The figures, billed by the started hour."""
    return figures("some", played, {SIZE: PRICE}, by_the_hour=True)


@cache
def figures_of(make: Callable[[World], Controller], seed: int) -> Figures:
    """The figures of some jobs, which are played once for all tests."""
    return of(played_by(make, some_jobs(seed)))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("make", [by_product, by_peer])
def test_every_job_runs_once_and_nothing_is_killed(make: Callable[[World], Controller], seed: int) -> None:
    found = figures_of(make, seed)
    assert (found.jobs, found.jobs_lost, found.kills) == (40, 0, 0)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("make", [by_product, by_peer])
def test_nobody_pays_less_than_the_jobs_hold(make: Callable[[World], Controller], seed: int) -> None:
    found = figures_of(make, seed)
    assert fluid_gpu_hours(some_jobs(seed)) <= found.gpu_hours_second <= found.gpu_hours_started


def test_the_same_trace_gives_the_same_figures() -> None:
    assert of(played_by(by_product, some_jobs(3))) == figures_of(by_product, 3)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_the_memory_of_a_replay_knows_at_every_step_what_the_store_knows(seed: int) -> None:
    policy = a_trace_policy(budget=Budget(monthly_usd=Decimal(60)))
    known: list[list[Memory]] = []
    with closing(open_in_memory()) as in_memory:
        for store in (in_memory, cast("Store", ReplayStore())):
            life = Life(a_trace_world(), policy, store)
            life.heartbeats = not isinstance(store, ReplayStore)  # it always hears one
            life.world.submit_later(some_jobs(seed))
            known.append([])
            for _ in range(150):
                life.step_without_chores()
                found = store.memory(life.now, START - timedelta(days=30))
                over = found.ended.lives if found.ended is not None else ()
                lives = tuple(sorted((*over, *found.lives), key=lambda x: (x.created_at, x.instance)))
                known[-1].append(replace(found, lives=lives, ended=None, heartbeat_at=None, deliveries=()))
                under_way = any(pool.open_action is not None for pool in found.pools.values())
                life.pass_time(10 * SECOND if under_way else timedelta(minutes=3))
    for number, (kept, replayed) in enumerate(zip(*known, strict=True)):
        assert replayed == kept, number
    assert sum(life.gone_at is not None for life in known[0][-1].lives) > 3


def test_a_replay_knows_the_last_decision_of_each_pool_under_its_number() -> None:
    store = ReplayStore()
    made = [Decision(pool=p, at=START, present=0, target=n, reasons=()) for p, n in (("l40s-id", 1), ("h100-id", 1))]
    first, other = map(store.decided, made)
    last = store.decided(replace(made[0], target=2))
    assert store.decided(replace(made[0], target=2)) == last
    known = [store.decision(number) for number in (first, other, last)]
    assert [(d.decision.pool, d.decision.target) if d else None for d in known] == [
        None,
        ("h100-id", 1),
        ("l40s-id", 2),
    ]


def test_a_product_under_a_budget_leaves_jobs_waiting_and_says_how_many() -> None:
    policy = a_trace_policy(budget=Budget(monthly_usd=Decimal(6)))
    jobs = [replace(job, submit_at=START + timedelta(days=2)) for job in some_jobs(5)]
    played = played_by(lambda world: Product(world, policy, step_additions()), jobs)
    assert of(played).wait_max_s > timedelta(days=5).total_seconds()  # until the next month, at least


def test_budgets_of_teams_are_refused_in_words() -> None:
    policy = a_trace_policy(budget=Budget(monthly_usd=Decimal(60), teams={"vision": Decimal(5)}))
    with pytest.raises(ValueError, match=r"leave budget\.teams out"):
        the_product("ours", policy, Setting(), step_additions())


def test_the_peer_looks_at_a_gpu_pod_only_after_its_thirty_seconds() -> None:
    played = played_by(by_peer, [a_job(submit_at=START + 3 * SECOND)])
    asked = played.lives[0].created_at - START
    assert timedelta(seconds=33) <= asked <= timedelta(seconds=40)


def test_the_peer_keeps_an_empty_node_for_ten_minutes_and_no_longer() -> None:
    jobs = [a_job("first", submit_at=START), a_job("last", submit_at=START + timedelta(hours=3))]
    played = played_by(by_peer, jobs)
    first = played.lives[0]
    over = next(job.finished_at for job in played.finished if job.id == "first")
    assert first.deleted_at is not None
    assert timedelta(minutes=10) <= first.deleted_at - over <= timedelta(minutes=10, seconds=20)


def test_the_product_keeps_an_empty_node_until_its_paid_hour_ends() -> None:
    jobs = [a_job("first", submit_at=START), a_job("last", submit_at=START + timedelta(hours=3))]
    first = played_by(by_product, jobs).lives[0]
    assert first.deleted_at is not None
    assert timedelta(minutes=55) <= first.deleted_at - first.created_at < timedelta(hours=1)


def test_a_schedule_that_knows_the_future_pays_no_more_than_who_does_not() -> None:
    jobs = some_jobs(6)
    bound = sum(map(started_hours, schedule(jobs, 8, timedelta(seconds=150), unit=timedelta(hours=1))))
    assert bound <= of(played_by(by_product, jobs)).node_hours_started
    assert bound * 8 >= fluid_gpu_hours(jobs)


def test_a_pod_larger_than_a_node_is_in_no_schedule() -> None:
    with pytest.raises(ValueError, match="nodes have 4"):
        schedule([a_job(gpus_per_pod=8)], 4, timedelta(0), unit=timedelta(hours=1))


def test_a_change_is_noticed_at_the_next_tick_or_when_its_alert_comes() -> None:
    chain = Reaction(start=START, tick=60 * SECOND, scrape=15 * SECOND, evaluation=15 * SECOND, group_wait=10 * SECOND)
    assert TICK.noticed(START + 3 * SECOND) == START + 10 * SECOND
    assert TICK.noticed(START + 10 * SECOND) == START + 10 * SECOND
    assert chain.noticed(START + 3 * SECOND) == START + 25 * SECOND
    assert chain.noticed(START + 44 * SECOND) == START + 55 * SECOND
    assert chain.noticed(START + 46 * SECOND) == START + 60 * SECOND


def test_what_does_not_add_up_is_said() -> None:
    jobs = some_jobs(7)
    whole = played_by(by_product, jobs)
    lost = replace(whole, finished=whole.finished[1:])
    assert any("lost" in said for said in violations(jobs, lost))
    placed = whole.placements.all[0]
    whole.placements.all += [replace(placed, pod=f"ml/ghost-{n}", gpus=8) for n in range(2)]
    said = violations(jobs, whole)
    assert any("were held at once" in line for line in said)


def test_a_pod_on_a_node_that_is_not_ready_yet_is_said() -> None:
    jobs = some_jobs(8)
    whole = played_by(by_product, jobs)
    placed = whole.placements.all[0]
    whole.placements.all[0] = replace(placed, bound_at=placed.bound_at - timedelta(minutes=3))
    assert any("before its GPUs were usable" in line for line in violations(jobs, whole))


def test_figures_are_what_one_job_on_one_node_comes_to() -> None:
    found = of(played_by(by_product, [a_job(submit_at=START, gpus_per_pod=4, duration=timedelta(minutes=90))]))
    assert (found.node_starts, found.node_hours_started, found.gpu_hours_started) == (1, 2, 16)
    assert found.usd == 2 * PRICE
    assert 150 <= found.wait_max_s <= 165
    assert found.wait_mean_s == found.wait_p50_s == found.wait_p95_s == found.wait_max_s
    assert found.utilization == pytest.approx(0.5 * 90 / (90 + found.wait_max_s / 60), rel=0.01)


def test_a_quantile_is_one_of_the_values() -> None:
    assert [quantile([1.0, 2.0, 3.0, 4.0], part) for part in (0.5, 0.95)] == [2.0, 4.0]
    assert quantile([], 0.5) == 0.0


def test_a_replay_leaves_the_collector_of_garbage_as_it_was() -> None:
    before = gc.get_threshold()
    with rare_collections():
        during = gc.get_threshold()
    assert (during[0] > 10_000, gc.get_threshold()) == (True, before)
