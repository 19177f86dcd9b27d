"""What befalls single nodes, and Civo's stale counts."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.policy import Taint
from receiver.replay.ports import WorldCloud
from receiver.replay.world.objects import GPU, Behaviour, Denied
from simulator.cluster_port import SimulatedCluster
from simulator.world import World
from tests.replay.builders import job, pool, run, the_pod, vms, world

LAG = Behaviour(list_lag=timedelta(minutes=10))


def one_node(**given: Any) -> tuple[World, str]:
    """A world with one usable node, and its name."""
    w = run(world(pool(count=1, **given)), 10)
    return w, vms(w)[0].hostname


# --- the driver crashes ---


def test_a_node_whose_driver_crashed_offers_no_gpu_until_it_recovers() -> None:
    w, name = one_node()
    w.faults.lose_gpu(name)
    assert SimulatedCluster(w).look().nodes[0].allocatable == {GPU: 0}
    assert (w.gpu_samples(), w.gpus("a")) == ([], 0)
    w.submit(job())
    assert the_pod(run(w, 20)).node is None
    w.faults.recover(name)
    assert the_pod(run(w, 21)).node == name
    assert w.gpus("a") == 1


def test_a_pod_on_a_crashed_driver_stays_and_holds_its_gpu_after_it() -> None:
    w, name = one_node()
    w.submit(job())
    run(w, 60)
    w.faults.lose_gpu(name)
    run(w, 100)
    w.faults.recover(name)
    (sample,) = w.gpu_samples()
    assert (sample.pod, sample.util) == (("default", "j-0"), 0.9)
    assert the_pod(run(w, 700)).phase == "Succeeded"
    assert [s.pod for s in w.gpu_samples()] == [None]


def test_the_gpu_of_a_crashed_driver_is_in_no_average() -> None:
    w = run(world(pool(count=2)), 10)
    w.submit(job(runs=9000))
    name = the_pod(run(w, 60)).node or ""
    w.faults.lose_gpu(name)
    assert run(w, 200).utilization("a", timedelta(seconds=100)) == 0.0
    w.faults.recover(name)
    assert run(w, 400).utilization("a", timedelta(seconds=100)) == pytest.approx(0.45)


def test_a_node_that_offers_no_gpu_yet_loses_none() -> None:
    w = world()
    w.resize("a", 1)
    run(w, 200)
    w.faults.lose_gpu(vms(w)[0].hostname)
    assert w.gpus("a") == 0
    run(w, 320)
    w.faults.recover(vms(w)[0].hostname)
    assert w.gpus("a") == 1


# --- the kubelet is silent ---


def test_a_node_that_flaps_takes_nothing_while_it_is_not_ready_and_keeps_what_runs() -> None:
    w, name = one_node(resources={GPU: 2})
    w.submit(job("runs"))
    run(w, 60)
    w.faults.not_ready(name)
    assert not w.nodes[name].ready
    w.submit(job("waits"))
    assert the_pod(run(w, 70), "waits-0").node is None
    assert the_pod(w, "runs-0").phase == "Running"
    w.faults.recover(name)
    assert w.nodes[name].ready
    assert w.nodes[name].taints == ()
    assert the_pod(run(w, 71), "waits-0").node == name
    assert w.kills == []


def test_a_dead_machine_does_not_recover() -> None:
    w, name = one_node()
    w.faults.not_ready(name)
    w.faults.lose_gpu(name)
    w.delete_instance("a", vms(w)[0].id)
    w.faults.recover(name)
    assert not w.nodes[name].ready
    assert w.gpus("a") == 0


def test_clearing_the_faults_lets_every_node_recover() -> None:
    w = run(world(pool(count=2)), 10)
    first, second = (vm.hostname for vm in vms(w))
    w.faults.not_ready(first)
    w.faults.lose_gpu(second)
    w.faults.clear()
    assert w.nodes[first].ready
    assert w.gpus("a") == 2


@pytest.mark.parametrize("fault", ["lose_gpu", "not_ready", "recover"])
def test_nothing_befalls_a_node_that_is_not_there(fault: str) -> None:
    w = world()
    with pytest.raises(Denied) as refused:
        getattr(w.faults, fault)("gone")
    assert refused.value.status == 404


# --- bare nodes ---


def test_the_next_nodes_come_without_labels_and_taints_until_they_are_dressed() -> None:
    taint = Taint(key="gpu", value="true")
    w = world(pool(labels={"gpu": "on-demand"}, taints=(taint,)))
    w.faults.bare_labels("a", 1)
    w.resize("a", 1)
    run(w, 400)
    w.resize("a", 2)
    run(w, 800)
    bare, dressed = (w.nodes[vm.hostname] for vm in vms(w))
    assert (bare.labels.get("gpu"), bare.taints) == (None, ())
    assert (dressed.labels.get("gpu"), dressed.taints) == ("on-demand", (taint,))
    SimulatedCluster(w).apply_labels_and_taints(bare.name, {"gpu": "on-demand"}, [taint])
    worn = w.nodes[bare.name]
    assert (worn.labels["gpu"], worn.taints) == ("on-demand", (taint,))


# --- stale counts ---


def test_a_count_is_shown_as_it_was_while_instances_are_shown_as_they_are() -> None:
    w = run(world(pool(count=3), behaviour=LAG), 1000)
    w.delete_instance("a", vms(w)[0].id)
    seen = WorldCloud(run(w, 1100)).look()["a"]
    assert (seen.required, len(seen.instances), w.pools["a"].required) == (3, 2, 2)
    assert WorldCloud(run(w, 1599)).look()["a"].required == 3
    assert WorldCloud(run(w, 1600)).look()["a"].required == 2


def test_each_of_several_changes_is_shown_in_its_time() -> None:
    w = run(world(pool(count=3), behaviour=LAG), 1000)
    w.resize("a", 5)
    run(w, 1100)
    w.delete_instance("a", vms(w)[0].id)
    assert [w.shown_count("a")] + [run(w, at).shown_count("a") for at in (1599, 1600, 1699, 1700)] == [3, 3, 5, 5, 4]


def test_a_resize_reads_the_stale_count_and_is_told_what_it_shows() -> None:
    w = run(world(pool(count=2), behaviour=LAG), 1000)
    cloud = WorldCloud(w)
    assert cloud.retire("a", vms(w)[0].id).required == 2
    run(w, 1100)
    assert cloud.resize("a", decided_on=1, target=3).did.value == "differs"
    receipt = cloud.resize("a", decided_on=1, target=3, shown=2)
    assert (receipt.did.value, receipt.required, w.pools["a"].required) == ("differs", 2, 1)  # one is still to fall
    run(w, 1600)
    receipt = cloud.resize("a", decided_on=1, target=3)
    assert (receipt.did.value, receipt.required, w.pools["a"].required) == ("done", 1, 3)


def test_without_a_lag_the_count_is_shown_as_it_is() -> None:
    w = world(pool(count=3))
    w.resize("a", 5)
    assert (w.shown_count("a"), w.listed_count("a")) == (5, 5)
