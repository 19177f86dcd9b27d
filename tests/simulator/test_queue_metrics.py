"""What the simulator's Kueue and Volcano say about their queues."""

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from demo.stack import binary
from simulator.server import Simulator
from tests.adapters.kubernetes.custom_objects import a_group, a_pod_set, a_queue, a_workload, of_gpus

ADMITTED = {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-11-20T10:00:30Z"}
RESERVED = {"type": "QuotaReserved", "status": "True"}


def seed(sim: Simulator, api: str, kind: str, *objects: dict[str, Any]) -> None:
    body = [{"apiVersion": api, "kind": kind, **one} for one in objects]
    assert requests.post(f"{sim.url}/_custom", json=body, timeout=60).status_code == 201


def kueue(sim: Simulator, *workloads: dict[str, Any]) -> None:
    seed(sim, "kueue.x-k8s.io/v1beta2", "Workload", *workloads)


def told(sim: Simulator, exporter: str) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = requests.get(f"{sim.url}/metrics/{exporter}", timeout=60)
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def key(name: str, /, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def of_kueue(name: str, /, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return key(f"kueue_{name}", **labels, replica_role="leader")


def test_workloads_without_quota_are_pending_with_the_gpus_that_they_ask_for(sim: Simulator) -> None:
    stopped = {"type": "QuotaReserved", "status": "False", "reason": "Inadmissible"}
    kueue(
        sim,
        a_workload("one"),
        a_workload("two", a_pod_set(3)),
        a_workload("stopped", conditions=[stopped]),
        a_workload("off", active=False),
        a_workload("runs", conditions=[RESERVED, ADMITTED]),
        a_workload("done", conditions=[RESERVED, ADMITTED, {"type": "Finished", "status": "True"}]),
    )
    found = told(sim, "kueue")
    assert found[of_kueue("pending_workloads", cluster_queue="gpus", status="active")] == 2
    assert found[of_kueue("pending_workloads", cluster_queue="gpus", status="inadmissible")] == 1
    assert found[of_kueue("local_queue_pending_workloads", name="gpus", namespace="ml", status="active")] == 2
    assert found[of_kueue("admitted_active_workloads", cluster_queue="gpus")] == 1
    assert found[of_kueue("cluster_queue_resource_pending", cluster_queue="gpus", resource="nvidia.com/gpu")] == 7


def test_an_admission_is_counted_in_its_buckets_by_queue_and_class(sim: Simulator) -> None:
    urgent = a_workload("urgent", conditions=[RESERVED, ADMITTED], priorityClassRef={"name": "production"})
    urgent["status"]["admission"] = {"clusterQueue": "shared"}
    kueue(sim, urgent, a_workload("waits"))
    found = told(sim, "kueue")
    labels = {"cluster_queue": "shared", "priority_class": "production"}
    name = "admission_wait_time_seconds"
    assert found[of_kueue(f"{name}_sum", **labels)] == 30
    bounds = ("1", "20", "40", "10240", "+Inf")  # as a client in Go writes them
    counts = [found[of_kueue(f"{name}_bucket", **labels, le=le)] for le in bounds]
    assert counts == [0, 0, 1, 1, 1]


def test_groups_of_volcano_are_counted_by_phase_and_their_gpus_in_thousandths(sim: Simulator) -> None:
    api = "scheduling.volcano.sh/v1beta1"
    groups = [
        a_group("waits", minResources=of_gpus(4)),
        a_group("next", phase="Inqueue", minResources=of_gpus(2)),
        a_group("runs", phase="Running", minResources=of_gpus(1)),
        a_group("done", phase="Completed", minResources=of_gpus(8)),
    ]
    seed(sim, api, "PodGroup", *groups)
    seed(sim, api, "Queue", a_queue(), a_queue("empty"))
    found = told(sim, "volcano-controller")
    counts = {p: found[key(f"volcano_queue_pod_group_{p}_count", queue_name="default")] for p in ("pending", "inqueue")}
    assert counts == {"pending": 1, "inqueue": 1}
    assert found[key("volcano_queue_pod_group_pending_count", queue_name="empty")] == 0
    found = told(sim, "volcano-scheduler")
    of_gpu = {"queue_name": "default", "resource": "nvidia.com/gpu"}
    assert found[key("volcano_queue_request_scalar_resources", **of_gpu)] == 7000
    assert found[key("volcano_queue_allocated_scalar_resources", **of_gpu)] == 1000


@pytest.mark.parametrize("exporter", ["kueue", "volcano-scheduler", "volcano-controller"])
def test_what_is_not_installed_says_nothing(sim: Simulator, exporter: str) -> None:
    assert told(sim, exporter) == {}


def test_there_is_no_exporter_of_another_name(sim: Simulator) -> None:
    assert requests.get(f"{sim.url}/metrics/yunikorn", timeout=60).status_code == 404


def test_promtool_finds_nothing_wrong_with_the_format(sim: Simulator) -> None:
    kueue(sim, a_workload(), a_workload("runs", conditions=[RESERVED, ADMITTED]))
    text = requests.get(f"{sim.url}/metrics/kueue", timeout=60).text
    command = [binary("promtool"), "check", "metrics"]
    checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert checked.returncode in (0, 3), checked.stderr
    assert "error while linting" not in checked.stderr
