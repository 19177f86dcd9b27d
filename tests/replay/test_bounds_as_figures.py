"""Bounds beside policies: what they say of traces that a person can work out."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.capabilities.registry import step_additions
from receiver.core.model.policy import Pool
from receiver.replay.contest import Reckoned, Result, contest, the_product
from receiver.replay.figures import BOUNDS, Figures
from receiver.replay.play import Setting
from receiver.replay.world.objects import Job
from tests.given.life import GPU, START, a_job
from tests.replay.plays import a_trace_policy, some_jobs

EIGHT = Pool(id="x8", name="x8", size="x8", resources={GPU: 8}, max_nodes=9, price_usd_per_hour=Decimal(8))
ONE = Pool(id="x1", name="x1", size="x1", resources={GPU: 1}, max_nodes=99, price_usd_per_hour=Decimal(1))
SETTING = Setting(start=START, driver=timedelta(seconds=30))  # nodes are ordered 150 s ahead
HALF = timedelta(minutes=30)


def bounded(name: str, jobs: Sequence[Job], *pools: Pool, setting: Setting = SETTING) -> Figures:
    """The bound of that name on *pools*."""
    [found] = contest(jobs, [Reckoned(name=name, pools=pools, bound=BOUNDS[name])], setting)
    return found.figures


def test_the_fluid_bound_is_what_the_jobs_hold_on_the_cheapest_gpus() -> None:
    jobs = [a_job("a", duration=HALF, gpus_per_pod=4), a_job("b", duration=HALF, gpus_per_pod=2)]
    found = bounded("fluid", jobs, EIGHT, replace(ONE, price_usd_per_hour=Decimal("0.5")))
    assert (found.gpu_hours_second, found.usd_second, found.utilization) == (3.0, Decimal("1.50"), 1.0)


def test_who_knows_the_future_orders_ahead_and_nobody_waits() -> None:
    found = bounded("clairvoyant", [a_job(duration=HALF, gpus_per_pod=8)], EIGHT)
    assert found.node_hours_second == pytest.approx(0.5 + 150 / 3600, abs=0.001)
    assert (found.node_hours_started, found.gpu_hours_started, found.usd) == (1, 8, Decimal(8))
    assert (found.node_starts, found.wait_max_s, found.jobs_lost) == (1, 0.0, 0)


def test_of_large_and_small_nodes_the_cheaper_way_counts() -> None:
    alone = [a_job(duration=HALF)]
    assert bounded("clairvoyant", alone, EIGHT, ONE).gpu_hours_started == 1
    full = [a_job(f"j{n}", duration=HALF) for n in range(7)] + [a_job("wide", duration=HALF, gpus_per_pod=2)]
    assert bounded("clairvoyant", full, EIGHT, ONE).gpu_hours_started == 7 + 8
    assert bounded("clairvoyant", full, EIGHT).gpu_hours_started == 16


@pytest.mark.parametrize("billing", ["hour", "second"])
def test_nobody_pays_less_than_what_is_used(billing: str) -> None:
    setting = Setting(start=START, billing="hour" if billing == "hour" else "second")
    policy = a_trace_policy()
    jobs = some_jobs(3)
    entrants = [Reckoned(name=name, pools=policy.pools, bound=bound) for name, bound in BOUNDS.items()]
    told: list[tuple[str, int]] = []
    results = contest(
        jobs,
        [the_product("ours", policy, setting, step_additions()), *entrants],
        setting,
        lambda *said: told.append(said),
    )
    ours, knowing, fluid = (_paid(result, setting) for result in results)
    assert fluid <= min(knowing, ours)  # the schedule that knows is greedy, so it proves nothing of others
    assert told[-2:] == [("clairvoyant", len(jobs)), ("fluid", len(jobs))]


def _paid(result: Result, setting: Setting) -> float:
    found = result.figures
    return found.gpu_hours_started if setting.by_the_hour else found.gpu_hours_second
