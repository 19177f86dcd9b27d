"""Pods of the simulated world that the scheduler refuses for reasons of its own, that bind and leave slowly."""

from simulator.kubernetes_objects import pod_json
from simulator.scheduling import OBSTACLE_ANNOTATION, PORT_ANNOTATION
from simulator.slow_pods import BINDS_IN, FAILS, KEEPS_NOMINATION
from simulator.world import World
from tests.replay.builders import after, job, pool, seconds, world


def the_pod(sim: World, name: str = "j-0") -> dict[str, object]:
    return pod_json(sim.pods["default", name])


def test_a_pod_with_an_obstacle_waits_with_the_scheduler_s_words_until_it_is_gone() -> None:
    sim = world(pool(count=1))
    sim.submit(job(annotations={OBSTACLE_ANNOTATION: "claim"}))
    sim.advance(after(60))
    waiting = sim.pods["default", "j-0"]
    assert waiting.node is None
    assert waiting.message == '0/1 nodes are available: persistentvolumeclaim "data" not found.'
    sim.remove_obstacle(waiting.key)
    sim.advance(after(61))
    assert sim.pods["default", "j-0"].node is not None


def test_a_node_with_room_counts_under_the_obstacle() -> None:
    sim = world(pool(count=1))
    sim.submit(job(annotations={OBSTACLE_ANNOTATION: "volumes"}))
    sim.advance(after(60))
    assert sim.pods["default", "j-0"].message == "0/1 nodes are available: 1 node(s) exceed max volume count."


def test_of_pods_with_the_same_port_each_node_takes_one() -> None:
    sim = world(pool(count=1, resources={"nvidia.com/gpu": 8}))
    sim.submit(job(pods=2, annotations={PORT_ANNOTATION: "80"}))
    sim.submit(job("other"))
    sim.advance(after(60))
    bound = {name for (_, name), pod in sim.pods.items() if pod.node is not None}
    assert bound == {"j-0", "other-0"}
    assert "free ports" in sim.pods["default", "j-1"].message


def test_a_reserved_node_is_taken_before_its_pod_is_bound() -> None:
    sim = world(pool(count=1))
    sim.submit(job(annotations={BINDS_IN: "60"}))
    sim.advance(after(30))
    [node] = sim.nodes
    assert the_pod(sim)["status"] == {"phase": "Pending", "qosClass": "Burstable", "nominatedNodeName": node}
    sim.submit(job("other"))
    sim.advance(after(59))
    assert sim.pods["default", "other-0"].message == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    sim.advance(after(61))
    assert (sim.pods["default", "j-0"].node, sim.pods["default", "j-0"].nominated) == (node, "")


def test_a_binding_that_fails_gives_the_node_back() -> None:
    sim = world(pool(count=1))
    sim.submit(job(annotations={BINDS_IN: "60", FAILS: "1"}))
    sim.advance(after(5))
    sim.submit(job("urgent", priority=10))
    sim.advance(after(70))
    assert sim.pods["default", "urgent-0"].node is not None
    assert sim.pods["default", "j-0"].nominated == ""


def test_a_nomination_may_outlive_its_node() -> None:
    sim = world(pool(count=1))
    sim.submit(job(annotations={BINDS_IN: "60", KEEPS_NOMINATION: "true"}))
    sim.advance(after(5))
    [node] = sim.nodes
    sim.recycle(node)
    sim.advance(after(120))
    waiting = sim.pods["default", "j-0"]
    assert (waiting.node, waiting.nominated, waiting.reason) == (None, node, "Unschedulable")


def test_a_pod_that_is_deleted_gives_its_reservation_back() -> None:
    sim = world(pool(count=1))
    sim.submit(job(annotations={BINDS_IN: "60"}, owner_kind="", pods=1))
    sim.advance(after(5))
    sim.delete_pod("default", "j-0")
    sim.submit(job("other"))
    sim.advance(after(10))
    assert sim.pods["default", "other-0"].node is not None


def test_a_deletion_takes_the_grace_that_it_was_given() -> None:
    sim = world(pool(count=1))
    sim.submit(job(owner_kind="ReplicaSet"))
    sim.advance(after(10))
    sim.delete_pod("default", "j-0", seconds(30))
    sim.advance(after(39))
    assert ("default", "j-0") in sim.pods
    assert sim.pods["default", "j-0-r1"].node is None
    sim.advance(after(41))
    assert sim.pods["default", "j-0-r1"].node is not None


def test_pods_under_a_dead_kubelet_are_asked_to_end_and_stay() -> None:
    sim = world(pool(count=1))
    sim.submit(job())
    sim.advance(after(10))
    [node] = sim.nodes
    sim.kubelet_dies(node)
    sim.advance(after(3600))
    assert not sim.nodes[node].ready
    assert sim.pods["default", "j-0"].deletion_at == after(312)
    sim.recycle(node)
    sim.advance(after(3700))
    assert ("default", "j-0") not in sim.pods
