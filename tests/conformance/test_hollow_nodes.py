"""Nodes of the simulated Civo become Node objects of another cluster, with a kubelet that is played."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from conformance.civo import QUICK, simulated
from conformance.hollow_nodes import HollowNodes
from conformance.plan import GPU, MARK, POOL, RUNS_FOR
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.conformance.fakes import PODS, FakeApi

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@pytest.fixture
def civo() -> Simulator:
    """A simulated Civo that is not served, in a time that a test moves."""
    made = simulated(timings={**QUICK, "build": "60s", "boot": "10s", "driver": "60s", "delete": "5s"})
    return Simulator(made.config, ManualClock(START))


@pytest.fixture
def passing(civo: Simulator, monkeypatch: pytest.MonkeyPatch) -> Callable[[float, HollowNodes], None]:
    """Let seconds pass for Civo and for the played kubelet."""
    monkeypatch.setattr("conformance.hollow_nodes.SystemClock", lambda: civo.clock)

    def pass_time(seconds: float, hollow: HollowNodes) -> None:
        civo.live.turn(timedelta(seconds=seconds))
        hollow.turn()

    return pass_time


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def hollow(civo: Simulator, api: FakeApi) -> Iterator[HollowNodes]:
    """The nodes, turned by the test."""
    found = HollowNodes(civo, api, "stub")
    yield found
    found.stop()


def bought(civo: Simulator) -> str:
    """Buy a node and return the name that it will have."""
    with civo.moved() as world:
        world.resize(POOL, 1)
        return str(world.pools[POOL].instances[0].hostname)


def test_a_node_registers_becomes_ready_and_shows_its_gpu_last(
    civo: Simulator, api: FakeApi, hollow: HollowNodes, passing: Callable[[float, HollowNodes], None]
) -> None:
    name = bought(civo)
    passing(30, hollow)
    assert api.objects == {}
    passing(36, hollow)
    node = api.objects[f"{NODES}/{name}"]
    assert node["metadata"]["labels"][MARK] == "true"
    assert {t["key"] for t in node["spec"]["taints"]} == {MARK}
    ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
    assert (ready, GPU in node["status"]["allocatable"]) == (["False"], False)
    passing(10, hollow)
    node["spec"]["unschedulable"] = True  # what others write stays
    passing(60, hollow)
    assert node["status"]["allocatable"][GPU] == "1"
    assert node["spec"]["unschedulable"] is True
    assert api.objects[f"{LEASES}/{name}"]["spec"]["holderIdentity"] == name


def test_pods_of_its_nodes_run_end_and_go_and_others_are_left_alone(
    civo: Simulator, api: FakeApi, hollow: HollowNodes, passing: Callable[[float, HollowNodes], None]
) -> None:
    name = bought(civo)
    api.add_pod("ours", name, **{RUNS_FOR: "30"})
    api.add_pod("theirs", "another-node")
    passing(75, hollow)
    assert (api.phase("ours"), api.phase("theirs")) == ("Running", "Pending")
    passing(31, hollow)
    assert api.phase("ours") == "Succeeded"
    api.objects[f"{PODS}/ours"]["metadata"]["deletionTimestamp"] = "2026-11-02T09:02:00Z"
    passing(1, hollow)
    assert f"{PODS}/ours" not in api.objects
    assert api.phase("theirs") == "Pending"


def test_a_machine_that_goes_takes_its_node_its_lease_and_its_pods(
    civo: Simulator, api: FakeApi, hollow: HollowNodes, passing: Callable[[float, HollowNodes], None]
) -> None:
    name = bought(civo)
    passing(75, hollow)
    api.add_pod("on-it", name)
    with civo.moved() as world:
        world.delete_instance(POOL, world.pools[POOL].instances[0].id)
    passing(1, hollow)
    assert api.phase("on-it") == "Pending"  # the machine is off
    passing(10, hollow)
    assert api.objects == {}


def test_a_node_object_that_somebody_deleted_does_not_come_back(
    civo: Simulator, api: FakeApi, hollow: HollowNodes, passing: Callable[[float, HollowNodes], None]
) -> None:
    name = bought(civo)
    passing(75, hollow)
    del api.objects[f"{NODES}/{name}"]
    passing(60, hollow)
    assert f"{NODES}/{name}" not in api.objects


def test_the_end_removes_every_node(
    civo: Simulator, api: FakeApi, hollow: HollowNodes, passing: Callable[[float, HollowNodes], None]
) -> None:
    bought(civo)
    passing(75, hollow)
    hollow.stop()
    assert api.objects == {}
