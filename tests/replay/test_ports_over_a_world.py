"""The reconciler's ports over a world answer as the real adapters do."""

import pytest

from receiver.core.model.pods import PodPhase, Toleration
from receiver.ports import CORDON_ANNOTATION, Cloud, Cluster, Did, TryLater, WontWork
from receiver.replay.ports import WorldCloud
from receiver.replay.world.objects import GPU, Behaviour, PodSpec
from simulator.cluster_port import SimulatedCluster
from simulator.world import Pdb, World
from tests.replay.builders import L40S, job, pool, run, the_pod, vms, world
from tests.world_ports import FlakyCloud

# --- Civo ---


def test_the_cloud_shows_required_counts_and_listed_instances_of_every_pool() -> None:
    w = world(pool("a", count=1), pool("b"))
    cloud: Cloud = WorldCloud(w)
    seen = cloud.look()
    assert {p.id: (p.required, p.size, len(p.instances)) for p in seen.values()} == {
        "a": (1, L40S, 1),
        "b": (0, L40S, 0),
    }
    assert (seen["a"].instances[0].id, seen["a"].instances[0].status) == (vms(w)[0].id, "ACTIVE")


def test_a_resize_is_sent_once_and_then_already_there() -> None:
    w = world()
    cloud = WorldCloud(w)
    receipts = [cloud.resize("a", decided_on=0, target=2) for _ in range(2)]
    assert [(r.did, r.required) for r in receipts] == [(Did.DONE, 2), (Did.ALREADY, 2)]
    assert cloud.writes == [("resize", ("a", 2))]


def test_a_count_above_the_target_is_never_lowered() -> None:
    w = world(pool(count=3))
    cloud = WorldCloud(w)
    assert cloud.resize("a", decided_on=1, target=2).did is Did.ALREADY
    assert w.pools["a"].required == 3
    assert cloud.writes == []


def test_a_count_that_moved_since_the_decision_is_left_alone() -> None:
    w = world(pool(count=2))
    cloud = WorldCloud(w)
    receipt = cloud.resize("a", decided_on=1, target=3)
    assert (receipt.did, receipt.required) == (Did.DIFFERS, 2)
    assert cloud.writes == []


def test_a_stock_out_wont_work_and_a_running_rescale_is_for_later() -> None:
    w = world(stock={L40S: 0})
    cloud = WorldCloud(w)
    with pytest.raises(WontWork) as wont:
        cloud.resize("a", decided_on=0, target=1)
    assert wont.value.code == "gpu_count_exceeded"
    w.faults.refuse_rescale()
    with pytest.raises(TryLater) as later:
        cloud.resize("a", decided_on=0, target=1)
    assert later.value.code == "cannot_scale_already_rescaling_cluster"


def test_a_quota_refusal_names_what_is_exceeded() -> None:
    cloud = WorldCloud(world(quota={"ram_mb": 32_768}))
    with pytest.raises(WontWork, match="ram_mb: limit 32768") as wont:
        cloud.resize("a", decided_on=0, target=1)
    assert wont.value.code == "quota_limit_reached"


def test_an_unknown_pool_wont_work() -> None:
    with pytest.raises(WontWork) as wont:
        WorldCloud(world()).resize("zzz", decided_on=0, target=1)
    assert wont.value.code == "database_cluster_pool_not_found"


def test_an_instance_is_retired_once_and_then_gone_already() -> None:
    w = world(pool(count=2))
    cloud = WorldCloud(w)
    victim = vms(w)[0].id
    receipt = cloud.retire("a", victim)
    assert (receipt.did, receipt.required) == (Did.DONE, 1)
    run(w, 60)
    assert cloud.retire("a", victim).did is Did.ALREADY
    assert w.pools["a"].required == 1


def test_a_port_fails_when_told_to_and_does_nothing_then() -> None:
    w = world()
    cloud = FlakyCloud(w)
    cloud.fail_next(TryLater("no answer", code="timeout"), "resize")
    cloud.look()
    with pytest.raises(TryLater):
        cloud.resize("a", decided_on=0, target=1)
    assert cloud.writes == []
    assert cloud.resize("a", decided_on=0, target=1).did is Did.DONE


