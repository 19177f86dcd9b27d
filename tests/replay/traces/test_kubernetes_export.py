"""Exports of Kubernetes: what a pod held and when, and what a Job says where its pods are gone."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.core.model.pods import Requirement, Toleration
from receiver.replay.traces.trace import TraceReading
from receiver.replay.world.objects import Job
from tests.replay.traces.exports import JSON, WRITTEN, a_job, a_pod, ended, exported, owned_by

HOUR = timedelta(hours=1)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)


def one(folder: Path, *items: JSON) -> Job:
    """The only job of an export."""
    (job,) = exported(folder, *items).jobs
    return job


def test_a_pod_holds_its_gpus_from_its_kubelet_to_its_last_container(tmp_path: Path) -> None:
    both = [ended("2026-03-02T09:30:00Z"), ended("2026-03-02T10:05:00Z")]
    job = one(tmp_path, a_pod(status__containerStatuses=both))
    assert (job.id, job.submit_at, job.duration) == ("ml.train-0", NINE, HOUR)
    assert (job.pods, job.gpus_per_pod, job.gang, job.team, job.namespace) == (1, 8, False, "vision", "ml")


def test_a_failed_pod_held_its_gpus_too(tmp_path: Path) -> None:
    assert one(tmp_path, a_pod(status__phase="Failed")).duration == HOUR


def test_an_evicted_pod_ended_with_its_last_change(tmp_path: Path) -> None:
    changes = [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-03-02T09:45:00Z"}]
    pod = a_pod(status__phase="Failed", status__containerStatuses=None, status__conditions=changes)
    assert one(tmp_path, pod).duration == timedelta(minutes=40)


def test_a_pod_that_runs_counts_until_the_export_was_written_and_is_told(tmp_path: Path) -> None:
    trace = exported(tmp_path, a_pod(status__phase="Running", status__containerStatuses=None))
    assert trace.jobs[0].duration == WRITTEN - (NINE + timedelta(minutes=5))
    assert trace.report == [
        "the export counts as made at 2026-03-02 18:00:00 UTC (`until` in the file of --timing)",
        "still running: 1 pod, counted with the run time so far",
    ]


def test_when_an_export_was_made_may_be_said(tmp_path: Path) -> None:
    running = a_pod(status__phase="Running", status__containerStatuses=None)
    (job,) = exported(tmp_path, running, made_at=datetime(2026, 3, 2, 12, 5, tzinfo=UTC)).jobs
    assert job.duration == 3 * HOUR


def test_nothing_in_an_export_is_later_than_itself(tmp_path: Path) -> None:
    running = a_pod("early", status__phase="Running", status__containerStatuses=None)
    later = a_pod("later", metadata__creationTimestamp="2026-03-02T10:05:00Z", status={"phase": "Pending"})
    (job,) = exported(tmp_path, running, later, made_at=NINE).jobs
    assert job.duration == HOUR


def test_where_a_pod_may_run_is_kept(tmp_path: Path) -> None:
    pod = a_pod(
        spec__nodeSelector={"gpu": "l40s"},
        spec__tolerations=[{"key": "gpu", "operator": "Exists"}],
        spec__priorityClassName="high",
        spec__affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            }
        },
    )
    job = one(tmp_path, pod)
    assert (job.node_selector, job.tolerations) == ({"gpu": "l40s"}, (Toleration(key="gpu", operator="Exists"),))
    assert job.affinity == ((Requirement(key="zone", operator="In", values=("a",)),),)
    assert job.priority_class == "high"
    assert job.labels == {"team": "vision"}


def test_where_a_pod_may_run_is_left_out_where_that_is_wanted(tmp_path: Path) -> None:
    (job,) = exported(tmp_path, a_pod(spec__nodeSelector={"gpu": "l40s"}), placement=False).jobs
    assert (job.node_selector, job.affinity, job.tolerations) == ({}, (), TraceReading().tolerations)


@pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
def test_slices_and_shared_gpus_are_resources_of_their_own(tmp_path: Path, resource: str) -> None:
    job = one(tmp_path, a_pod(spec__containers=[{"resources": {"requests": {resource: 2}}}]))
    assert (job.resource, job.gpus_per_pod) == (resource, 2)


def test_the_larger_of_containers_and_init_containers_counts(tmp_path: Path) -> None:
    first = [{"resources": {"limits": {"nvidia.com/gpu": "10"}}}]
    assert one(tmp_path, a_pod(gpus=8, spec__initContainers=first)).gpus_per_pod == 10


def test_a_consent_to_be_moved_and_a_wish_to_stay_are_kept(tmp_path: Path) -> None:
    consent = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    assert one(tmp_path, a_pod(metadata__annotations=consent)).annotations == consent


def test_what_is_no_job_is_counted_by_kind(tmp_path: Path) -> None:
    trace = exported(
        tmp_path,
        a_pod(),
        a_pod("web", gpus=0),
        a_pod("waits", spec__nodeName=None, status={"phase": "Pending"}),
        a_pod("probe", owner=owned_by("DaemonSet", "probe")),
        a_pod("validator", metadata__namespace="gpu-operator"),
        a_job("etl", gpus=0),
        a_job("held-back", status={}),
        {"kind": "Service", "metadata": {"name": "web"}},
    )
    assert [job.id for job in trace.jobs] == ["ml.train-0"]
    assert trace.uncounted == {
        "pods without a GPU": 1,
        "pods that never ran": 1,
        "pods of DaemonSets (they follow nodes)": 1,
        "pods of the GPU operator (they check new nodes)": 1,
        "Jobs without a GPU": 1,
        "Jobs that never started": 1,
        "objects that are neither jobs nor pods (Service)": 1,
    }


def test_a_job_whose_pods_are_there_is_its_pods(tmp_path: Path) -> None:
    trace = exported(tmp_path, a_job(), a_pod(owner=owned_by("Job", "train")))
    assert [(job.id, job.duration) for job in trace.jobs] == [("ml.train-0", HOUR)]
    assert trace.report == []


def test_a_job_whose_pods_are_gone_speaks_for_them_and_is_told(tmp_path: Path) -> None:
    trace = exported(tmp_path, a_job(spec__parallelism=3, spec__completions=3))
    assert [(job.id, job.gpus_per_pod, job.duration) for job in trace.jobs] == [
        (f"ml.train-{index}", 8, timedelta(minutes=65)) for index in range(3)
    ]
    assert trace.jobs[0].team == "vision"
    assert trace.report == ["1 Jobs have no pods in the export: their time includes what they waited for a node"]


@pytest.mark.parametrize("at_once, wanted, pods", [(2, 6, 2), (3, 1, 1), (3, None, 3)])
def test_a_job_whose_pods_are_gone_had_as_many_as_ran_at_once(
    tmp_path: Path, at_once: int, wanted: int | None, pods: int
) -> None:
    trace = exported(tmp_path, a_job(spec__parallelism=at_once, spec__completions=wanted))
    assert len(trace.jobs) == pods


def test_a_failed_job_ended_when_it_failed(tmp_path: Path) -> None:
    failed = [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-03-02T09:20:00Z"}]
    job = one(tmp_path, a_job(status__completionTime=None, status__conditions=failed))
    assert job.duration == timedelta(minutes=20)


def test_a_job_with_fewer_pods_than_it_ran_is_told(tmp_path: Path) -> None:
    trace = exported(tmp_path, a_job(status__failed=2), a_pod(owner=owned_by("Job", "train")))
    assert trace.report == ["1 Jobs have fewer pods in the export than they ran: what those held is missing"]


def test_a_training_job_whose_pods_are_gone_is_a_gang_of_its_replicas(tmp_path: Path) -> None:
    job = a_job("ddp")
    template = job["spec"]["template"]
    roles = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": 3, "template": template}}
    found = one(tmp_path, {**job, "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": roles}})
    assert (found.id, found.pods, found.gpus_per_pod, found.gang) == ("ml.ddp", 4, 8, True)


def test_pods_of_a_training_job_are_one_gang_that_ran_from_when_the_last_of_them_did(tmp_path: Path) -> None:
    owner = owned_by("PyTorchJob", "ddp")
    late = a_pod("ddp-1", owner=owner, status__startTime="2026-03-02T09:35:00Z")
    job = one(tmp_path, a_pod("ddp-0", owner=owner), late)
    assert (job.id, job.pods, job.gang, job.duration) == ("ml.ddp", 2, True, timedelta(minutes=30))
    assert job.owner_kind == "PyTorchJob"


def test_pods_of_the_jobs_of_a_job_set_are_one_gang(tmp_path: Path) -> None:
    items = []
    for part in ("a", "b"):
        items.append(a_job(part, metadata__ownerReferences=[owned_by("JobSet", "set")]))
        items.append(a_pod(f"{part}-0", owner=owned_by("Job", part)))
    job = one(tmp_path, *items)
    assert (job.id, job.pods, job.gang) == ("ml.set", 2, True)


def test_pods_that_say_so_are_a_gang(tmp_path: Path) -> None:
    said = {"gpu-autoscaler.io/gang": "ring", "gpu-autoscaler.io/gang-size": "2"}
    pods = [a_pod(f"r-{i}", metadata__annotations=said) for i in range(3)]
    job = one(tmp_path, *pods)
    assert (job.id, job.pods, job.gang, job.gang_min) == ("ml.ring", 3, True, 2)


def test_pods_of_a_plain_job_are_a_gang_only_where_that_is_wanted(tmp_path: Path) -> None:
    pods = [a_pod(f"train-{i}", owner=owned_by("Job", "train")) for i in range(2)]
    assert [(j.id, j.gang) for j in exported(tmp_path, *pods).jobs] == [("ml.train-0", False), ("ml.train-1", False)]
    assert [(j.id, j.pods) for j in exported(tmp_path, *pods, gangs="together").jobs] == [("ml.train", 2)]


def test_a_gang_that_was_started_again_is_a_second_job(tmp_path: Path) -> None:
    owner = owned_by("PyTorchJob", "ddp")
    later: dict[str, Any] = {
        "metadata__creationTimestamp": "2026-03-02T11:00:00Z",
        "status__startTime": "2026-03-02T11:01:00Z",
        "status__containerStatuses": [ended("2026-03-02T11:31:00Z")],
    }
    again = [a_pod(f"ddp-{i}-again", owner=owner, **later) for i in range(2)]
    jobs = exported(tmp_path, *(a_pod(f"ddp-{i}", owner=owner) for i in range(2)), *again).jobs
    assert [(j.id, j.pods, j.duration) for j in jobs] == [
        ("ml.ddp", 2, HOUR),
        ("ml.ddp~2", 2, timedelta(minutes=30)),
    ]


def test_wrong_objects_are_left_out_and_told_where_that_is_wanted(tmp_path: Path) -> None:
    trace = exported(tmp_path, a_pod(), a_pod("odd", status__startTime="2026-03-02T12:00:00Z"), skip_bad=True)
    assert [job.id for job in trace.jobs] == ["ml.train-0"]
    assert [(t.where, t.field) for t in trace.left_out] == [("Pod ml/odd", "status")]
