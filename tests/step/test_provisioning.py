"""ProvisioningRequests from end to end: accepted, bought for as a whole, booked, used or expired, and refused."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from receiver.ports import PROVISIONING_CLASS, Store
from simulator.manifests import pod_spec
from tests.core.builders import MINUTE
from tests.step.kueue_stage import GPU, KUEUE, Stage, nodes, staged

Begin = Callable[..., AbstractContextManager[Stage]]
SCALING = "autoscaling.x-k8s.io"


@pytest.fixture
def begin(tmp_path: Path, store: Store) -> Begin:
    return partial(staged, tmp_path, store)


def a_template(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "train", "resources": {"requests": {GPU: "1"}}}
    return {"metadata": {}, "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}], **spec}}


def request(
    stage: Stage, count: int = 2, *, name: str = "train", pod: dict[str, Any] | None = None, **spec: Any
) -> None:
    """A ProvisioningRequest ml/*name* for that many pods of one GPU, which tolerate every node."""
    stage.put("PodTemplate", f"ppt-{name}", api="v1", template=a_template(**(pod or {})))
    pod_sets = [{"podTemplateRef": {"name": f"ppt-{name}"}, "count": count}]
    said = {"provisioningClassName": PROVISIONING_CLASS, "podSets": pod_sets, **spec}
    stage.put("ProvisioningRequest", name, api=f"{SCALING}/v1", spec=said)


def atomic_check(stage: Stage) -> None:
    """Kueue's own check, called atomic, which makes requests of our class."""
    parameters = {"apiGroup": KUEUE, "kind": "ProvisioningRequestConfig", "name": "atomic"}
    stage.put("ProvisioningRequestConfig", "atomic", spec={"provisioningClassName": PROVISIONING_CLASS})
    controller = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
    stage.put("AdmissionCheck", "atomic", spec=controller)


def conditions(stage: Stage, name: str = "train") -> dict[str, tuple[str, str]]:
    """Status and message of each condition."""
    status = stage.found("provisioningrequests", name, SCALING).get("status") or {}
    return {c["type"]: (c["status"], c["message"]) for c in status.get("conditions") or ()}


def test_a_request_is_accepted_booked_and_expires(begin: Begin) -> None:
    with begin() as stage:
        request(stage)
        stage.life.step()
        found = conditions(stage)
        assert found["Accepted"] == ("True", "gpu-autoscaler buys nodes for all pods or for none")
        assert found["Provisioned"] == ("False", "nodes for 2 pods in pool l40s, usable about 08:23 UTC")
        assert nodes(stage) == 2

        stage.run(5 * MINUTE)
        assert conditions(stage)["Provisioned"] == ("True", "booked for ten minutes: room for 2 pods in pool l40s")
        stage.run(8 * MINUTE)
        assert "BookingExpired" not in conditions(stage)
        assert list(stage.life.notices()) == ["GPU pool l40s: 1 -> 2 nodes"]
        assert nodes(stage) == 2

        stage.run(4 * MINUTE)
        assert conditions(stage)["BookingExpired"] == ("True", "Capacity reservation time is expired")
        stage.run(timedelta(minutes=75))
        assert nodes(stage) == 0


def test_a_request_that_is_written_once_is_not_written_again(begin: Begin) -> None:
    with begin() as stage:
        request(stage)
        stage.run(8 * MINUTE)
        assert len(stage.writes()) <= 3


def test_pods_that_use_a_booking_are_not_counted_twice(begin: Begin) -> None:
    with begin() as stage:
        request(stage)
        stage.run(5 * MINUTE)
        annotations = {f"{SCALING}/consume-provisioning-request": "train"}
        for number in range(2):
            manifest = {
                "metadata": {"name": f"train-{number}", "annotations": annotations},
                "spec": a_template()["spec"],
            }
            with stage.sim.moved() as world:
                world.add_pod(pod_spec(manifest, "ml"))
        stage.run(2 * MINUTE)
        assert nodes(stage) == 2
        assert conditions(stage)["BookingExpired"] == ("True", "all pods of the request run")


def test_a_request_beyond_the_maximum_fails_and_buys_nothing(begin: Begin) -> None:
    with begin() as stage:
        request(stage, 4)
        stage.run(MINUTE)
        status, message = conditions(stage)["Failed"]
        assert status == "True"
        assert message.startswith("gang ml/train needs 3 new nodes at once, but guardrail within_maximum allows fewer")
        assert nodes(stage) == 1


def test_a_request_that_the_budget_does_not_cover_fails_and_buys_nothing(begin: Begin) -> None:
    with begin("3") as stage:
        request(stage, 3)
        stage.run(MINUTE)
        assert "cluster budget" in conditions(stage)["Failed"][1]
        assert nodes(stage) == 1


def test_a_request_that_no_pool_can_hold_fails(begin: Begin) -> None:
    with begin() as stage:
        request(stage, 1, pod={"nodeSelector": {"gpu": "h100"}})
        stage.run(MINUTE)
        assert conditions(stage)["Failed"][1].startswith("No GPU pool can hold gang ml/train of 1 pods")


def test_a_request_of_another_class_is_left_alone(begin: Begin) -> None:
    with begin() as stage:
        request(stage, provisioningClassName="check-capacity.autoscaling.x-k8s.io")
        stage.run(2 * MINUTE)
        assert (conditions(stage), nodes(stage), stage.writes()) == ({}, 1, [])


def test_observe_mode_writes_no_condition(begin: Begin) -> None:
    with begin(mode="observe") as stage:
        request(stage)
        stage.run(2 * MINUTE)
        assert (conditions(stage), nodes(stage), stage.writes()) == ({}, 1, [])


def test_kueue_admits_a_workload_once_its_request_is_provisioned(begin: Begin) -> None:
    with begin() as stage:
        atomic_check(stage)
        stage.queue("atomic")
        stage.workload("train")
        stage.run(MINUTE)
        assert stage.check("train")["state"] == "Pending"
        assert stage.check("train")["message"].startswith("nodes for 2 pods in pool l40s, usable about")

        stage.run(4 * MINUTE)
        assert stage.check("train")["state"] == "Ready"
        assert stage.conditions("train")["Admitted"] == "True"
        stage.run(12 * MINUTE)
        assert stage.conditions("train")["Finished"] == "True"
        assert conditions(stage, "train-atomic-1")["BookingExpired"] == ("True", "all pods of the request run")
        assert nodes(stage) == 2


def test_kueue_retries_what_cannot_be_provisioned(begin: Begin) -> None:
    with begin() as stage:
        atomic_check(stage)
        stage.queue("atomic")
        stage.workload("huge", 4)
        stage.run(MINUTE / 2)
        assert stage.check("huge")["retryCount"] == 1
        assert (stage.conditions("huge")["QuotaReserved"], nodes(stage)) == ("False", 1)


def test_a_workload_with_both_checks_is_paid_for_once(begin: Begin) -> None:
    with begin("4") as stage:  # two node-hours of the first node and of one more cost $3.87
        atomic_check(stage)
        stage.budget_check()
        stage.queue("budget", "atomic")
        stage.workload("train")
        stage.run(6 * MINUTE)
        assert (stage.conditions("train")["Admitted"], nodes(stage)) == ("True", 2)