def test_an_answer_can_be_lost_after_the_write_took_effect() -> None:
    w = world()
    cloud = FlakyCloud(w)
    cloud.fail_after(TryLater("no answer", code="timeout"), "resize")
    with pytest.raises(TryLater):
        cloud.resize("a", decided_on=0, target=1)
    assert w.pools["a"].required == 1
    assert cloud.resize("a", decided_on=0, target=1).did is Did.ALREADY


def test_a_port_can_be_down_for_as_long_as_asked() -> None:
    cloud = FlakyCloud(world())
    cloud.fail_always(TryLater("down"))
    for _ in range(2):
        with pytest.raises(TryLater):
            cloud.look()
    cloud.fail_always(None)
    assert cloud.look()


# --- Kubernetes ---


def phases(w: World) -> dict[str, PodPhase]:
    """The phases that the port shows, by pod name."""
    return {p.name: p.phase for p in SimulatedCluster(w).look().pods}


def test_gpu_pods_are_shown_by_where_they_stand_and_terminated_ones_are_left_out() -> None:
    w = world(pool(count=1))
    w.submit(job("runs", runs=100))
    w.add_pod(PodSpec(namespace="default", name="gated", requests={GPU: 1}, gate="queue.example/gate"))
    w.add_pod(PodSpec(namespace="default", name="cpu"))
    assert phases(w) == {"runs-0": PodPhase.OTHER, "gated": PodPhase.OTHER}
    w.submit(job("waits"))
    assert phases(run(w, 1)) == {
        "runs-0": PodPhase.STARTING,
        "gated": PodPhase.OTHER,
        "waits-0": PodPhase.WAITING,
    }
    assert phases(run(w, 6))["runs-0"] is PodPhase.RUNNING
    assert set(phases(run(w, 106))) == {"waits-0", "gated"}


def test_a_pod_keeps_what_decides_where_it_may_go() -> None:
    w = world()
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    w.submit(job(pods=2, gang=True, namespace="ml", node_selector={"k": "v"}, tolerations=tolerations, team="blue"))
    first = SimulatedCluster(w).look().pods[0]
    assert (first.gang, first.owner, first.labels["team"]) == ("ml/j", "Job/j", "blue")
    assert (first.node_selector, first.tolerations, first.requests) == ({"k": "v"}, tolerations, {GPU: 1})


def test_a_pod_is_shown_anew_after_it_changed() -> None:
    w = world(pool(count=1))
    w.submit(job())
    cluster = SimulatedCluster(w)
    first = cluster.look().pods[0]
    assert cluster.look().pods[0] is first
    run(w, 1)
    assert cluster.look().pods[0].node is not None


def test_daemon_and_terminating_pods_are_marked() -> None:
    w = world(pool(count=1, resources={GPU: 2}))
    node = vms(w)[0].hostname
    w.add_pod(PodSpec(namespace="x", name="daemon", requests={GPU: 1}, owner_kind="DaemonSet", node=node))
    w.submit(job())
    run(w, 10)
    w.delete_pod("default", "j-0")
    shown = {p.name: (p.daemon, p.terminating) for p in SimulatedCluster(w).look().pods}
    assert shown == {"daemon": (True, False), "j-0": (False, True)}


def test_nodes_show_instance_gpus_and_who_is_hosted_there() -> None:
    w = world(pool(count=1))
    (vm,) = vms(w)
    labels = {"app.kubernetes.io/name": "prometheus"}
    w.add_pod(PodSpec(namespace="monitoring", name="prom", labels=labels, owner_kind="StatefulSet"))
    cluster: Cluster = SimulatedCluster(w)
    assert cluster.look().nodes[0].hosts == ()
    run(w, 1)
    (node,) = cluster.look().nodes
    assert (node.name, node.instance, node.ready) == (vm.hostname, vm.id, True)
    assert node.allocatable == {GPU: 1}
    assert node.hosts == ("monitoring/prom",)


