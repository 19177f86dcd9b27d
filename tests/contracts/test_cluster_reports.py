"""What the port `Cluster` promises of rights, of other installations, and of what is written into objects of others.

See `test_cluster`. In memory, these objects are what a look shows of them: there is no status to spell out.
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, connect
from receiver.adapters.kubernetes.installations import Own
from receiver.capabilities.kueue_check.judging import CheckState
from receiver.capabilities.provisioning_requests.progress import BookingStage
from receiver.core.model.room_requests import RoomAnswer
from receiver.ports import BUDGET_CHECK, PROVISIONING_CLASS, Cluster, Did
from receiver.replay.kubernetes import WorldCluster
from simulator.server import Simulator
from tests.contracts.stage import GPU, ON_THE_WIRE, OWN_LEASE
from tests.core.builders import a_pod, a_pool
from tests.given.requests import booking_of, buffer_of, candidate_of

KUEUE, SCALING = "kueue.x-k8s.io", "autoscaling.x-k8s.io"
KEY = "ml/train"
CHECK, BOOKING = "kueue_check", "provisioning_requests"
TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}]}}

on_the_wire = pytest.mark.parametrize("cluster", [ON_THE_WIRE], indirect=True)


def put(sim: Simulator, api: str, kind: str, name: str, *, namespace: str = "ml", **said: Any) -> None:
    """Let an object be there; *said* are its parts beside the metadata."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    with sim.moved() as world:
        sim.live.custom.put([{"apiVersion": api, "kind": kind, "metadata": metadata, **said}], world.now)


def status(sim: Simulator, group: str, plural: str, name: str = "train", namespace: str = "ml") -> Mapping[str, Any]:
    """The status of an object."""
    found = sim.live.custom.find(group, plural, name, namespace)
    assert found is not None
    return dict(found.get("status") or {})


def conditions(sim: Simulator, group: str, plural: str, name: str = "train", namespace: str = "ml") -> dict[str, Any]:
    """The conditions in it, by type."""
    return {c["type"]: c for c in status(sim, group, plural, name, namespace).get("conditions") or ()}


# --- rights


@pytest.mark.parametrize(
    "denied",
    [(), ("patch nodes",), ("get nodes", "create pods/eviction")],
    ids=["none", "one", "two"],
)
def test_the_rights_that_rbac_refuses_a_removal_are_named(
    sim: Simulator, cluster: Cluster, denied: tuple[str, ...]
) -> None:
    sim.live.denied.update(denied)
    if isinstance(cluster, WorldCluster):
        cluster.refused = denied
    assert tuple(cluster.missing_rights()) == denied


# --- other installations


def test_an_installation_that_was_made_known_a_moment_ago_is_known_already(cluster: Cluster) -> None:
    cluster.make_known([a_pool()])
    assert cluster.make_known([a_pool()]).did is Did.ALREADY


@on_the_wire  # a world has one installation: no other reads of its pools
def test_another_installation_sees_the_pools_that_this_one_made_known(
    sim: Simulator, cluster: Cluster, tmp_path: Path
) -> None:
    assert cluster.make_known([a_pool("l40s")]).did is Did.DONE
    assert cluster.make_known([a_pool("l40s"), a_pool("h100")]).did is Did.DONE
    reader = connect(
        str(sim.kubeconfig(tmp_path / "other")),
        calls=Calls(timeouts=(60, 60)),
        options=ClusterOptions(installation=Own(key="other/theirs")),
    )
    with closing(reader):
        (ours,) = reader.look().others.installations
    assert (ours.key, [pool.name for pool in ours.pools]) == (OWN_LEASE, ["l40s", "h100"])
    assert not cluster.look().others.installations


# --- CapacityBuffers


