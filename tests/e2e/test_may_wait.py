"""Work that may wait, end to end with real Prometheus: the scheduling gate goes when there is room or time is up."""

from pathlib import Path
from typing import Any

import pytest

from demo.plan import PoolPlan, StackPlan
from demo.stack import Stack
from receiver.ports import MAY_WAIT
from tests.e2e.receivers import POOL
from tests.e2e.stacks import a_stack
from tests.rules.versions import PAIRS, Chosen, label, using

PLAN = StackPlan(
    pools=(PoolPlan(name="l40s", id=POOL, provision_timeout="20s"),),
    tick="1s",
    simulator={"timings": {"build": "1s", "boot": "500ms", "driver": "1s"}},
)


def gated(name: str, waits: str) -> dict[str, Any]:
    """A pod of one GPU that may wait so long."""
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    annotations = {MAY_WAIT: waits, "simulator/duration-seconds": "600"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "ml", "name": name, "annotations": annotations},
        "spec": {"containers": [container], "schedulingGates": [{"name": MAY_WAIT}]},
    }


def phases(stack: Stack) -> dict[str, str]:
    return {p["name"]: p["phase"] for p in stack.state()["pods"] if p["namespace"] == "ml"}


def waiting(stack: Stack) -> dict[str, str]:
    """What the API says of each waiting pod."""
    return {p["name"]: p["state"] for p in stack.get("receiver", "/api/v1/waiting")}


@pytest.mark.parametrize("versions", PAIRS[-1:], ids=label)
def test_patient_pods_wait_for_room_or_their_time(versions: Chosen, tmp_path: Path) -> None:
    with using(versions), a_stack(PLAN, tmp_path) as stack:
        stack.post("simulator", "/api/v1/namespaces/ml/pods", gated("hours", "4h"))
        stack.wait_until(lambda: waiting(stack) == {"hours": "may_wait"}, 30, "a pod that is told to wait")
        events = stack.get("simulator", "/api/v1/namespaces/ml/events")["items"]
        assert [e["reason"] for e in events if e["involvedObject"]["name"] == "hours"] == ["MayWait"]
        assert stack.requests(method="PUT", face="civo") == []

        # Its time is nearly up at once: a node is bought for it, and it alone is admitted to that.
        stack.post("simulator", "/api/v1/namespaces/ml/pods", gated("soon", "25s"))
        stack.wait_until(lambda: phases(stack)["soon"] == "Running", 60, "the pod whose time is up")
        assert phases(stack)["hours"] == "Pending"
        assert len(stack.requests(method="PUT", face="civo")) == 1

        # It leaves its node, which is paid for: the other one gets it.
        stack.delete("simulator", "/api/v1/namespaces/ml/pods/soon")
        stack.wait_until(
            lambda: phases(stack).get("hours") == "Running", 60, "the patient pod on the node that is free"
        )
        assert len(stack.requests(method="PUT", face="civo")) == 1
