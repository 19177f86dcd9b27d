"""Groups of kube-scheduler, JobSets and LeaderWorkerSets as their API servers show them, and pods of theirs."""

from typing import Any

from tests.adapters.kubernetes.custom_objects import CREATED, a_template
from tests.adapters.kubernetes.kubernetes_objects import a_pod

POD_GROUPS = "/apis/scheduling.k8s.io/{}/podgroups"
NATIVE_WORKLOADS = "/apis/scheduling.k8s.io/v1alpha1/workloads"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
WORKER_SETS = "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"
JOB_SET, LWS = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/"
BASIC: dict[str, Any] = {"basic": {}}


def gang_of(least: int) -> dict[str, Any]:
    """Return a scheduling policy."""
    return {"gang": {"minCount": least}}


def metadata_of(name: str) -> dict[str, Any]:
    return {"namespace": "ml", "name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED}


def a_pod_group(policy: dict[str, Any], name: str = "big") -> dict[str, Any]:
    """Return a PodGroup, v1alpha2 or later."""
    return {"metadata": metadata_of(name), "spec": {"schedulingPolicy": policy}}


def in_pod_group(name: str, group: str = "big", **changes: Any) -> dict[str, Any]:
    """Return a pod of a PodGroup."""
    return a_pod(name, schedulingGroup={"podGroupName": group}, **changes)


def a_native_workload(name: str = "train", **policies: dict[str, Any]) -> dict[str, Any]:
    """Return a Workload (v1alpha1) with a group for each of *policies*."""
    groups = [{"name": group, "policy": policy} for group, policy in policies.items()]
    return {"metadata": metadata_of(name), "spec": {"podGroups": groups}}


def in_workload(name: str, group: str = "workers", replica: str | None = None, **changes: Any) -> dict[str, Any]:
    """Return a pod of a group of a Workload (v1alpha1)."""
    reference = {"name": "train", "podGroup": group, **({"podGroupReplicaKey": replica} if replica else {})}
    return a_pod(name, workloadRef=reference, **changes)


def a_replicated_job(name: str, replicas: int = 1, parallelism: int = 1, *, gpus: int = 1, **more: Any) -> Any:
    """Return a part of a JobSet; *after* in *more* becomes dependsOn, the rest goes to the Job's spec."""
    after = more.pop("after", None)
    spec = {"parallelism": parallelism, "completions": parallelism, "template": a_template(gpus), **more}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **({"dependsOn": after} if after else {})}


def a_job_set(*jobs: dict[str, Any], status: list[dict[str, Any]] | None = None, name: str = "train") -> dict[str, Any]:
    """Return a JobSet; *status* is its replicatedJobsStatus."""
    zeros = dict.fromkeys(("active", "failed", "ready", "succeeded", "suspended"), 0)
    shown = {"replicatedJobsStatus": [{**zeros, **each} for each in status or ()]}
    return {"metadata": metadata_of(name), "spec": {"replicatedJobs": list(jobs)}, "status": shown}


def in_job_set(name: str, job: str = "workers", **changes: Any) -> dict[str, Any]:
    """Return a pod of the JobSet train."""
    labels = {f"{JOB_SET}jobset-name": "train", f"{JOB_SET}replicatedjob-name": job}
    return a_pod(name, labels=labels, **changes)


def a_worker_set(size: int = 4, *, gpus: int = 1, name: str = "llama") -> dict[str, Any]:
    """Return a LeaderWorkerSet whose workers ask for *gpus*."""
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": size, "workerTemplate": a_template(gpus)}}
    return {"metadata": metadata_of(name), "spec": {**spec, "startupPolicy": "LeaderReady"}}


def in_worker_set(index: int = 0, *, size: int = 4, group: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a pod of the LeaderWorkerSet llama: its leader has the *index* 0."""
    labels = {f"{LWS}name": "llama", f"{LWS}group-index": str(group), f"{LWS}worker-index": str(index)}
    annotations = {f"{LWS}size": str(size), **changes.pop("annotations", {})}
    name = f"llama-{group}" + (f"-{index}" if index else "")
    return a_pod(name, labels=labels, annotations=annotations, **changes)
