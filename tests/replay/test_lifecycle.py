"""From a PUT to a node that takes GPU pods, and back to nothing."""

import pytest

from receiver.core.model.policy import Taint
from receiver.replay.world.objects import GPU, POOL_LABEL, Behaviour, Denied, Timings
from tests.replay.builders import L40S, after, pool, run, seconds, vms, world

STAGES = [  # seconds, instance status, node Ready (None: no node object), GPUs allocatable
    (0, "BUILDING", None, {}),
    (119, "BUILDING", None, {}),
    (120, "ACTIVE", None, {}),
    (130, "ACTIVE", False, {}),
    (140, "ACTIVE", True, {}),
    (319, "ACTIVE", True, {}),
    (320, "ACTIVE", True, {GPU: 1}),
]


@pytest.mark.parametrize("at, status, ready, gpus", STAGES)
def test_an_ordered_node_builds_boots_and_shows_its_gpu_only_after_the_driver(
    at: float, status: str, ready: bool | None, gpus: dict[str, int]
) -> None:
    w = world()
    w.resize("a", 1)
    run(w, at)
    assert [vm.status for vm in vms(w)] == [status]
    node = w.nodes.get(vms(w)[0].hostname)
    assert (node.ready if node else None) is ready
    assert (node.gpus if node else {}) == gpus


def test_a_put_sets_the_required_count_at_once_and_instances_follow() -> None:
    w = world(timings=Timings(create=seconds(5)))
    w.resize("a", 2)
    assert w.pools["a"].required == 2
    assert vms(w) == []
    assert len(vms(run(w, 5))) == 2


def test_a_node_carries_hostname_provider_id_labels_and_taints_of_its_pool() -> None:
    taint = Taint(key="gpu", value="true")
    w = world(pool(count=1, labels={"gpu": "on-demand"}, taints=(taint,)), cluster_name="lab")
    (vm,) = vms(w)
    node = w.nodes[vm.hostname]
    assert vm.hostname.startswith("k3s-lab-")
    assert "-node-pool-" in vm.hostname
    assert node.provider_id == f"civo://{vm.id}"
    assert node.labels[POOL_LABEL] == "a"
    assert node.labels["node.kubernetes.io/instance-type"] == L40S
    assert node.labels["gpu"] == "on-demand"
    assert node.labels["nvidia.com/gpu.present"] == "true"
    assert node.taints == (taint,)


def test_pool_labels_can_show_late_on_the_node() -> None:
    w = world(timings=Timings(label_lag=seconds(60)))
    w.resize("a", 1)
    (node,) = run(w, 189).nodes.values()
    assert POOL_LABEL not in node.labels
    (node,) = run(w, 190).nodes.values()
    assert node.labels[POOL_LABEL] == "a"


def test_a_deleted_instance_is_listed_as_deleting_then_gone_and_its_node_lingers_not_ready() -> None:
    w = world(pool(count=1))
    (vm,) = vms(w)
    w.delete_instance("a", vm.id)
    assert vm.status == "DELETING"
    assert [n.ready for n in w.nodes.values()] == [False]
    run(w, 19)
    assert vms(w) == [vm]
    run(w, 20)
    assert vms(w) == []
    assert vm.gone_at == after(20)
    assert len(run(w, 29).nodes) == 1
    assert len(run(w, 30).nodes) == 0


def test_a_pool_scaled_to_zero_keeps_its_requirement_and_can_grow_again() -> None:
    w = world(pool(count=2))
    w.resize("a", 0)
    run(w, 60)
    assert w.pools["a"].required == 0
    assert vms(w) == []
    w.resize("a", 1)
    assert len(vms(w)) == 1


def test_a_stuck_build_never_leaves_building() -> None:
    w = world()
    w.faults.stuck_building("a", 1)
    w.resize("a", 2)
    run(w, 86_400)
    assert [vm.status for vm in vms(w)] == ["BUILDING", "ACTIVE"]


def test_a_build_can_end_in_a_status_that_nobody_documents() -> None:
    w = world()
    w.faults.odd_status("a", 1, "SHUTOFF")
    w.resize("a", 1)
    run(w, 3600)
    assert [vm.status for vm in vms(w)] == ["SHUTOFF"]
    assert not w.nodes


def test_a_node_can_be_ready_and_never_offer_its_gpu() -> None:
    w = world()
    w.faults.gpu_never("a", 1)
    w.resize("a", 1)
    (node,) = run(w, 86_400).nodes.values()
    assert node.ready
    assert node.gpus == {}


def test_a_new_node_carries_its_startup_taints_until_it_is_set_up() -> None:
    starting = Taint(key="readiness.k8s.io/gpu", value="pending")
    w = world(pool(startup_taints=(starting,), count=1), timings=Timings(set_up=seconds(60)))
    (first,) = w.nodes.values()
    assert first.taints == ()  # it has been there for long
    w.resize("a", 2)
    run(w, 379)
    (vm,) = [v for v in vms(w) if v.hostname != first.name]
    assert (w.nodes[vm.hostname].gpus, w.nodes[vm.hostname].taints, vm.usable_at) == ({GPU: 1}, (starting,), None)
    run(w, 380)
    assert (w.nodes[vm.hostname].taints, vm.usable_at) == ((), after(380))


