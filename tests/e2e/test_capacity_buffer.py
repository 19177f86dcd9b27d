"""A CapacityBuffer end to end, with real Prometheus: bought for, reported, used, refilled, and gone with the buffer."""

from pathlib import Path
from typing import Any

import pytest

from demo.plan import PoolPlan, StackPlan
from demo.stack import Stack
from tests.e2e.receivers import POOL
from tests.e2e.stacks import a_stack
from tests.rules.versions import PAIRS, Chosen, label, using

GPU = "nvidia.com/gpu"
PLAN = StackPlan(
    pools=(PoolPlan(name="l40s", id=POOL, idle_for="3s"),),
    tick="1s",
    granularity="1s",
    removal_margin="0s",
    simulator={
        "timings": {"build": "1s", "boot": "500ms", "driver": "1s"},
        "kubernetes": {"installed": ["autoscaling.x-k8s.io/v1beta1"]},
    },
)
CHUNK = {"spec": {"containers": [{"name": "main", "image": "serve", "resources": {"requests": {GPU: "1"}}}]}}
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "PodTemplate",
    "metadata": {"namespace": "ml", "name": "chunk", "generation": 3},
    "template": CHUNK,
}
BUFFER = {
    "apiVersion": "autoscaling.x-k8s.io/v1beta1",
    "kind": "CapacityBuffer",
    "metadata": {"namespace": "ml", "name": "warm", "generation": 1},
    "spec": {
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        "podTemplateRef": {"name": "chunk"},
        "replicas": 2,
    },
}
BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers"


def nodes(stack: Stack) -> tuple[int, int]:
    """How many nodes Civo was asked for, and how many are ready."""
    found = stack.get("receiver", f"/api/v1/pools/{POOL}")
    return found["required"], found["ready"]


def status(stack: Stack) -> dict[str, Any]:
    [buffer] = stack.get("simulator", BUFFERS)["items"]
    found: dict[str, Any] = buffer.get("status", {})
    return found


def provisioning(stack: Stack) -> str:
    """The message of the condition Provisioning."""
    conditions = {c["type"]: c["message"] for c in status(stack).get("conditions", ())}
    return str(conditions.get("Provisioning", ""))


@pytest.mark.parametrize("versions", PAIRS[-1:], ids=label)
def test_a_buffer_is_bought_for_used_refilled_and_given_back(versions: Chosen, tmp_path: Path) -> None:
    with using(versions), a_stack(PLAN, tmp_path) as stack:
        stack.post("simulator", "/_custom", [TEMPLATE, BUFFER])
        stack.wait_until(lambda: nodes(stack) == (2, 2), 60, "a node for each chunk")
        stack.wait_until(lambda: provisioning(stack).startswith("2 of 2 chunks have room; $"), 30, "a price")
        found = status(stack)
        assert {c["type"]: (c["status"], c["reason"]) for c in found["conditions"]} == {
            "ReadyForProvisioning": ("True", "AttributesSetSuccessfully"),
            "LimitedByQuotas": ("False", "ResourceQuotasAllocated"),
            "Provisioning": ("True", "FakePodsInjected"),
        }
        del found["conditions"]
        assert found == {
            "podTemplateRef": {"name": "chunk"},
            "podTemplateGeneration": 3,
            "replicas": 2,
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        }

        bought = len(stack.requests(method="PUT", face="civo"))
        stack.submit({"id": "train", "duration": "10m", "namespace": "ml", "team": "vision"})
        stack.wait_until(lambda: nodes(stack) == (3, 3), 60, "the buffer refilled")
        assert [p["phase"] for p in stack.state()["pods"] if p["namespace"] == "ml"] == ["Running"]
        assert len(stack.requests(method="PUT", face="civo")) == bought + 1

        stack.delete("simulator", BUFFERS.replace("capacity", "namespaces/ml/capacity") + "/warm")
        stack.wait_until(lambda: nodes(stack) == (1, 1), 90, "the nodes of the buffer gone")
        assert stack.state()["kills"] == []
