"""The queues of k8s/workloads hold what the pools may grow to, and the receiver reads what waits in them as demand."""

from decimal import Decimal
from typing import Any

from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.nodes import gpus
from receiver.config import load_text
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Pool
from receiver.core.scaling.demand import misfit
from tests.adapters.kubernetes.custom_objects import (
    KUEUE,
    PRIORITY_CLASSES,
    VOLCANO_GROUPS,
    VOLCANO_JOBS,
    VOLCANO_QUEUES,
    a_group,
    a_workload,
    owned_by_vcjob,
)
from tests.adapters.kubernetes.served_cluster import served_cluster
from tests.workloads.files import CONFIGURATION, CREATED, Object, of_kind

JSON = dict[str, Any]
SETTINGS = load_text(CONFIGURATION.read_text(encoding="utf-8"))
GPU = "nvidia.com/gpu"
CLUSTER_QUEUES = [o.body for o in of_kind("ClusterQueue")]
[VOLCANO_QUEUE] = [o.body for o in of_kind("Queue")]
L40S_CPUS, L40S_GB = 12, 96  # of an.g1.l40s.kube.x1


def pool(name: str) -> Pool:
    """Return the pool of the example configuration."""
    return next(p for p in SETTINGS.policy.pools if p.name == name)


def named(kind: str, name: str) -> Object:
    """Return the one object of *kind* called *name*."""
    [found] = [o for o in of_kind(kind) if o.body["metadata"]["name"] == name]
    return found


def quotas(queue: JSON, resource: str) -> dict[str, Decimal]:
    """Return *queue*'s nominal quota of *resource* by flavor."""
    return {
        flavor["name"]: Decimal(str(quota["nominalQuota"]).removesuffix("Gi"))
        for group in queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for quota in flavor["resources"]
        if quota["name"] == resource
    }


def test_every_flavor_is_a_pool_and_its_labels_are_on_the_pools_first_node() -> None:
    flavors = of_kind("ResourceFlavor")
    for flavor in flavors:
        matched = pool(flavor.body["metadata"]["name"])
        wanted = flavor.body["spec"]["nodeLabels"]
        assert {key: matched.offered_labels.get(key) for key in wanted} == wanted
        assert wanted["kubernetes.civo.com/civo-node-pool"] == matched.id  # not another pool with the same label
    assert flavors


def test_the_quota_of_all_queues_is_what_the_pool_may_grow_to() -> None:
    for flavor in of_kind("ResourceFlavor"):
        name = flavor.body["metadata"]["name"]
        given = sum(quotas(queue, GPU).get(name, Decimal(0)) for queue in CLUSTER_QUEUES)
        assert given == pool(name).max_nodes * pool(name).resources[GPU]


def test_cpu_and_memory_never_keep_a_gpu_from_its_quota() -> None:
    for queue in CLUSTER_QUEUES:
        count = quotas(queue, GPU)["l40s"]
        assert quotas(queue, "cpu")["l40s"] == count * L40S_CPUS
        assert quotas(queue, "memory")["l40s"] == count * L40S_GB


def test_queues_lead_to_each_other_and_to_the_cohort() -> None:
    names = {queue["metadata"]["name"] for queue in CLUSTER_QUEUES}
    flavors = {o.body["metadata"]["name"] for o in of_kind("ResourceFlavor")}
    [cohort] = of_kind("Cohort")
    assert {o.body["spec"]["clusterQueue"] for o in of_kind("LocalQueue")} == names
    assert {queue["spec"]["cohortName"] for queue in CLUSTER_QUEUES} == {cohort.body["metadata"]["name"]}
    assert {name for queue in CLUSTER_QUEUES for name in quotas(queue, GPU)} <= flavors


def test_the_hold_of_the_example_closes_every_queue_and_namespace_of_a_team() -> None:
    budget = SETTINGS.configuration.budget
    assert budget is not None
    assert set(budget.hold.kueue_cluster_queues) == {queue["metadata"]["name"] for queue in CLUSTER_QUEUES}
    assert set(budget.hold.namespaces) == {o.body["metadata"]["namespace"] for o in of_kind("LocalQueue")}


def test_the_job_of_a_queue_names_a_local_queue_of_its_namespace_as_a_label() -> None:
    job = named("Job", "embed").body
    queue = job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    local = [o.body["metadata"] for o in of_kind("LocalQueue")]
    assert (queue, job["metadata"]["namespace"]) in {(m["name"], m["namespace"]) for m in local}


def test_a_job_that_waits_for_quota_is_counted_as_demand_of_its_pool_where_queues_are_read(
    httpserver: HTTPServer,
) -> None:
    job = named("Job", "embed").body
    pod_set = {"name": "main", "count": job["spec"]["parallelism"], "template": job["spec"]["template"]}
    with served_cluster(httpserver, served={KUEUE: [a_workload("embed", pod_set)]}, kueue_queued=True) as cluster:
        waiting = [p for p in cluster.look().pods if not p.uid]
    assert [p.gpus for p in waiting] == [1, 1]
    assert [misfit(p, pool("l40s")) for p in waiting] == [None, None]


def test_volcanos_queue_holds_what_the_pool_may_grow_to() -> None:
    capability = VOLCANO_QUEUE["spec"]["capability"]
    nodes = pool("l40s").max_nodes
    assert gpus(capability) == {GPU: nodes * pool("l40s").resources[GPU]}
    assert Decimal(capability["cpu"]) == nodes * L40S_CPUS
    assert capability["memory"] == f"{nodes * L40S_GB}Gi"


def _seen(httpserver: HTTPServer, group: JSON, jobs: list[JSON]) -> list[Pod]:
    classes = [o.body for o in of_kind("PriorityClass")]
    served = {VOLCANO_GROUPS: [group], VOLCANO_QUEUES: [VOLCANO_QUEUE], VOLCANO_JOBS: jobs, PRIORITY_CLASSES: classes}
    with served_cluster(httpserver, served=served, volcano_podgroups=True) as cluster:
        return list(cluster.look().pods)


def test_volcanos_job_waits_as_a_gang_that_fits_the_pool_before_it_has_a_pod(httpserver: HTTPServer) -> None:
    job = named("Job", "train-distributed").body
    spec = job["spec"]
    group = a_group("train-distributed-1", spec["minAvailable"], queue=spec["queue"])
    group["spec"]["priorityClassName"] = spec["priorityClassName"]
    group["metadata"].update(namespace="team-vision", ownerReferences=owned_by_vcjob("train-distributed"))
    waiting = _seen(httpserver, group, [job])
    assert [(p.gpus, p.gang, p.priority) for p in waiting] == [(1, "team-vision/train-distributed-1", 10000)] * 2
    assert [misfit(p, pool("l40s")) for p in waiting] == [None, None]


def test_the_pod_group_asks_for_what_its_pods_ask_for(httpserver: HTTPServer) -> None:
    group = named("PodGroup", "evaluate").body
    template = named("Job", "evaluate").body["spec"]["template"]
    [container] = template["spec"]["containers"]
    size, least = group["spec"]["minMember"], group["spec"]["minResources"]
    requests = container["resources"]["requests"]
    assert named("Job", "evaluate").body["spec"]["parallelism"] == size
    assert Decimal(least["cpu"]) == size * Decimal(requests["cpu"])
    assert least["memory"] == f"{size * int(requests['memory'].removesuffix('Gi'))}Gi"
    pending = {**group, "metadata": {**group["metadata"], "uid": "u", "creationTimestamp": CREATED}, "status": {}}
    assert [p.gpus for p in _seen(httpserver, pending, [])] == [1] * size