def test_recycling_replaces_instance_and_hostname_and_keeps_the_count() -> None:
    w = world(pool(count=1))
    (old,) = vms(w)
    w.recycle(old.hostname)
    run(w, 20)
    (new,) = vms(w)
    assert (new.id, new.hostname) != (old.id, old.hostname)
    assert w.pools["a"].required == 1


def test_recycling_an_unknown_hostname_is_refused() -> None:
    with pytest.raises(Denied) as refused:
        world().recycle("k3s-nobody")
    assert (refused.value.code, refused.value.status) == ("database_kubernetes_node_not_found", 404)


def test_deleting_the_node_object_leaves_the_vm_and_the_count() -> None:
    w = world(pool(count=1))
    (vm,) = vms(w)
    w.delete_node(vm.hostname)
    run(w, 7200)
    assert vms(w) == [vm]
    assert w.pools["a"].required == 1
    assert not w.nodes
    assert w.charges(after(0), after(7200))[0].to is None


@pytest.mark.parametrize("shows, status", [(False, "ACTIVE"), (True, "SCALING")])
def test_the_cluster_status_during_a_scale_is_a_switch(shows: bool, status: str) -> None:
    w = world(behaviour=Behaviour(scaling_status=shows))
    w.resize("a", 1)
    assert w.cluster_status == status
    assert run(w, 120).cluster_status == "ACTIVE"


@pytest.mark.parametrize("shown, count", [("desired", 2), ("actual", 0)])
def test_the_listed_count_is_the_desired_or_the_actual_one(shown: str, count: int) -> None:
    w = world(timings=Timings(create=seconds(5)), behaviour=Behaviour(list_count=shown))  # type: ignore[arg-type]  # a Literal by parameter
    w.resize("a", 2)
    assert w.listed_count("a") == count
    assert run(w, 5).listed_count("a") == 2


def test_jitter_moves_timings_within_its_ratio_and_renames_nothing() -> None:
    calm, jittery = world(), world(timings=Timings(jitter=0.5))
    for w in (calm, jittery):
        w.resize("a", 8)
        run(w, 3600)
    assert [vm.id for vm in vms(calm)] == [vm.id for vm in vms(jittery)]
    built = [(vm.active_at - vm.created_at).total_seconds() for vm in vms(jittery) if vm.active_at]
    assert len(set(built)) == 8
    assert all(60 <= b <= 180 for b in built)


def test_labels_put_on_a_pool_reach_living_and_later_nodes() -> None:
    w = world(pool(count=1))
    w.relabel("a", labels={"tier": "x"}, taints=())
    w.resize("a", 2)
    run(w, 200)
    assert [n.labels["tier"] for n in w.nodes.values()] == ["x", "x"]


def test_replacing_the_pool_list_deletes_pools_that_are_not_in_it() -> None:
    w = world(pool("a", count=1), pool("b", count=1))
    w.replace_pools({"a": 1})
    assert set(w.pools) == {"a"}
    run(w, 40)
    assert [n.pool for n in w.nodes.values()] == ["a"]


def test_a_pool_list_with_an_unknown_pool_changes_nothing() -> None:
    w = world(pool("a", count=1), pool("b", count=1))
    with pytest.raises(Denied, match="database_cluster_pool_not_found"):
        w.replace_pools({"a": 3, "zzz": 1})
    assert {p.id: p.required for p in w.pools.values()} == {"a": 1, "b": 1}


def test_a_created_pool_orders_its_nodes() -> None:
    w = world()
    w.create_pool(pool("b", count=2))
    assert w.pools["b"].required == 2
    assert [vm.status for vm in vms(w, "b")] == ["BUILDING", "BUILDING"]


def test_time_does_not_go_back() -> None:
    w = run(world(), 10)
    with pytest.raises(ValueError, match="does not go back"):
        run(w, 9)


def test_the_next_event_is_the_next_moment_at_which_something_changes() -> None:
    w = world()
    assert w.next_event_at() is None
    w.resize("a", 1)
    assert w.next_event_at() == after(120)


def test_no_two_nodes_ever_have_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter(["aaaaa", "aaaaa", "bbbbb", "aaaaa", "ccccc"])
    w = world()
    monkeypatch.setattr("receiver.replay.world.cluster.Dice.word", lambda _self, _length: next(words))
    w.resize("a", 1)
    w.delete_instance("a", vms(w)[0].id)
    w.resize("a", 2)
    assert [vm.hostname[-5:] for vm in w.lives] == ["aaaaa", "bbbbb", "ccccc"]
