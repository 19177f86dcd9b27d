"""What holds of every peer: it plays any trace on any pools, and the log adds up."""

from dataclasses import replace

import pytest

from benchmarks.peers import ALL
from receiver.replay.world.objects import GPU, POOL_LABEL, WorldPool
from tests.replay.builders import L40S
from tests.replay.peers.small_worlds import at, played_by, played_on

GENTLE = [name for name in ALL if not name.startswith("naive") and name != "escalator"]
JOBS = [
    at("lone", 3, runs=700, gpus=1),
    at("gang", 5, runs=400, gpus=4, pods=3),
    at("whole", 9, runs=1500, gpus=8),
    at("late", 4000, runs=60, gpus=2),
]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("sizes", [(8,), (1, 2, 4, 8)])
def test_every_job_is_finished_or_given_up_and_everything_adds_up(name: str, sizes: tuple[int, ...]) -> None:
    played = played_by(name, JOBS, *sizes)
    assert len(played.finished) + len(played.left) == len(JOBS)


@pytest.mark.parametrize("name", GENTLE)
def test_a_peer_that_deletes_empty_nodes_alone_kills_nothing_and_loses_no_job(name: str) -> None:
    played = played_by(name, JOBS, 1, 2, 4, 8)
    assert not played.kills
    assert not played.left


@pytest.mark.parametrize("name", GENTLE)
def test_a_pool_at_its_maximum_makes_pods_wait_and_loses_none(name: str) -> None:
    played = played_by(name, [at(f"j{n}", n, runs=200) for n in range(5)], most=2)
    assert not played.left


@pytest.mark.parametrize("name", GENTLE)
def test_a_pod_that_only_one_pool_lets_in_gets_its_node_there(name: str) -> None:
    here = replace(at("here", 3, gpus=1), node_selector={POOL_LABEL: "p8"})
    played = played_by(name, [at("before", 0, runs=5000, gpus=1), here], 1, 8)
    nodes = {vm.hostname: vm.pool for vm in played.lives}
    assert {nodes[p.node] for p in played.placements.all if "/here-" in p.pod} == {"p8"}


@pytest.mark.parametrize("name", GENTLE)
def test_slices_of_gpus_are_counted_as_they_are_asked_for(name: str) -> None:
    slices = WorldPool(id="mig", size=L40S, resources={"nvidia.com/mig-1g.10gb": 7}, gpus=1)
    jobs = [replace(at(f"j{n}", n, gpus=3), resource="nvidia.com/mig-1g.10gb") for n in range(2)]
    played = played_on(name, jobs, WorldPool(id="p8", size=L40S, resources={GPU: 8}), slices)
    assert {vm.pool for vm in played.lives} == {"mig"}
    assert not played.left
