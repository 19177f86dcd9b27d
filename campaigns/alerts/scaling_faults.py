"""Faults of pools, of what waits, of provisioning and of telemetry."""

from datetime import timedelta

from receiver.core.model.policy import Limits
from tests.rules.catalogue import LARGE_SIZE, ON_LARGE, ON_SMALL, SMALL, Fault, a_policy, busy
from tests.rules.hours import EPOCH, Hours

IDLE_NODE = {"GpuNodesIdle": "the new nodes have no work", "GpuPoolUnderutilized": "they lower the pool's average"}
WAITS = {"GpuPodsPending": "the pod still waits"}


def _nothing(h: Hours) -> None:
    busy(h, 45)


def _waits(h: Hours) -> None:
    busy(h)
    h.submit("c", gpu_util=0.6, **ON_SMALL)  # the third node is bought for it
    h.pass_time(20)


def _busy_pool(h: Hours) -> None:
    busy(h)
    for pod in ("a-0", "b-0"):
        h.fault(kind="work", namespace="ml", pod=pod, engine=0.95)
    h.pass_time(15)


def _underused(h: Hours) -> None:
    busy(h)
    for pod in ("a-0", "b-0"):
        h.fault(kind="work", namespace="ml", pod=pod, engine=0.3)
    h.pass_time(25)


def _job_ends(h: Hours) -> None:
    h.submit("a", gpu_util=0.6, **ON_SMALL)
    h.submit("b", gpu_util=0.6, duration="5m", **ON_SMALL)
    h.pass_time(8)


def _no_telemetry(h: Hours) -> None:
    busy(h)
    h.fault(kind="telemetry_gone")
    h.pass_time(20)


def _no_pool_labels(h: Hours) -> None:
    busy(h, 25)


def _driver_crashes(h: Hours) -> None:
    busy(h)
    h.fault(kind="lose_gpu", node=h.nodes(SMALL)[0])
    h.pass_time(19)


def _kubelet_silent(h: Hours) -> None:
    busy(h)
    h.fault(kind="not_ready", node=h.nodes(SMALL)[0])
    h.pass_time(20)


def _stuck_building(h: Hours) -> None:
    busy(h)
    h.fault(kind="stuck_building", pool=SMALL, times=None)
    h.submit("c", gpu_util=0.6, **ON_SMALL)
    h.pass_time(30)


def _never_a_gpu(h: Hours) -> None:
    busy(h)
    h.fault(kind="gpu_never", pool=SMALL, times=None)
    h.submit("c", gpu_util=0.6, **ON_SMALL)
    h.pass_time(19)


def _no_stock(h: Hours) -> None:
    busy(h)
    h.fault(kind="stock", size=LARGE_SIZE, units=0)
    h.submit("c", gpu_util=0.6, gpus_per_pod=8, **ON_LARGE)
    h.pass_time(25)


def _no_quota(h: Hours) -> None:
    busy(h)
    h.fault(kind="quota", field="instance_count", limit=2)
    h.submit("c", gpu_util=0.6, **ON_SMALL)
    h.pass_time(25)


def _nodes_by_another(h: Hours) -> None:
    """Somebody else asks Civo for nodes, three times as many as the receiver may within an hour."""
    busy(h, 75)
    h.live.world.resize(SMALL, 5)
    h.pass_time(25)


def _long_wait(h: Hours) -> None:
    h.submit("a", gpu_util=0.6, **ON_SMALL)
    h.submit("b", gpu_util=0.6, **ON_SMALL)
    h.submit("c", priority_class="production", **ON_SMALL)
    h.pass_time(20)


def _short_wait_of_research(h: Hours) -> None:
    h.submit("a", gpu_util=0.6, **ON_SMALL)
    h.submit("b", gpu_util=0.6, **ON_SMALL)
    h.submit("c", priority_class="research", **ON_SMALL)
    h.pass_time(40)


def _queue(h: Hours) -> None:
    """Kueue admits after an hour what belongs to production; its pods were never seen waiting."""
    busy(h)
    h.live.custom.put([_workload("w", None), _workload("v", 1)], h.clock.now())
    h.pass_time(60)
    h.live.custom.put([_workload("w", 65)], h.clock.now())
    h.pass_time(10)


def _workload(name: str, admitted: float | None) -> dict[str, object]:
    """A Workload that was created at the beginning, and admitted so many minutes later."""
    moment = None if admitted is None else (EPOCH + timedelta(minutes=admitted)).isoformat()
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    conditions = [{"type": t, "status": "True", "lastTransitionTime": moment} for t in ("QuotaReserved", "Admitted")]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ml", "creationTimestamp": EPOCH.isoformat()},
        "spec": {
            "queueName": "team",
            "priorityClassName": "production",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {"conditions": conditions if moment else []},
    }


FULL = a_policy(small={"max_nodes": 2})

FAULTS = (
    Fault(title="nothing is wrong", course=_nothing),
    Fault(title="a pod waits for its new node", raises=("GpuPodsPending",), course=_waits),
    Fault(title="a pool runs at 95 %", raises=("GpuPoolBusy",), course=_busy_pool),
    Fault(title="a pool runs at 30 % and no pod waits", raises=("GpuPoolUnderutilized",), course=_underused),
    Fault(title="a job ends and its node is idle", raises=("GpuNodesIdle",), course=_job_ends),
    Fault(title="dcgm-exporter does not answer", raises=("GpuTelemetryMissing",), course=_no_telemetry),
    Fault(
        title="kube-state-metrics exports no labels (its default)",
        raises=("GpuNodesWithoutPool",),
        course=_no_pool_labels,
        config={"metrics": {"node_labels": []}},
    ),
    Fault(
        title="new nodes never leave BUILDING",
        raises=("GpuScaleUpStuck",),
        also=WAITS,
        course=_stuck_building,
    ),
    Fault(
        title="the driver of new nodes is never installed",
        raises=("GpuNodeWithoutGpus",),
        also=WAITS,
        course=_never_a_gpu,
    ),
    Fault(title="a node's driver crashes", raises=("GpuNodeWithoutGpus",), course=_driver_crashes),
    Fault(title="a node's kubelet stops answering", course=_kubelet_silent),
    Fault(title="Civo has no stock", raises=("GpuPoolOutOfStock",), also=WAITS, course=_no_stock),
    Fault(title="the account has no quota left", raises=("GpuPoolOutOfStock",), also=WAITS, course=_no_quota),
    Fault(
        title="another system buys three nodes where one an hour is allowed",
        raises=("GpuNodesCreatedRapidly",),
        also=IDLE_NODE,
        course=_nodes_by_another,
        policy=a_policy(limits=Limits(max_growth_per_hour=1), small={"max_nodes": 5}),
    ),
    Fault(
        title="a pod of class production waits for 20 minutes",
        raises=("GpuQueueWaitLong",),
        also=WAITS,
        course=_long_wait,
        policy=FULL,
    ),
    Fault(
        title="a pod of class research waits for 40 minutes",
        raises=("GpuPodsPending",),
        course=_short_wait_of_research,
        policy=FULL,
    ),
    Fault(title="work waits in Kueue's queue for an hour", raises=("GpuQueueWaitLong",), course=_queue),
)
