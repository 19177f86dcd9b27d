"""A stack that is kept goes on working, jobs arrive by themselves, and what it prints can be pasted."""

import io
import shlex
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
import requests

from demo.configs import simulator_config, write_configs
from demo.plan import OPERATOR_TOKEN, Places, StackPlan
from demo.playground import BUDGET_USD, BURST, arrivals, guide, keep, lasting, playground_plan
from demo.scenario import POOL_LABEL, POOLS, demo_plan
from demo.screen import Screen
from demo.stack import Stack, places_for
from receiver.config import load_file
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.demo.seen import BEGAN

HOURS = 31 * 24


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return places_for(playground_plan(), tmp_path)


@pytest.fixture
def sim(places: Places) -> Iterator[Simulator]:
    with Simulator(simulator_config(playground_plan(), places), clock=ManualClock(BEGAN)) as simulator:
        yield simulator


@pytest.mark.parametrize("plan", [lasting(demo_plan()), playground_plan()], ids=["kept demo", "playground"])
def test_the_autoscaler_takes_a_lasting_configuration_without_a_warning(plan: StackPlan, places: Places) -> None:
    write_configs(plan, places)

    assert load_file(places.config("receiver")).warnings == ()


def test_a_month_of_every_pool_at_its_maximum_stays_below_the_hold_line() -> None:
    hourly = sum(pool.max_nodes * Decimal(pool.price) for pool in POOLS)

    assert HOURS * hourly < Decimal("0.8") * Decimal(BUDGET_USD)


def test_the_same_seed_brings_the_same_jobs() -> None:
    assert list(islice(arrivals(1), 20)) == list(islice(arrivals(1), 20)) != list(islice(arrivals(2), 20))


def test_every_job_that_arrives_is_accepted_and_fits_its_pool(sim: Simulator) -> None:
    jobs = [job for _, job in islice(arrivals(1), 200)]
    sim.live.submit(jobs)

    room = {pool.id: pool.max_nodes * pool.gpus for pool in POOLS}
    for job in jobs:
        pool = job["node_selector"].get(POOL_LABEL)
        assert pool is None or job["pods"] * job["gpus_per_pod"] <= room[pool]
    assert {job["node_selector"].get(POOL_LABEL) for job in jobs} == {None, *room}
    assert {job["gang"] for job in jobs} == {True, False}


def test_a_burst_of_jobs_is_followed_by_a_pause() -> None:
    pauses = [pause for pause, _ in islice(arrivals(1), 3 * BURST)]

    assert [pause >= 120 for pause in pauses] == 3 * [*(BURST - 1) * [False], True]


def test_every_command_that_is_printed_is_accepted_as_it_is(sim: Simulator) -> None:
    commands = [line.strip() for line in guide(lambda _: sim.url) if line.startswith("  curl")]

    for command in commands:
        words = shlex.split(command.replace("$(date +%s)", "1764000000"))
        if "-d" in words:
            answer = requests.post(words[-1], data=words[words.index("-d") + 1], timeout=60)
        else:
            answer = requests.request(words[words.index("-X") + 1], words[-1], timeout=60)
        assert answer.ok, (command, answer.text)
    with sim.moved() as world:
        assert {pod.name.partition("-")[0] for pod in world.pods.values() if pod.namespace == "default"} == {
            "job",
            "many",
        }
    assert len(commands) == 5


class Ending:
    """A stack whose simulator ends once *lasts* jobs were submitted."""

    def __init__(self, places: Places, lasts: int) -> None:
        self.plan, self.places, self._lasts = playground_plan(), places, lasts
        self.submitted: list[dict[str, Any]] = []

    def submit(self, job: dict[str, Any]) -> None:
        self.submitted.append(job)

    def check_alive(self) -> None:
        if len(self.submitted) >= self._lasts:
            raise RuntimeError("simulator has ended")


def test_jobs_arrive_until_a_part_ends(places: Places) -> None:
    stack, out = Ending(places, lasts=2), io.StringIO()

    with pytest.raises(RuntimeError, match="simulator has ended"):
        keep(Screen(out), cast("Stack", stack), ((0, {"id": name}) for name in ("a", "b")))

    assert [job["id"] for job in stack.submitted] == ["a", "b"]
    assert OPERATOR_TOKEN in out.getvalue()
