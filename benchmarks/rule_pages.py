"""What kube-state-metrics, dcgm-exporter and the autoscaler export of a large cluster: input of `benchmarks.rules`.

Every node has eight GPUs. A quarter of the nodes holds one pod with all of them, the others a pod for each GPU but one.
A node also has as many pods without GPUs as k3s with the usual agents and a few services. Of each exporter the pages
have what the rules read.
"""

from collections.abc import Iterator
from dataclasses import dataclass

GPUS = 8
PLAIN_PODS = 14
PENDING_PODS = 50
POOLS = 10
CREATED = "1.7e+09"
GROWS = "@"  # stands for a number that grows from scrape to scrape
POOL_LABEL = "kubernetes_civo_com_civo_node_pool"
COUNTERS = {
    "DCGM_FI_DEV_GPU_UTIL": "70",
    "DCGM_FI_DEV_FB_USED": "60000",
    "DCGM_FI_DEV_FB_FREE": "20000",
    "DCGM_FI_DEV_FB_RESERVED": "1000",
    "DCGM_FI_DEV_POWER_USAGE": "400",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": GROWS,
    "DCGM_FI_DEV_GPU_TEMP": "60",
    "DCGM_FI_DEV_XID_ERRORS": "0",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "0",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "0",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "2000",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "0.7",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "0.3",
    "DCGM_FI_PROF_DRAM_ACTIVE": "0.4",
}
POLICY = {
    "utilization_high_ratio": 0.7,
    "utilization_low_ratio": 0.5,
    "underutilized_ratio": 0.2,
    "idle_ratio": 0.05,
    "temperature_celsius": 85,
    "provision_timeout_seconds": 1200,
}
STATES = ("required", "ready", "building", "busy", "idle", "unknown", "sick")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod; *gpus* are the indices of those that it holds, *wants* how many it requests."""

    name: str
    namespace: str
    owner: str
    node: str = ""
    pool: str = ""
    wants: int = 0
    gpus: tuple[int, ...] = ()


def pages(nodes: int) -> dict[str, str]:
    """Return the page of each job for a cluster of *nodes* nodes."""
    pods = [pod for number in range(nodes) for pod in _pods(number)]
    waiting = [
        Pod(name=f"waits-{n}-0", namespace="ml", owner=f"waits-{n}", pool=f"pool-{n % POOLS}", wants=1)
        for n in range(PENDING_PODS)
    ]
    described = [line for pod in (*pods, *waiting) for line in _described(pod)]
    by_job = {
        "kube-state-metrics": [*(line for number in range(nodes) for line in _node(number)), *described],
        "dcgm-exporter": [line for pod in pods for line in _measured(pod)] + _free(nodes),
        "gpu-autoscaler": [line for number in range(POOLS) for line in _pool(number, nodes // POOLS)],
    }
    return {job: "\n".join([*lines, ""]) for job, lines in by_job.items()}


def _name(number: int) -> str:
    return f"k3s-gpu-{number:04}-node-pool-{number % POOLS:02}-a1b2c"


def _pods(number: int) -> Iterator[Pod]:
    node, pool = _name(number), f"pool-{number % POOLS}"
    for n in range(PLAIN_PODS):
        yield Pod(
            name=f"agent-{n}-{number}", namespace="kube-system" if n < 4 else "apps", owner=f"agent-{n}", node=node
        )
    if number % 4 == 0:
        every = tuple(range(GPUS))
        yield Pod(
            name=f"train-{number}-0", namespace="ml", owner=f"train-{number}", node=node, pool=pool, wants=8, gpus=every
        )
        return
    for gpu in range(GPUS - 1):
        owner = f"job-{number}-{gpu}"
        yield Pod(name=f"{owner}-0", namespace="ml", owner=owner, node=node, pool=pool, wants=1, gpus=(gpu,))


def _node(number: int) -> Iterator[str]:
    node = f'node="{_name(number)}"'
    yield f"kube_node_info{{{node}}} 1"
    yield f'kube_node_labels{{{node},label_{POOL_LABEL}="pool-{number % POOLS}"}} 1'
    yield f"kube_node_created{{{node}}} {CREATED}"
    yield f"kube_node_spec_unschedulable{{{node}}} 0"
    for condition in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        for status in ("true", "false", "unknown"):
            value = int((status == "true") is (condition == "Ready") and status != "unknown")
            yield f'kube_node_status_condition{{{node},condition="{condition}",status="{status}"}} {value}'
    for resource, value in (("cpu", 128), ("memory", 10**12), ("pods", 110), ("nvidia_com_gpu", GPUS)):
        for metric in ("allocatable", "capacity"):
            yield f'kube_node_status_{metric}{{{node},resource="{resource}",unit="integer"}} {value}'


def _described(pod: Pod) -> Iterator[str]:
    who = f'namespace="{pod.namespace}",pod="{pod.name}",uid="{pod.name}-uid"'
    runs = bool(pod.node)
    yield f'kube_pod_info{{{who},node="{pod.node}",created_by_kind="Job",created_by_name="{pod.owner}"}} 1'
    yield f'kube_pod_owner{{{who},owner_kind="Job",owner_name="{pod.owner}",owner_is_controller="true"}} 1'
    yield f"kube_pod_created{{{who}}} {CREATED}"
    for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
        yield f'kube_pod_status_phase{{{who},phase="{phase}"}} {int(phase == ("Running" if runs else "Pending"))}'
    requests = [("cpu", "1"), ("memory", "1e9"), *([("nvidia_com_gpu", str(pod.wants))] if pod.wants else ())]
    for resource, value in requests:
        labels = f'{who},container="main",node="{pod.node}",resource="{resource}",unit="integer"'
        yield f"kube_pod_container_resource_requests{{{labels}}} {value}"
    if runs:
        yield f"kube_pod_status_scheduled_time{{{who}}} {CREATED}"
    else:
        yield f"kube_pod_status_unschedulable{{{who}}} 1"
    if pod.pool:
        yield f'kube_pod_nodeselectors{{{who},nodeselector_{POOL_LABEL}="{pod.pool}"}} 1'


def _measured(pod: Pod) -> Iterator[str]:
    held = f'exported_namespace="{pod.namespace}",exported_pod="{pod.name}",exported_container="main"'
    for gpu in pod.gpus:
        yield from _counters(pod.node, gpu, held)


def _free(nodes: int) -> list[str]:
    """The GPUs without a pod."""
    return [line for n in range(nodes) if n % 4 for line in _counters(_name(n), GPUS - 1, "")]


def _counters(node: str, gpu: int, held: str) -> Iterator[str]:
    whose = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100",Hostname="{node}",{held}'
    return (f"{counter}{{{whose}}} {value}" for counter, value in COUNTERS.items())


def _pool(number: int, nodes: int) -> Iterator[str]:
    pool = f'pool="pool-{number}"'
    yield f'gpu_autoscaler_pool_info{{{pool},pool_name="h100-{number}",size="an.g1.h100.kube.x8"}} 1'
    yield f"gpu_autoscaler_pool_node_price_usd_per_hour{{{pool}}} 20"
    yield f"gpu_autoscaler_pool_nodes_max{{{pool}}} {2 * nodes}"
    yield from (f"gpu_autoscaler_policy_{name}{{{pool}}} {value}" for name, value in POLICY.items())
    yield from (f'gpu_autoscaler_pool_nodes{{{pool},state="{state}"}} {nodes}' for state in STATES)
