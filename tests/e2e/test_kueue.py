"""A Workload of Kueue end to end, with real Prometheus: the budgets answer its check, nodes are booked, and it runs."""

from pathlib import Path
from typing import Any

import pytest

from demo.plan import PoolPlan, StackPlan
from demo.stack import Stack
from receiver.ports import BUDGET_CHECK, PROVISIONING_CLASS
from tests.e2e.receivers import POOL
from tests.e2e.stacks import a_stack
from tests.rules.versions import PAIRS, Chosen, label, using

GPU = "nvidia.com/gpu"
API = "kueue.x-k8s.io/v1beta2"
PLAN = StackPlan(
    pools=(PoolPlan(name="l40s", id=POOL, idle_for="3s"),),
    tick="1s",
    granularity="1s",
    removal_margin="0s",
    simulator={
        "timings": {"build": "1s", "boot": "500ms", "driver": "1s"},
        "kubernetes": {"installed": [API, "autoscaling.x-k8s.io/v1"], "kueue": True},
    },
)
CONFIG = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "atomic"}
CONTAINER = {"name": "main", "image": "train", "resources": {"requests": {GPU: "1"}}}
TEMPLATE = {
    "metadata": {"labels": {"team": "vision"}, "annotations": {"simulator/duration-seconds": "5"}},
    "spec": {"containers": [CONTAINER]},
}


def an_object(kind: str, name: str, **said: Any) -> dict[str, Any]:
    where = {"namespace": "ml"} if kind == "Workload" else {}
    return {"apiVersion": API, "kind": kind, "metadata": {**where, "name": name}, **said}


FLAVOR = {"name": "l40s", "resources": [{"name": GPU, "nominalQuota": "4"}]}
CHECKS = {"admissionChecks": [{"name": "budget"}, {"name": "atomic"}]}
OBJECTS = [
    an_object("ResourceFlavor", "l40s", spec={}),
    an_object("AdmissionCheck", "budget", spec={"controllerName": BUDGET_CHECK}),
    an_object("ProvisioningRequestConfig", "atomic", spec={"provisioningClassName": PROVISIONING_CLASS}),
    an_object(
        "AdmissionCheck",
        "atomic",
        spec={"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": CONFIG},
    ),
    an_object(
        "ClusterQueue",
        "gpus",
        spec={
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [FLAVOR]}],
            "admissionChecksStrategy": CHECKS,
        },
    ),
    an_object(
        "Workload",
        "train",
        spec={"active": True, "queueName": "gpus", "podSets": [{"name": "main", "count": 2, "template": TEMPLATE}]},
    ),
]


def pool(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = stack.get("receiver", f"/api/v1/pools/{POOL}")
    return found


def status(stack: Stack, path: str) -> dict[str, Any]:
    """The status of the only object at *path*."""
    [found] = stack.get("simulator", path)["items"]
    read: dict[str, Any] = found.get("status", {})
    return read


def holding(stack: Stack, path: str) -> set[str]:
    """The conditions that hold."""
    return {c["type"] for c in status(stack, path).get("conditions", ()) if c["status"] == "True"}


@pytest.mark.parametrize("versions", PAIRS[-1:], ids=label)
def test_a_workload_is_admitted_by_both_checks_and_runs_on_booked_nodes(versions: Chosen, tmp_path: Path) -> None:
    workloads = f"/apis/{API}/workloads"
    requests = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
    with using(versions), a_stack(PLAN, tmp_path) as stack:
        stack.post("simulator", "/_custom", OBJECTS)
        stack.wait_until(lambda: "Admitted" in holding(stack, workloads), 90, "the Workload admitted")
        checks = {c["name"]: (c["state"], c["message"]) for c in status(stack, workloads)["admissionChecks"]}
        assert checks["atomic"] == ("Ready", "booked for ten minutes: room for 2 pods in pool l40s")
        assert checks["budget"][0] == "Ready"
        assert len(stack.state()["nodes"]) == 2  # the receiver shows them only when its step has ended
        stack.wait_until(lambda: "Finished" in holding(stack, workloads), 60, "the Workload finished")
        stack.wait_until(lambda: "BookingExpired" in holding(stack, requests), 30, "the booking over")
        assert holding(stack, requests) == {"Accepted", "Provisioned", "BookingExpired"}
        stack.wait_until(lambda: pool(stack)["required"] == 0, 90, "the nodes gone")
        assert stack.state()["kills"] == []
