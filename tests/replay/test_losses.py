"""Pods that lose their node: what the product must never cause, and what happens when it does."""

import pytest

from receiver.replay.world.objects import GPU, PodSpec
from simulator.world import World
from tests.replay.builders import after, job, pool, run, seconds, the_pod, vms, world


def busy_world() -> World:
    """Two nodes, one running a job of 600 s since second 5.2."""
    w = world(pool(count=2))
    w.submit(job())
    return run(w, 60)


def busy_node(w: World) -> str:
    """The instance under the job's pod."""
    return w.nodes[the_pod(w).node or ""].instance


def test_deleting_a_busy_node_kills_its_pod_and_is_counted() -> None:
    w = busy_world()
    w.delete_instance("a", busy_node(w))
    (kill,) = w.kills
    assert (kill.at, kill.name, kill.gpus, kill.by) == (after(60), "j-0", 1, "delete_instance")
    assert kill.ran == seconds(54.8)


def test_deleting_an_idle_node_kills_nothing() -> None:
    w = busy_world()
    idle = next(vm.id for vm in vms(w) if vm.id != busy_node(w))
    w.delete_instance("a", idle)
    assert the_pod(run(w, 700)).phase == "Succeeded"
    assert not w.kills


def test_a_lowered_count_drains_nothing_and_kills_what_runs() -> None:
    w = busy_world()
    w.resize("a", 0)
    assert [k.by for k in w.kills] == ["count"]


def test_a_pod_that_is_bound_and_not_running_yet_counts_as_killed_too() -> None:
    w = world(pool(count=1))
    w.submit(job())
    run(w, 2)
    assert the_pod(w).phase == "Pending"
    w.delete_instance("a", vms(w)[0].id)
    assert [(k.name, k.ran) for k in w.kills] == [("j-0", seconds(0))]


def test_a_killed_pod_of_a_job_comes_back_when_its_node_object_goes_and_starts_over() -> None:
    w = busy_world()
    w.delete_instance("a", busy_node(w))
    assert set(run(w, 89).pods) == {("default", "j-0")}
    run(w, 90)
    assert set(w.pods) == {("default", "j-0-r1")}
    run(w, 90 + 5.2 + 600)
    (done,) = w.finished
    assert done.restarts == 1
    assert done.finished_at == after(90 + 5.2 + 600)


def test_a_killed_pod_stops_holding_gpu_time_at_once() -> None:
    w = busy_world()
    w.delete_instance("a", busy_node(w))
    run(w, 89)
    assert w.gpu_seconds == pytest.approx(54.8)


def test_a_pod_on_its_way_out_is_not_counted_as_killed() -> None:
    w = busy_world()
    w.delete_pod("default", "j-0")
    w.delete_instance("a", busy_node(w))
    assert not w.kills


def test_a_daemon_pod_dies_with_its_node_and_is_neither_counted_nor_replaced() -> None:
    w = world(pool(count=1))
    node = vms(w)[0].hostname
    w.add_pod(PodSpec(namespace="gpu-operator", name="dcgm", owner_kind="DaemonSet", node=node))
    run(w, 10)
    w.delete_instance("a", vms(w)[0].id)
    run(w, 60)
    assert not w.kills
    assert not w.pods


def test_deleting_the_node_object_under_a_pod_counts_as_a_kill() -> None:
    w = busy_world()
    w.delete_node(the_pod(w).node or "")
    assert [k.by for k in w.kills] == ["delete_node"]
    run(w, 61)
    assert the_pod(w, "j-0-r1").node is not None


def test_a_member_of_a_placed_gang_that_was_killed_is_placed_again_alone() -> None:
    w = world(pool(count=3))
    w.submit(job("g", pods=2, gang=True))
    run(w, 60)
    w.delete_instance("a", w.nodes[the_pod(w, "g-0").node or ""].instance)
    run(w, 100)
    assert the_pod(w, "g-0-r1").phase == "Running"
    assert the_pod(w, "g-1").phase == "Running"
    assert GPU in the_pod(w, "g-0-r1").requests


def test_a_job_that_loses_pods_more_often_than_its_backoff_limit_is_given_up() -> None:
    w = world(pool(count=4), backoff_limit=1)
    w.submit(job("twins", pods=2))
    run(w, 5)
    for name, by in (("twins-0", 65), ("twins-0-r1", 125)):
        w.delete_instance("a", w.nodes[the_pod(w, name).node or ""].instance)
        run(w, by)
    assert list(w.failed) == ["twins"]
    assert not w.active_pods


def test_pods_lost_at_one_moment_count_once() -> None:
    w = world(pool(resources={GPU: 2}, count=2), backoff_limit=1)
    w.submit(job("twins", pods=2))
    run(w, 5)
    w.delete_instance("a", w.nodes[the_pod(w, "twins-0").node or ""].instance)
    run(w, 65)
    assert not w.failed
    assert len(w.kills) == 2