def a_buffer(sim: Simulator) -> None:
    """CapacityBuffer ml/train, for one chunk of one GPU."""
    reference = {"podTemplateRef": {"name": "chunk"}, "replicas": 1}
    put(sim, "v1", "PodTemplate", "chunk", template=TEMPLATE)
    put(sim, f"{SCALING}/v1beta1", "CapacityBuffer", "train", spec=reference)
    sim.world.requests = (buffer_of(KEY, a_pod(), 1),)


def kept_of_buffer(sim: Simulator, cluster: Cluster) -> str:
    """What is said to be kept of buffer ml/train."""
    if isinstance(cluster, WorldCluster):
        return sim.world.answers["buffers", KEY].message
    return str(conditions(sim, SCALING, "capacitybuffers")["Provisioning"]["message"])


def test_what_is_kept_of_a_buffer_is_written_where_it_differs(sim: Simulator, cluster: Cluster) -> None:
    a_buffer(sim)
    for message in ("1 of 1 chunks is kept", "0 of 1 chunks are kept"):
        for did in (Did.DONE, Did.ALREADY):
            assert [request.key for request in cluster.look().requests] == [KEY]
            assert cluster.answer_request(RoomAnswer(kind="buffers", key=KEY, message=message)).did is did
            assert kept_of_buffer(sim, cluster) == message


def test_nothing_is_written_for_a_buffer_that_the_last_look_did_not_show(sim: Simulator, cluster: Cluster) -> None:
    a_buffer(sim)
    cluster.look()
    assert cluster.answer_request(RoomAnswer(kind="buffers", key="ml/gone", message="nothing")).did is Did.DIFFERS


# --- AdmissionChecks


@pytest.fixture
def workload(sim: Simulator) -> None:
    """Workload ml/train with quota, which waits for our AdmissionCheck ``budget``; the check is not active yet."""
    put(sim, f"{KUEUE}/v1beta2", "AdmissionCheck", "budget", namespace="", spec={"controllerName": BUDGET_CHECK})
    pending = {"name": "budget", "state": "Pending", "message": "", "lastTransitionTime": "2026-03-02T08:00:00Z"}
    reserved = {"type": "QuotaReserved", "status": "True"}
    pod_sets = [{"name": "main", "count": 1, "template": TEMPLATE}]
    put(
        sim,
        f"{KUEUE}/v1beta2",
        "Workload",
        "train",
        spec={"active": True, "queueName": "gpus", "podSets": pod_sets},
        status={"conditions": [reserved], "admissionChecks": [pending]},
    )
    sim.world.requests = (candidate_of(KEY, [a_pod()]),)


def test_no_check_is_activated_where_none_is_ours(cluster: Cluster) -> None:
    cluster.look()
    assert cluster.keep_active(CHECK).did is Did.ALREADY


@on_the_wire  # a world has no AdmissionChecks, only the Workloads that wait for one
@pytest.mark.usefixtures("workload")
def test_a_check_of_ours_without_the_condition_is_activated_once(sim: Simulator, cluster: Cluster) -> None:
    for did in (Did.DONE, Did.ALREADY):
        cluster.look()
        assert cluster.keep_active(CHECK).did is did
        assert conditions(sim, KUEUE, "admissionchecks", "budget", "")["Active"]["status"] == "True"


def answered(sim: Simulator, cluster: Cluster) -> tuple[str, str]:
    """State and message of the answer to Workload ml/train."""
    if isinstance(cluster, WorldCluster):
        return sim.world.answers[CHECK, KEY].state, sim.world.answers[CHECK, KEY].message
    (check,) = status(sim, KUEUE, "workloads")["admissionChecks"]
    return check["state"], check["message"]


@pytest.mark.usefixtures("workload")
def test_an_answer_is_written_into_its_workload_where_it_differs(sim: Simulator, cluster: Cluster) -> None:
    for message in ("waits for the budget of team vision", "waits for the budget of the cluster"):
        for did in (Did.DONE, Did.ALREADY):
            assert [request.key for request in cluster.look().requests] == [KEY]
            waits = RoomAnswer(kind=CHECK, key=KEY, state=CheckState.PENDING, message=message)
            assert cluster.answer_request(waits).did is did
            assert answered(sim, cluster) == ("Pending", message)


