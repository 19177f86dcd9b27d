"""The metrics of kube-state-metrics 2.20 for the world's nodes and pods, with its names, labels and 0/1 values."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from receiver.core.model.pods import CPU, MEMORY, MIB, STORAGE
from receiver.replay.world.objects import WorldNode, WorldPod
from simulator.config import MetricsFace
from simulator.exposition import Family, label_name, sanitized
from simulator.kubernetes_objects import CONTAINER, address_of, shown
from simulator.kubernetes_owners import deployment_of
from simulator.world import World

PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
STATUSES = ("true", "false", "unknown")


def kube_state_metrics(world: World, face: MetricsFace, kubelet: str, since: datetime) -> list[Family]:
    """Return every family, nodes first. *since* is when the cluster and its namespaces were created."""
    nodes = [world.nodes[n] for n in sorted(world.nodes)]
    pods = [world.pods[k] for k in sorted(world.pods)]
    return [
        *_node_families(nodes, face, kubelet),
        *_pod_facts(pods, face),
        *_pod_requests(pods),
        *_pod_states(pods),
        _replicasets(pods),
        _namespaces(pods, since),
    ]


def _node_families(nodes: Sequence[WorldNode], face: MetricsFace, kubelet: str) -> Iterable[Family]:
    info = Family("kube_node_info", "Information about a cluster node.")
    labels = Family("kube_node_labels", "Kubernetes labels converted to Prometheus labels.")
    created = Family("kube_node_created", "Unix creation timestamp")
    cordoned = Family("kube_node_spec_unschedulable", "Whether a node can schedule new pods.")
    taints = Family("kube_node_spec_taint", "The taint of a cluster node.")
    conditions = Family("kube_node_status_condition", "The condition of a cluster node.")
    capacity = Family("kube_node_status_capacity", "The total amount of resources available for a node.")
    allocatable = Family(
        "kube_node_status_allocatable", "The amount of resources allocatable for pods (after reserving some)."
    )
    for node in nodes:
        info.add(
            1,
            node=node.name,
            kernel_version="6.8.0-60-generic",
            os_image="Ubuntu 24.04.2 LTS",
            container_runtime_version="containerd://2.0.5-k3s1.32",
            kubelet_version=kubelet,
            kubeproxy_version="deprecated",
            provider_id=node.provider_id,
            pod_cidr="10.42.0.0/24",
            system_uuid=node.instance,
            internal_ip=address_of(node.name, "192.168"),
        )
        created.add(node.created_at.timestamp(), node=node.name)
        cordoned.add(int(node.unschedulable), node=node.name)
        if face.node_labels:  # with an empty allowlist the metric is not exported at all
            labels.put({"node": node.name, **_allowed("label", node.labels, face.node_labels)}, 1)
        for taint in node.taints:
            taints.add(1, node=node.name, key=taint.key, value=taint.value, effect=taint.effect)
        ready = "true" if node.ready else "false"
        for condition, holds in (("Ready", ready), ("MemoryPressure", "false"), ("DiskPressure", "false")):
            for status in STATUSES:
                conditions.add(int(status == holds), node=node.name, condition=condition, status=status)
        for resource, unit, amount in _amounts(shown(node)):
            allocatable.add(amount, node=node.name, resource=resource, unit=unit)
            spare = 2048 * MIB if resource == "memory" else 0
            capacity.add(amount + spare, node=node.name, resource=resource, unit=unit)
    return info, labels, created, cordoned, taints, conditions, capacity, allocatable


def _amounts(resources: Mapping[str, int]) -> Iterable[tuple[str, str, float]]:
    for resource, amount in resources.items():
        if resource == CPU:
            yield "cpu", "core", amount / 1000
        else:
            yield sanitized(resource), "byte" if resource in (MEMORY, STORAGE) else "integer", amount


def _allowed(prefix: str, labels: Mapping[str, str], allowlist: Sequence[str]) -> Mapping[str, str]:
    shown = {k: v for k, v in labels.items() if k in allowlist or "*" in allowlist}
    return {label_name(prefix, k): v for k, v in sorted(shown.items())}


def _of(pod: WorldPod) -> Mapping[str, str]:
    return {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}


def _pod_facts(pods: Sequence[WorldPod], face: MetricsFace) -> Iterable[Family]:
    info = Family("kube_pod_info", "Information about pod.")
    owner = Family("kube_pod_owner", "Information about the Pod's owner.")
    labels = Family("kube_pod_labels", "Kubernetes labels converted to Prometheus labels.")
    selectors = Family("kube_pod_nodeselectors", "Describes the Pod nodeSelectors.")
    tolerations = Family("kube_pod_tolerations", "Information about the pod tolerations")
    created = Family("kube_pod_created", "Unix creation timestamp")
    deletion = Family("kube_pod_deletion_timestamp", "Unix deletion timestamp")
    started = Family("kube_pod_start_time", "Start time in unix timestamp for a pod.")
    completed = Family("kube_pod_completion_time", "Completion time in unix timestamp for a pod.")
    for pod in pods:
        of, node = _of(pod), pod.node or ""
        info.put(
            {
                **of,
                "host_ip": address_of(node, "192.168") if node else "",
                "pod_ip": address_of(pod.uid, "10.42") if pod.started_at else "",
                "node": node,
                "created_by_kind": pod.owner_kind,
                "created_by_name": pod.owner_name,
                "priority_class": pod.priority_class,
                "host_network": "false",
            },
            1,
        )
        controls = "true" if pod.owner_kind else ""
        owner.put(
            {**of, "owner_kind": pod.owner_kind, "owner_name": pod.owner_name, "owner_is_controller": controls}, 1
        )
        if face.pod_labels:
            labels.put({**of, **_allowed("label", pod.labels, face.pod_labels)}, 1)
        if face.nodeselectors:  # of every pod, as kube-state-metrics does: without a selector it has no label of one
            selectors.put({**of, **_allowed("nodeselector", pod.node_selector, ("*",))}, 1)
        for t in pod.tolerations:
            given = {"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect}
            tolerations.put({**of, **given, "toleration_seconds": ""}, 1)
        created.put(of, pod.created_at.timestamp())
        if pod.deletion_at is not None:
            deletion.put(of, pod.deletion_at.timestamp())
        if pod.started_at is not None:
            started.put(of, pod.started_at.timestamp())
        if pod.finished_at is not None:
            completed.put(of, pod.finished_at.timestamp())
    return info, owner, labels, selectors, tolerations, created, deletion, started, completed


def _replicasets(pods: Sequence[WorldPod]) -> Family:
    """The owners of the ReplicaSets that have pods; the world has no others."""
    owners = Family("kube_replicaset_owner", "Information about the ReplicaSet's owner.")
    sets = {(p.namespace, p.owner_name): deployment_of(p) or "" for p in pods if p.owner_kind == "ReplicaSet"}
    for (namespace, name), above in sets.items():
        kind, controls = ("Deployment", "true") if above else ("", "")
        labels = {"owner_kind": kind, "owner_name": above, "owner_is_controller": controls}
        owners.put({"namespace": namespace, "replicaset": name, **labels}, 1)
    return owners


def _namespaces(pods: Sequence[WorldPod], since: datetime) -> Family:
    created = Family("kube_namespace_created", "Unix creation timestamp")
    for name in sorted({"default", "kube-system"} | {pod.namespace for pod in pods}):
        created.add(since.timestamp(), namespace=name)
    return created


def _pod_requests(pods: Sequence[WorldPod]) -> Iterable[Family]:
    requests = Family(
        "kube_pod_container_resource_requests", "The number of requested request resource by a container."
    )
    limits = Family("kube_pod_container_resource_limits", "The number of requested limit resource by a container.")
    for pod in pods:
        at = {**_of(pod), "container": CONTAINER, "node": pod.node or ""}
        for resource, unit, amount in _amounts(pod.compute):
            requests.put({**at, "resource": resource, "unit": unit}, amount)
        for resource, unit, amount in _amounts(pod.requests):  # of finished pods too, as long as they are listed
            requests.put({**at, "resource": resource, "unit": unit}, amount)
            limits.put({**at, "resource": resource, "unit": unit}, amount)
    return requests, limits


def _pod_states(pods: Sequence[WorldPod]) -> Iterable[Family]:
    phases = Family("kube_pod_status_phase", "The pods current phase.")
    ready = Family("kube_pod_status_ready", "Describes whether the pod is ready to serve requests.")
    scheduled = Family("kube_pod_status_scheduled", "Describes the status of the scheduling process for the pod.")
    scheduled_time = Family("kube_pod_status_scheduled_time", "Unix timestamp when pod moved into scheduled status")
    unscheduled_time = Family(
        "kube_pod_status_unscheduled_time", "Unix timestamp when pod moved into unscheduled status"
    )
    unschedulable = Family("kube_pod_status_unschedulable", "Describes the unschedulable status for the pod.")
    reasons = Family("kube_pod_status_reason", "The pod status reasons")
    for pod in pods:
        of = _of(pod)
        for phase in PHASES:
            phases.put({**of, "phase": phase}, int(phase == pod.phase))
        if pod.scheduled is None:
            continue  # the scheduler has not tried it: no PodScheduled condition, so none of the rest
        for status in STATUSES:
            scheduled.put({**of, "condition": status}, int(status == str(pod.scheduled).lower()))
        since = pod.scheduled_since.timestamp() if pod.scheduled_since else 0.0
        if pod.scheduled:
            scheduled_time.put(of, since)
            for status in STATUSES:
                holds = "true" if pod.phase == "Running" else "false"
                ready.put({**of, "condition": status}, int(status == holds))
        else:
            unscheduled_time.put(of, since)
            unschedulable.put(of, 1)  # for gated pods too: only the reason below tells them apart
        if pod.reason == "SchedulingGated":
            reasons.put({**of, "reason": "SchedulingGated"}, 1)
    return phases, ready, scheduled, scheduled_time, unscheduled_time, unschedulable, reasons
