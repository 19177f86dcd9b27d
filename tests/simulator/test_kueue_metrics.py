"""Kueue's metrics: who waits for quota, for how many GPUs, and how long the admitted had waited."""

from typing import Any

from simulator.exposition import exposed
from simulator.kueue import kueue

CREATED = "2026-03-10T12:00:00Z"


def a_workload(queue: str = "research", gpus: int = 4, count: int = 2, **conditions: str) -> dict[str, Any]:
    """Return a Workload; *conditions* are those that are True, with their times."""
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus), "memory": "8Gi"}}}
    return {
        "metadata": {"name": "w", "creationTimestamp": CREATED},
        "spec": {
            "queueName": queue,
            "priorityClassName": "urgent",
            "podSets": [{"count": count, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {
            "conditions": [{"type": t, "status": "True", "lastTransitionTime": at} for t, at in conditions.items()]
        },
    }


def lines(*workloads: dict[str, Any]) -> list[str]:
    return [line for line in exposed(kueue(workloads)).splitlines() if line and not line.startswith("#")]


def test_a_workload_without_quota_waits_with_all_its_gpus() -> None:
    found = lines(a_workload())
    assert 'kueue_pending_workloads{cluster_queue="research",status="active",replica_role="leader"} 1' in found
    asked = 'kueue_cluster_queue_resource_pending{cluster_queue="research",resource="nvidia.com/gpu",'
    assert f'{asked}replica_role="leader"}} 8' in found


def test_an_admitted_one_no_longer_waits_and_its_wait_is_observed() -> None:
    at = "2026-03-10T12:00:40Z"
    found = lines(a_workload(QuotaReserved=at, Admitted=at))
    assert 'kueue_pending_workloads{cluster_queue="research",status="active",replica_role="leader"} 0' in found
    bucket = 'kueue_admission_wait_time_seconds_bucket{cluster_queue="research",priority_class="urgent",'
    assert f'{bucket}replica_role="leader",le="20"}} 0' in found
    assert f'{bucket}replica_role="leader",le="40"}} 1' in found
    assert f'{bucket}replica_role="leader",le="+Inf"}} 1' in found


def test_without_workloads_there_is_nothing_as_where_kueue_is_not_installed() -> None:
    assert lines() == []
