"""The Kubernetes face read by the official client."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
import requests
from kubernetes.client.exceptions import ApiException

from simulator.server import Simulator
from tests.simulator.builders import GPU_POOL, a_pod_manifest, k8s

Starter = Callable[..., Simulator]
ApiFor = Callable[[Simulator], Any]
TOLERANT = [{"operator": "Exists"}]


def submit(sim: Simulator, *jobs: Mapping[str, Any]) -> None:
    sim.live.submit([{"duration": "10m", "tolerations": TOLERANT, **job} for job in jobs])
    sim.live.turn(timedelta(seconds=20))


def test_the_official_client_reads_a_node(core: Any) -> None:
    (node,) = core.list_node().items
    assert node.spec.provider_id.startswith("civo://")
    assert node.metadata.labels["kubernetes.civo.com/civo-node-pool"] == GPU_POOL
    assert node.metadata.labels["node.kubernetes.io/instance-type"] == "an.g1.l40s.kube.x1"
    assert node.status.allocatable["nvidia.com/gpu"] == "1"
    assert [(t.key, t.value, t.effect) for t in node.spec.taints] == [("gpu", "true", "NoSchedule")]
    assert {c.type: c.status for c in node.status.conditions}["Ready"] == "True"
    assert core.read_node(node.metadata.name).metadata.uid == node.metadata.uid


def test_a_node_becomes_ready_before_its_gpu_is_allocatable(sim: Simulator, core: Any) -> None:
    with sim.moved() as world:
        world.resize(GPU_POOL, 2)
    seen = []
    for seconds in (66, 5, 30):
        sim.live.turn(timedelta(seconds=seconds))
        new = max(core.list_node().items, key=lambda n: n.metadata.creation_timestamp)
        ready = {c.type: c.status for c in new.status.conditions}["Ready"]
        seen.append((ready, new.status.allocatable.get("nvidia.com/gpu")))
    assert seen == [("False", None), ("True", None), ("True", "1")]


def test_the_official_client_reads_pods_in_every_state(sim: Simulator, core: Any) -> None:
    submit(sim, {"id": "runs"}, {"id": "waits", "gpus_per_pod": 4})
    pods = {p.metadata.name: p for p in core.list_namespaced_pod("default").items}
    running, waiting = pods["runs-0"], pods["waits-0"]
    assert (running.status.phase, running.spec.node_name) == ("Running", core.list_node().items[0].metadata.name)
    assert running.metadata.owner_references[0].kind == "Job"
    assert waiting.status.phase == "Pending"
    assert waiting.spec.node_name is None
    (condition,) = waiting.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert waiting.spec.containers[0].resources.requests["nvidia.com/gpu"] == "4"
    assert waiting.spec.tolerations[0].operator == "Exists"


def test_a_pod_that_the_scheduler_has_not_tried_has_no_condition(sim: Simulator, core: Any) -> None:
    sim.live.submit([{"id": "new", "duration": "10m"}])
    (pod,) = core.list_namespaced_pod("default").items
    assert (pod.status.phase, pod.status.conditions) == ("Pending", None)


def test_pods_can_be_read_without_deserializing(sim: Simulator, core: Any) -> None:
    submit(sim, {"id": "a"})
    raw = core.list_pod_for_all_namespaces(_preload_content=False)
    document = json.loads(raw.data)
    assert document["kind"] == "PodList"
    assert "a-0" in {item["metadata"]["name"] for item in document["items"]}
    whole = core.list_pod_for_all_namespaces()
    assert {p.metadata.name for p in whole.items} == {item["metadata"]["name"] for item in document["items"]}


def test_affinity_and_gates_are_shown(sim: Simulator, core: Any) -> None:
    submit(sim, {"id": "a", "affinity": [[{"key": "gpu", "operator": "In", "values": ["spot"]}]]})
    core.create_namespaced_pod("default", a_pod_manifest("gated", schedulingGates=[{"name": "queue"}]))
    found = {p.metadata.name: p for p in core.list_namespaced_pod("default").items}
    required = found["a-0"].spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    (expression,) = required.node_selector_terms[0].match_expressions
    assert (expression.key, expression.operator, expression.values) == ("gpu", "In", ["spot"])
    assert found["gated"].status.conditions[0].reason == "SchedulingGated"


@pytest.mark.parametrize(
    "selectors, names",
    [
        ({"field_selector": "status.phase=Running"}, {"runs-0"}),
        ({"field_selector": "status.phase!=Running"}, {"waits-0"}),
        ({"field_selector": "spec.nodeName="}, {"waits-0"}),
        ({"field_selector": "metadata.name=runs-0,status.phase=Running"}, {"runs-0"}),
        ({"label_selector": "team=red"}, {"runs-0"}),
        ({"label_selector": "team in (red, blue)"}, {"runs-0", "waits-0"}),
        ({"label_selector": "team notin (red)"}, {"waits-0"}),
        ({"label_selector": "!team"}, set()),
        ({"label_selector": "batch.kubernetes.io/job-name,team!=blue"}, {"runs-0"}),
    ],
)
def test_selectors_select(sim: Simulator, core: Any, selectors: dict[str, str], names: set[str]) -> None:
    submit(sim, {"id": "runs", "team": "red"}, {"id": "waits", "gpus_per_pod": 4, "team": "blue"})
    assert {p.metadata.name for p in core.list_namespaced_pod("default", **selectors).items} == names


def test_an_unknown_field_selector_is_refused(core: Any) -> None:
    with pytest.raises(ApiException) as refused:
        core.list_pod_for_all_namespaces(field_selector="spec.colour=blue")
    assert refused.value.status == 400


def test_long_lists_come_in_pages(sim: Simulator, core: Any) -> None:
    submit(sim, *({"id": f"job-{n}"} for n in range(5)))
    names, token = [], None
    while True:
        page = core.list_namespaced_pod("default", limit=2, _continue=token)
        names += [p.metadata.name for p in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"job-{n}-0" for n in range(5)]


def test_every_gpu_node_runs_the_operators_daemons(core: Any) -> None:
    pods = core.list_namespaced_pod("gpu-operator").items
    assert {p.metadata.owner_references[0].kind for p in pods} == {"DaemonSet"}
    assert {p.spec.node_name for p in pods} == {core.list_node().items[0].metadata.name}


def test_version_and_discovery_answer_the_official_client(sim: Simulator, api_for: ApiFor) -> None:
    api = api_for(sim)
    assert k8s.VersionApi(api).get_code().git_version == "v1.32.5+k3s1"
    assert "policy" in {g.name for g in k8s.ApisApi(api).get_api_versions().groups}
    assert "pods" in {r.name for r in k8s.CoreV1Api(api).get_api_resources().resources}


def test_disruption_budgets_say_how_many_may_go(start: Starter, api_for: ApiFor) -> None:
    sim = start(pdbs=[{"namespace": "default", "selector": {"app": "llm"}, "min_available": 1, "name": "llm"}])
    submit(sim, {"id": "a", "labels": {"app": "llm"}})
    (budget,) = k8s.PolicyV1Api(api_for(sim)).list_pod_disruption_budget_for_all_namespaces().items
    assert (budget.metadata.name, budget.status.current_healthy, budget.status.disruptions_allowed) == ("llm", 1, 0)


def test_a_wrong_token_gets_a_status_401(start: Starter, api_for: ApiFor) -> None:
    sim = start(kubernetes={"token": "right"})
    assert k8s.CoreV1Api(api_for(sim)).list_node().items
    wrong = requests.get(f"{sim.url}/api/v1/nodes", headers={"Authorization": "Bearer wrong"}, timeout=60)
    assert (wrong.status_code, wrong.json()["kind"], wrong.json()["reason"]) == (401, "Status", "Unauthorized")


def test_what_does_not_exist_is_a_status_404(core: Any) -> None:
    for read, *names in ((core.read_node, "no"), (core.read_namespaced_pod, "no", "default")):
        with pytest.raises(ApiException) as refused:
            read(*names)
        assert (refused.value.status, json.loads(refused.value.body or "")["reason"]) == (404, "NotFound")
