"""Cluster Autoscaler as its FAQ and flags document it."""

import pytest

from receiver.replay.peers import PEERS
from receiver.replay.play import Reaction, play
from receiver.replay.world.objects import GPU, WorldPool
from tests.replay.builders import L40S, T0
from tests.replay.peers.small_worlds import asked_at, at, empty_world, kept_empty, played_by


def test_a_gpu_pod_is_looked_at_at_the_first_scan_after_its_thirty_seconds() -> None:
    assert asked_at(played_by("cluster-autoscaler", [at("j", 3)])) == [40]


@pytest.mark.parametrize(
    ("name", "minutes"), [("cluster-autoscaler", 10), ("cluster-autoscaler-1m", 1), ("cluster-autoscaler-30m", 30)]
)
def test_an_empty_node_goes_after_the_time_it_was_unneeded_for(name: str, minutes: int) -> None:
    played = played_by(name, [at("j", 0, runs=3600), at("later", 9000)])
    assert kept_empty(played, played.lives[0]) == pytest.approx(minutes * 60, abs=10)


def test_no_node_goes_within_ten_minutes_of_the_last_growth() -> None:
    played = played_by("cluster-autoscaler", [at("a", 0, runs=300), at("b", 900, gpus=8, pods=2), at("c", 9000)])
    grown = asked_at(played)[1]
    gone = min((vm.deleted_at - vm.created_at).total_seconds() for vm in played.lives[:2] if vm.deleted_at)
    assert grown > 900
    assert gone >= 600


def test_pods_that_share_a_node_buy_one() -> None:
    assert len(played_by("cluster-autoscaler", [at(f"j{n}", 0, gpus=2) for n in range(4)]).lives) == 1


def test_a_node_on_its_way_is_not_bought_twice() -> None:
    assert len(played_by("cluster-autoscaler", [at("a", 0, gpus=4), at("b", 60, gpus=4)]).lives) == 1


def test_of_several_groups_the_one_with_the_least_waste_grows() -> None:
    played = played_by("cluster-autoscaler", [at("a", 0, gpus=3), at("b", 5000, gpus=1)], 1, 2, 4, 8)
    assert [vm.pool for vm in played.lives] == ["p4", "p1"]


def test_at_most_ten_empty_nodes_go_at_once() -> None:
    jobs = [at("many", 0, runs=300, pods=12), at("later", 6000)]
    played = played_by("cluster-autoscaler", jobs, most=12)
    gone = sorted(vm.deleted_at for vm in played.lives if vm.deleted_at is not None)
    assert [moment == gone[0] for moment in gone[:12]] == [True] * 10 + [False] * 2


def test_an_unneeded_node_is_chosen_after_those_in_use_although_it_is_older() -> None:
    jobs = [at("a", 0, runs=300), at("b", 10, runs=3000, gpus=4), at("c", 700, gpus=4)]
    placed = {p.pod: p.node for p in played_by("cluster-autoscaler", jobs).placements.all}
    assert placed["default/c-0"] == placed["default/b-0"] != placed["default/a-0"]


def test_a_node_that_is_needed_again_loses_the_taint() -> None:
    world = empty_world(WorldPool(id="p8", size=L40S, resources={GPU: 8}))
    jobs = [at("a", 0, runs=300), at("b", 600, runs=3000)]
    peer = PEERS["cluster-autoscaler"]
    play(world, jobs, peer(world, {"p8": 1}, jobs), Reaction(start=T0, tick=peer.every))
    assert {node.taints for node in world.nodes.values()} == {()}