@pytest.mark.usefixtures("workload")
@pytest.mark.parametrize("state", [CheckState.READY, CheckState.RETRY, CheckState.REJECTED])
def test_the_last_answer_of_a_check_is_written(sim: Simulator, cluster: Cluster, state: CheckState) -> None:
    cluster.look()
    assert cluster.answer_request(RoomAnswer(kind=CHECK, key=KEY, state=state, message="decided")).did is Did.DONE
    assert answered(sim, cluster) == (state.value, "decided")


@pytest.mark.usefixtures("workload")
def test_a_workload_that_the_last_look_did_not_show_gets_no_answer(cluster: Cluster) -> None:
    cluster.look()
    ready = RoomAnswer(kind=CHECK, key="ml/gone", state=CheckState.READY, message="covered")
    assert cluster.answer_request(ready).did is Did.DIFFERS


# --- ProvisioningRequests


@pytest.fixture
def request_for_room(sim: Simulator) -> None:
    """ProvisioningRequest ml/train of our class, for two pods."""
    put(sim, "v1", "PodTemplate", "chunk", template=TEMPLATE)
    pod_sets = [{"podTemplateRef": {"name": "chunk"}, "count": 2}]
    spec = {"provisioningClassName": PROVISIONING_CLASS, "podSets": pod_sets}
    put(sim, f"{SCALING}/v1", "ProvisioningRequest", "train", spec=spec)
    sim.world.requests = (booking_of(KEY, [a_pod()], sim.world.now),)


def stage_of_request(sim: Simulator, cluster: Cluster) -> tuple[BookingStage, str]:
    """The stage of request ml/train, and its message."""
    if isinstance(cluster, WorldCluster):
        answer = sim.world.answers[BOOKING, KEY]
        return BookingStage(answer.state), answer.message
    found = conditions(sim, SCALING, "provisioningrequests")
    ended = [stage for stage in (BookingStage.FAILED, BookingStage.EXPIRED) if stage in found]
    provisioned = found.get("Provisioned", {})
    now = BookingStage.PROVISIONED if provisioned.get("status") == "True" else BookingStage.ACCEPTED
    stage = ended[0] if ended else now
    return stage, found[stage if ended else "Provisioned"]["message"]


@pytest.mark.usefixtures("request_for_room")
def test_how_far_a_request_for_room_is_is_written_where_it_differs(sim: Simulator, cluster: Cluster) -> None:
    for stage in (BookingStage.ACCEPTED, BookingStage.PROVISIONED):
        for did in (Did.DONE, Did.ALREADY):
            assert [request.key for request in cluster.look().requests] == [KEY]
            progress = RoomAnswer(kind=BOOKING, key=KEY, state=stage, reason="Nodes", message=f"is {stage}")
            assert cluster.answer_request(progress).did is did
            assert stage_of_request(sim, cluster) == (stage, f"is {stage}")


@pytest.mark.usefixtures("request_for_room")
@pytest.mark.parametrize("stage", [BookingStage.FAILED, BookingStage.EXPIRED])
def test_the_end_of_a_request_for_room_is_written(sim: Simulator, cluster: Cluster, stage: BookingStage) -> None:
    cluster.look()
    ended = RoomAnswer(kind=BOOKING, key=KEY, state=stage, reason="Ended", message="it is over")
    assert cluster.answer_request(ended).did is Did.DONE
    assert stage_of_request(sim, cluster) == (stage, "it is over")


@pytest.mark.usefixtures("request_for_room")
def test_nothing_is_written_for_a_request_that_the_last_look_did_not_show(cluster: Cluster) -> None:
    cluster.look()
    progress = RoomAnswer(kind=BOOKING, key="ml/gone", state=BookingStage.FAILED, reason="Ended", message="it is over")
    assert cluster.answer_request(progress).did is Did.DIFFERS
