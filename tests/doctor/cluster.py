"""A cluster set up as a platform engineer should: we run off the GPU pool, with policies around us and classes."""

from collections.abc import Callable
from typing import Any

from receiver.replay.world.objects import IMAGE_ANNOTATION, PodSpec
from simulator.kubernetes_objects import ARGS_ANNOTATION
from simulator.server import Simulator
from tests.simulator.builders import CPU_POOL, GPU_POOL, config

OURS = "gpu-autoscaler"
NAMED = {"app.kubernetes.io/name": OURS}
TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}


def gpu_pool(**changes: Any) -> dict[str, Any]:
    """Return the simulated GPU pool with *changes*."""
    return {**config()["pools"][0], **changes}


def well_kept(
    start: Callable[..., Simulator], gpu: dict[str, Any] | None = None, *, hosts_us: bool = True, **changes: Any
) -> Simulator:
    """Start a cluster with one CPU node that hosts us, and what surrounds us."""
    cpu = {**config()["pools"][1], "count": 1}
    sim = start(pools=[gpu or gpu_pool(), cpu], **changes)
    if hosts_us:
        run(sim, PodSpec(namespace=OURS, name="gpu-autoscaler-0", labels=NAMED, node=node_of(sim, CPU_POOL)))
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    put(
        sim,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OURS, "labels": enforced}},
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": OURS, "namespace": OURS},
            "spec": {"podSelector": {"matchLabels": NAMED}, "policyTypes": ["Ingress"]},
        },
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "production"}, "value": 9},
    )
    return sim


def put(sim: Simulator, *objects: dict[str, Any]) -> None:
    """Let the cluster have *objects*."""
    with sim.moved() as world:
        sim.live.custom.put(objects, world.now)


def run(sim: Simulator, pod: PodSpec) -> None:
    """Let *pod* run."""
    with sim.moved() as world:
        world.add_pod(pod)


def run_image(sim: Simulator, name: str, image: str, args: str = "") -> None:
    """Let a pod of kube-system run *image* with *args* on the CPU node."""
    said = {IMAGE_ANNOTATION: image, ARGS_ANNOTATION: args}
    run(sim, PodSpec(namespace="kube-system", name=name, annotations=said, node=node_of(sim, CPU_POOL)))


def node_of(sim: Simulator, pool: str = GPU_POOL) -> str:
    """Return the name of the first node of *pool*."""
    with sim.moved() as world:
        return str(next(node.name for node in world.nodes.values() if node.pool == pool))


KUEUE_API = "kueue.x-k8s.io/v1beta2"


def install_kueue(sim: Simulator, *objects: dict[str, Any]) -> None:
    """Install Kueue with *objects*."""
    put(sim, *({"apiVersion": KUEUE_API, **o} for o in objects))


def a_flavor(name: str = "l40s", **labels: str) -> dict[str, Any]:
    """Return a ResourceFlavor of nodes with *labels*."""
    return {
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels or {"gpu": "on-demand"}},
    }


def a_cluster_queue(gpus: int | str, name: str = "gpus", flavor: str = "l40s") -> dict[str, Any]:
    """Return a ClusterQueue that may admit so many *gpus*."""
    resources = [{"name": "cpu", "nominalQuota": "64"}, {"name": "nvidia.com/gpu", "nominalQuota": gpus}]
    groups = [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [{"name": flavor, "resources": resources}]}]
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": {"resourceGroups": groups}}
