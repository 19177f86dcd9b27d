"""Schedules with the real receiver process: a fixed one, and that what must not be is seen when it is asked for."""

import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from campaigns.faults.planted import BUGS
from campaigns.faults.processes.play import play
from campaigns.faults.processes.schedule import Event, PoolPlan, Schedule, schedule
from campaigns.faults.processes.stage import Stage, staged
from demo.plan import API_KEY
from receiver.replay.world.objects import PodSpec
from simulator.http_faults import HttpFault

POOL = PoolPlan(
    name="l40s", id="5f3c0000-0000-4000-8000-000000000000", gpus=2, max_nodes=3, min_nodes=0, count=1, usd=6.0
)
ALONE = Schedule(seed=1, pools=[POOL], events=[], granularity=60, budget_usd=0.35, max_gpus=4)
AUTHORIZED = {"Authorization": f"Bearer {API_KEY}"}


def job(**changes: object) -> Event:
    """A job of one pod in the pool."""
    return Event(at=0.5, kind="job", what={"id": "j0", "pool": POOL.id, "pods": 1, "each": 2, "seconds": 20, **changes})


def test_the_invariants_hold_in_a_process_that_is_killed_while_it_buys() -> None:
    troubles = [
        Event(
            at=0.4,
            kind="wire",
            what={"face": "civo", "method": "PUT", "kind": "timeout", "seconds": "0s", "after_effect": True},
        ),
        job(),
        Event(at=0.6, kind="line", what={"within": "step/carry_out", "lines": 20, "patience": 60}),
        Event(at=0.7, kind="deliver", what={"how": "six at once"}),
    ]
    result = play(
        replace(ALONE, pools=[replace(POOL, count=0)], events=troubles, troubled=1.5, granularity=1, budget_usd=None)
    )
    assert result.message == ""
    assert result.counts["PUT"] >= 1
    assert result.counts["DELETE"] == 1
    assert len(result.lines) == 1


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage whose receiver was not started: the test asks for what it must not ask for."""
    with staged(ALONE, tmp_path) as stage:
        yield stage


def _node(stage: Stage) -> tuple[str, str]:
    """The one node's name and instance."""
    with stage.cloud.moved() as world:
        (vm,) = world.pools[POOL.id].living
        return vm.hostname, vm.id


def _civo(stage: Stage, method: str, path: str, **body: object) -> None:
    url = f"{stage.cloud.url}/v2/kubernetes/clusters/{stage.cloud.config.cluster.id}/pools/{POOL.id}{path}"
    requests.request(method, f"{url}?region=LON1", json=body, headers=AUTHORIZED, timeout=60)


def test_a_delete_of_a_node_with_a_pod_is_seen_and_that_it_was_not_cordoned(stage: Stage) -> None:
    node, instance = _node(stage)
    with stage.cloud.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name="p", requests={"nvidia.com/gpu": 1}, node=node))
    _civo(stage, "DELETE", f"/instances/{instance}")
    assert [v.split(":")[0] for v in stage.witness.violations] == ["1 GPU pods", "1 cordon first"]


def test_a_pod_that_landed_after_the_last_look_is_beyond_what_is_promised(stage: Stage) -> None:
    node, instance = _node(stage)
    requests.get(f"{stage.cloud.url}/api/v1/pods?fieldSelector=spec.nodeName={node}", timeout=60)
    with stage.cloud.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name="p", requests={"nvidia.com/gpu": 1}, node=node))
    _civo(stage, "DELETE", f"/instances/{instance}")
    assert [v.split(":")[0] for v in stage.witness.violations] == ["1 cordon first"]


@pytest.mark.parametrize(
    ("count", "seen"),
    [
        (0, {"4 never a lower count"}),
        (2, {"2 budget", "4 asked twice"}),
        (4, {"2 maximum", "2 max_gpus", "2 budget", "4 asked twice"}),
    ],
)
def test_a_put_that_must_not_be_is_seen(stage: Stage, count: int, seen: set[str]) -> None:
    stage.clock.skip(120)
    _civo(stage, "PUT", "", count=count, region="LON1")
    assert {v.split(":")[0] for v in stage.witness.violations} == seen


@pytest.mark.parametrize(("kubernetes", "seen"), [("answers", {"4 asked twice"}), ("failed", set())])
def test_pods_of_another_pool_excuse_a_put_only_when_kubernetes_failed(
    tmp_path: Path, kubernetes: str, seen: set[str]
) -> None:
    """kube-state-metrics, which is asked then, does not show which pool a pod selects."""
    with staged(replace(ALONE, budget_usd=None, max_gpus=None), tmp_path) as stage:
        with stage.cloud.moved() as world:
            world.add_pod(
                PodSpec(namespace="ml", name="p", requests={"nvidia.com/gpu": 2}, node_selector={"tier": "b"})
            )
        if kubernetes == "failed":
            stage.cloud.faults.add(HttpFault(kind="not_json", face="kubernetes", status=200))
        requests.get(f"{stage.cloud.url}/api/v1/pods", timeout=60)
        _civo(stage, "PUT", "", count=2)
        assert {v.split(":")[0] for v in stage.witness.violations} == seen


def test_any_write_of_observe_mode_is_seen(tmp_path: Path) -> None:
    with staged(replace(ALONE, mode="observe"), tmp_path) as stage:
        _civo(stage, "PUT", "", count=1, region="LON1")
        assert [v.split(":")[0] for v in stage.witness.violations] == ["6 observe"]


def test_a_schedule_comes_back_from_json_as_it_was() -> None:
    assert Schedule.from_json(schedule(7).to_json()) == schedule(7)


def test_every_planted_bug_has_a_function_to_break_and_every_invariant_has_one() -> None:
    places = {f"{module}.{function}" for bug in BUGS for module, function in bug.breaks}
    found = {place: pkgutil.resolve_name(place) for place in sorted(places)}
    assert [place for place, there in found.items() if not (callable(there) or isinstance(there, property))] == []
    assert {bug.invariant for bug in BUGS} == set(range(1, 11))
