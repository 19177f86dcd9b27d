"""What befalls single nodes and pods of the simulated region, and counts that Civo shows too late."""

from datetime import timedelta
from typing import Any

import pytest
import requests

from simulator.server import Simulator
from tests.simulator.builders import GPU, GPU_POOL, Civo, a_pod_manifest


def ask(sim: Simulator, **fault: Any) -> Any:
    """Bring a fault about and return the faults that stand."""
    response = requests.post(f"{sim.url}/_faults", json=fault, timeout=60)
    assert response.status_code == 200, response.text
    return response.json()["world"]


def lift(sim: Simulator) -> Any:
    """Clear every fault and return those that stand."""
    return requests.delete(f"{sim.url}/_faults", timeout=60).json()["world"]


def gpu_node(core: Any) -> Any:
    """The node of the GPU pool."""
    (node,) = core.list_node(label_selector=f"kubernetes.civo.com/civo-node-pool={GPU_POOL}").items
    return node


def value(sim: Simulator, metric: str) -> float | None:
    """What the exporter of the only GPU node says, None when it says nothing."""
    targets = requests.get(f"{sim.url}/sd/dcgm", timeout=60).json()
    texts = [requests.get(sim.url + t["labels"]["__metrics_path__"], timeout=60).text for t in targets]
    lines = [line for text in texts for line in text.splitlines()]
    found = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{metric}{{")]
    return float(found[0]) if found else None


def test_a_crashed_driver_takes_the_gpus_and_their_metrics_away(sim: Simulator, core: Any) -> None:
    node = gpu_node(core)
    assert ask(sim, kind="lose_gpu", node=node.metadata.name)["lost_gpus"] == [node.metadata.name]
    assert gpu_node(core).status.allocatable[GPU] == "0"
    assert value(sim, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") is None
    assert lift(sim)["lost_gpus"] == []
    assert gpu_node(core).status.allocatable[GPU] == "1"
    assert value(sim, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == 0.0


def test_a_silent_kubelet_makes_its_node_not_ready(sim: Simulator, core: Any) -> None:
    def ready() -> str:
        return str(next(c.status for c in gpu_node(core).status.conditions if c.type == "Ready"))

    name = gpu_node(core).metadata.name
    assert ask(sim, kind="not_ready", node=name)["not_ready"] == [name]
    assert ready() == "False"
    assert lift(sim)["not_ready"] == []
    assert ready() == "True"


def test_a_condition_and_an_unhealthy_gpu_show_on_their_node(sim: Simulator, core: Any) -> None:
    name = gpu_node(core).metadata.name
    assert ask(sim, kind="condition", node=name, field="GpuMemWatch")["ailing"] == [name]
    ask(sim, kind="unhealthy", node=name)
    status = gpu_node(core).status
    assert [c.status for c in status.conditions if c.type == "GpuMemWatch"] == ["True"]
    assert (status.allocatable[GPU], status.capacity[GPU]) == ("0", "1")
    assert lift(sim)["ailing"] == []
    status = gpu_node(core).status
    assert [c for c in status.conditions if c.type == "GpuMemWatch"] == []
    assert (status.allocatable[GPU], status.capacity[GPU]) == ("1", "1")


def test_civos_node_agent_shows_the_phase_of_a_restart(sim: Simulator, core: Any) -> None:
    name = gpu_node(core).metadata.name

    def phases() -> str:
        return requests.get(f"{sim.url}/metrics/civo-node-agent", timeout=60).text

    assert f'civo_node_agent_recovery_phase{{node="{name}",phase="Healthy"}} 1' in phases()
    assert ask(sim, kind="agent_phase", node=name, field="WaitingReboot")["recovering"] == {name: "WaitingReboot"}
    assert f'civo_node_agent_recovery_phase{{node="{name}",phase="WaitingReboot"}} 1' in phases()


def test_a_gpu_can_be_used_by_something_outside_kubernetes(sim: Simulator, core: Any) -> None:
    name = gpu_node(core).metadata.name
    assert ask(sim, kind="use_gpu", node=name, engine=0.7, memory=0.5)["used_outside"] == [name]
    assert value(sim, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == 0.7
    assert value(sim, "DCGM_FI_DEV_FB_USED") == 23034
    assert lift(sim)["used_outside"] == []
    assert value(sim, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == 0.0


def test_the_next_node_comes_bare_and_is_dressed_by_a_patch(sim: Simulator, civo: Civo, core: Any) -> None:
    old = gpu_node(core).metadata.name
    ask(sim, kind="bare_labels", pool=GPU_POOL)
    civo.resize(2)
    sim.live.turn(timedelta(minutes=5))
    (bare,) = [n for n in core.list_node().items if n.metadata.name != old]
    assert ("gpu" in bare.metadata.labels, bare.spec.taints) == (False, None)
    taint = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
    core.patch_node(bare.metadata.name, {"metadata": {"labels": {"gpu": "on-demand"}}, "spec": {"taints": [taint]}})
    worn = core.read_node(bare.metadata.name)
    assert (worn.metadata.labels["gpu"], [t.key for t in worn.spec.taints]) == ("on-demand", ["gpu"])


def test_a_pod_can_land_on_a_cordoned_node(sim: Simulator, core: Any) -> None:
    name = gpu_node(core).metadata.name
    core.patch_node(name, {"spec": {"unschedulable": True}})
    core.create_namespaced_pod("default", a_pod_manifest("racer"))
    sim.live.turn(timedelta(seconds=5))
    assert core.read_namespaced_pod("racer", "default").spec.node_name is None
    ask(sim, kind="bind", pod="racer", node=name)
    assert core.read_namespaced_pod("racer", "default").spec.node_name == name


def test_a_pod_says_how_much_memory_it_holds_and_can_go_idle(sim: Simulator, core: Any) -> None:
    annotations = {"simulator/gpu-memory": "0.5", "simulator/gpu-utilization": "0.8"}
    core.create_namespaced_pod("default", a_pod_manifest("notebook", metadata={"annotations": annotations}))
    sim.live.turn(timedelta(minutes=2))
    assert value(sim, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == 0.8
    ask(sim, kind="work", pod="notebook", engine=0.0)
    assert value(sim, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == 0.0
    assert value(sim, "DCGM_FI_DEV_FB_USED") == 23034


def test_what_befalls_nothing_that_is_there_is_refused(sim: Simulator) -> None:
    response = requests.post(f"{sim.url}/_faults", json={"kind": "lose_gpu", "node": "gone"}, timeout=60)
    assert response.status_code == 404
    response = requests.post(f"{sim.url}/_faults", json={"kind": "bind", "pod": "p"}, timeout=60)
    assert response.json()["errors"] == ["node: Field required"]


@pytest.mark.parametrize("after, count", [(timedelta(minutes=9), 2), (timedelta(minutes=10), 1)])
def test_civo_may_show_a_removal_late(sim: Simulator, civo: Civo, after: timedelta, count: int) -> None:
    civo.resize(2)
    sim.live.turn(timedelta(minutes=15))
    ask(sim, kind="behaviour", switches={"list_lag": "10m"})
    instance = civo.pool()["instances"][0]["id"]
    civo.call("DELETE", f"{civo.cluster}/pools/{GPU_POOL}/instances/{instance}")
    sim.live.turn(after)
    shown = civo.pool()
    assert (civo.required(), shown["count"], len(shown["instances"])) == (count, count, 1)
    assert [p["count"] for p in civo.get(f"{civo.cluster}/pools")] == [count]


def test_a_preferred_affinity_is_kept(core: Any) -> None:
    manifest = a_pod_manifest("picky")
    expression = {"key": "gpu", "operator": "In", "values": ["on-demand"]}
    term = {"weight": 7, "preference": {"matchExpressions": [expression]}}
    manifest["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    core.create_namespaced_pod("default", manifest)
    affinity = core.read_namespaced_pod("picky", "default").spec.affinity.node_affinity
    (found,) = affinity.preferred_during_scheduling_ignored_during_execution
    (read,) = found.preference.match_expressions
    assert (found.weight, read.key, read.operator, read.values) == (7, "gpu", "In", ["on-demand"])
    assert affinity.required_during_scheduling_ignored_during_execution is None


def test_a_pod_that_waits_carries_the_schedulers_sentence(sim: Simulator, core: Any) -> None:
    core.create_namespaced_pod("default", a_pod_manifest("wide", 4))
    sim.live.turn(timedelta(seconds=5))
    (condition,) = core.read_namespaced_pod("wide", "default").status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert condition.message == f"0/1 nodes are available: 1 Insufficient {GPU}."
