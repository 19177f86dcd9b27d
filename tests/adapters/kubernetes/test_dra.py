"""GPUs that a DRA driver serves, as the adapter reads them from the simulator's Kubernetes API."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.adapters.kubernetes.dra import Dra, DraServed
from receiver.adapters.kubernetes.pods import DrainFate, SeenPod
from receiver.core.model.devices import CLAIMS
from receiver.ports import TryLater
from receiver.replay.world.objects import PodSpec
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.simulator.builders import GPU_POOL, START, config

GPU = "nvidia.com/gpu"
Look = Callable[..., tuple[Simulator, KubernetesCluster]]


@pytest.fixture
def look(tmp_path: Path) -> Iterator[Look]:
    """Start a cluster whose GPU pool has its GPUs served by a DRA driver, with changes of the Kubernetes face."""
    opened: list[Any] = []

    def begin(*, served: bool = True, **kubernetes: Any) -> tuple[Simulator, KubernetesCluster]:
        gpu_pool, cpu_pool = config()["pools"]
        given = config(pools=[{**gpu_pool, "dra": served}, cpu_pool], kubernetes={"daemonsets": False, **kubernetes})
        sim = Simulator(given, clock=ManualClock(START)).start()
        cluster = connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), calls=Calls(timeouts=(1, 2)))
        opened.extend((cluster.close, sim.stop))
        return sim, cluster

    yield begin
    for close in opened:
        close()


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_node_with_slices_is_known_although_its_status_shows_no_gpu(look: Look, version: str) -> None:
    _, cluster = look(dra=version)
    facts = cluster.look()
    [node] = facts.nodes
    assert (node.dra, dict(node.allocatable)) == (True, {})
    assert list(facts.dra_resources or ()) == [GPU]
    assert node.devices is not None
    assert [d.id for d in node.devices.devices] == [("gpu.nvidia.com", node.name, "gpu-0")]


def test_devices_that_a_taint_keeps_pods_from_are_counted_by_node(look: Look) -> None:
    sim, cluster = look()
    with sim.live.moved() as world:
        [name] = [name for name, node in world.nodes.items() if node.dra]
        world.faults.unhealthy(name, 1)
    [node] = cluster.look().nodes
    assert (node.gpu_devices, node.sick_devices) == (1, ("gpu-0 (gpu.nvidia.com/xid)",))


def test_without_a_dra_driver_nothing_is_different(look: Look) -> None:
    _, cluster = look(served=False)
    facts = cluster.look()
    [node] = facts.nodes
    assert (node.dra, dict(node.allocatable), facts.dra_resources) == (False, {GPU: 1}, None)


@pytest.mark.parametrize(
    ("denied", "dra", "resources"),
    [("resourceslices", False, None), ("deviceclasses", True, None)],
)
def test_without_a_right_it_is_as_without_the_api(look: Look, denied: str, dra: bool, resources: None) -> None:
    _, cluster = look(denied=[f"list {denied}"])
    facts = cluster.look()
    assert ([n.dra for n in facts.nodes], facts.dra_resources) == ([dra], resources)


def test_while_slices_cannot_be_read_what_was_read_last_counts(look: Look) -> None:
    sim, cluster = look()
    fault = {"kind": "error", "face": "kubernetes", "path": "resourceslices", "times": None}
    sim.fault(**fault)
    with pytest.raises(TryLater):  # nobody knows whether the node has GPUs by DRA
        cluster.look()
    sim.faults.clear()
    assert [n.dra for n in cluster.look().nodes] == [True]
    sim.fault(**fault)
    assert [n.dra for n in cluster.look().nodes] == [True]


def test_what_never_can_be_read_holds_up_the_look_for_a_few_minutes_only() -> None:
    """A gateway that answers 500 to what it does not know must not keep nodes from being removed for ever."""
    wire = _Unreadable()
    clock = ManualClock(START)
    dra = Dra(wire, clock)  # type: ignore[arg-type]  # the part of it that is asked
    for _ in range(2):
        with pytest.raises(TryLater):
            dra.served()
        clock.advance(timedelta(minutes=4))
    assert dra.served() == DraServed()
    assert len(wire.said) == 1


class _Unreadable:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.remarks = self

    def if_allowed(self, *_: Any, **__: Any) -> None:
        raise TryLater("500", code="http_500")

    def warn(self, event: str, detail: str) -> None:
        self.said.append(f"{event}: {detail}")


def test_a_pod_that_has_a_claim_holds_its_node(look: Look) -> None:
    sim, cluster = look()
    with sim.moved() as world:
        [name] = [n.name for n in world.nodes.values() if n.pool == GPU_POOL]
        world.add_pod(PodSpec(namespace="ml", name="claims", requests={CLAIMS: 1}, node=name))
    assert [p.name for p in cluster.gpu_pods_on(name)] == ["claims"]


def a_pod(resource: str, *, node: str = "", **status: Any) -> dict[str, Any]:
    """A pod that asks for one of *resource*."""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "metadata": {"name": "p", "namespace": "ml", "uid": "u", "creationTimestamp": "2026-11-20T12:00:00Z"},
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": {resource: "1"}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Pending", **({} if node else {"conditions": [refused]}), **status},
    }


@pytest.mark.parametrize("resource", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"])
def test_a_pod_that_was_given_devices_for_a_resource_of_another_name_holds_its_node(resource: str) -> None:
    """Its node looked empty, and could be removed under it."""
    given = {"resourceClaimName": "p-extended-resources-x", "requestMappings": []}
    runs = a_pod(resource, node="n1", extendedResourceClaimStatus=given)
    held = SeenPod(runs).pod
    assert held is not None
    assert dict(held.requests) == {CLAIMS: 1}
    assert SeenPod(runs).fate() is DrainFate.HOLDS_GPU
    assert SeenPod(a_pod(resource)).pod is None