def test_a_cordon_is_ours_is_made_once_and_is_undone() -> None:
    w = world(pool(count=1))
    name = vms(w)[0].hostname
    cluster = SimulatedCluster(w)
    assert [cluster.cordon(name, "act-1").did for _ in range(2)] == [Did.DONE, Did.ALREADY]
    assert w.nodes[name].annotations == {CORDON_ANNOTATION: "act-1"}
    assert [cluster.uncordon(name).did for _ in range(2)] == [Did.DONE, Did.ALREADY]
    assert (w.nodes[name].unschedulable, w.nodes[name].annotations) == (False, {})
    assert [verb for verb, _ in cluster.writes] == ["cordon", "uncordon"]


def test_somebody_elses_cordon_is_left_alone() -> None:
    w = world(pool(count=1))
    name = vms(w)[0].hostname
    w.patch_node(name, unschedulable=True)
    cluster = SimulatedCluster(w)
    assert cluster.cordon(name, "act-1").did is Did.DIFFERS
    assert cluster.uncordon(name).did is Did.DIFFERS
    assert cluster.writes == []


def test_a_node_with_a_gpu_pod_is_not_drained() -> None:
    w = world(pool(count=1))
    w.submit(job())
    w.add_pod(PodSpec(namespace="default", name="web", owner_kind="ReplicaSet"))
    run(w, 10)
    cluster = SimulatedCluster(w)
    name = vms(w)[0].hostname
    assert [p.name for p in cluster.gpu_pods_on(name)] == ["j-0"]
    cluster.cordon(name, "act-1")
    receipt = cluster.drain(name)
    assert (receipt.did, "default/j-0" in receipt.sentence) == (Did.DIFFERS, True)
    assert [verb for verb, _ in cluster.writes] == ["cordon"]


def test_a_drain_evicts_what_may_go_and_is_done_once_all_have_left() -> None:
    w = world(pool(count=1))
    name = vms(w)[0].hostname
    w.add_pod(PodSpec(namespace="default", name="web", owner_kind="ReplicaSet", owner_name="web"))
    w.add_pod(PodSpec(namespace="kube-system", name="proxy", owner_kind="DaemonSet", node=name))
    run(w, 10)
    cluster = SimulatedCluster(w)
    cluster.cordon(name, "act-1")
    with pytest.raises(TryLater) as leaving:
        cluster.drain(name)
    assert leaving.value.code == "draining"
    assert cluster.writes[1:] == [("evict", ("default", "web"))]
    run(w, 20)
    assert cluster.drain(name).did is Did.DONE


def test_a_drain_waits_for_a_disruption_budget() -> None:
    w = world(pool(count=1))
    w.pdbs.append(Pdb(namespace="default", selector={}, min_available=1))
    w.add_pod(PodSpec(namespace="default", name="web", owner_kind="ReplicaSet", owner_name="web"))
    run(w, 10)
    cluster, name = SimulatedCluster(w), vms(w)[0].hostname
    cluster.cordon(name, "act-1")
    with pytest.raises(TryLater) as blocked:
        cluster.drain(name)
    assert blocked.value.code == "pdb"
    assert the_pod(w, "web").deletion_at is None


def test_an_announcement_becomes_an_event_on_the_pod() -> None:
    w = world()
    w.submit(job())
    cluster = SimulatedCluster(w)
    cluster.record_event(cluster.look().pods[0], reason="NoPoolFits", message="no pool offers it")
    assert [(e.name, e.reason, e.message) for e in w.events] == [("j-0", "NoPoolFits", "no pool offers it")]


def test_a_late_decrement_shows_in_what_the_cloud_says_after_a_removal() -> None:
    w = world(pool(count=2), behaviour=Behaviour(decrement="never"))
    assert WorldCloud(w).retire("a", vms(w)[0].id).required == 2
