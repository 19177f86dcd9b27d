"""Nodes and pods of the world as the Kubernetes API shows them (core/v1), complete enough for the official client."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from receiver.core.model.pods import COMPUTE, CPU, GIB, MEMORY, Requirement
from receiver.replay.world.objects import CLAIMS, WorldNode, WorldPod
from simulator.dra.claims import extended_requests
from simulator.dra.devices import JSON, stamp, uid_of

__all__ = ["JSON", "stamp", "uid_of"]
OWNER_VERSIONS: Mapping[str, str] = {
    "Job": "batch/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "Node": "v1",
}
CONTAINER = "main"
ARGS_ANNOTATION = "simulator/args"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def shown(node: WorldNode) -> Mapping[str, int]:
    """Return the allocatable resources in the node's status: without those that a DRA driver serves."""
    return {r: n for r, n in node.allocatable.items() if r in COMPUTE} if node.dra else node.allocatable


def micro_stamp(moment: datetime) -> str:
    """Return a MicroTime as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def address_of(name: str, network: str) -> str:
    """Return an IPv4 address in *network* (two octets) that is always the same for *name*."""
    digest = hashlib.sha256(name.encode()).digest()
    return f"{network}.{digest[0]}.{max(1, digest[1] % 255)}"


def node_json(node: WorldNode, *, kubelet: str = "v1.32.5+k3s1") -> JSON:
    """Return a Node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": node.uid,
            "resourceVersion": str(node.version),
            "creationTimestamp": stamp(node.created_at),
            **_given(labels=node.labels, annotations=node.annotations),
        },
        "spec": {
            "podCIDR": "10.42.0.0/24",
            "providerID": node.provider_id,
            **({"unschedulable": True} if node.unschedulable else {}),
            **({"taints": [taint_json(t) for t in node.taints]} if node.taints else {}),
        },
        "status": {
            "capacity": _quantities(_capacity(node)),
            "allocatable": _quantities(shown(node)),
            "conditions": _node_conditions(node),
            "addresses": [
                {"type": "InternalIP", "address": address_of(node.name, "192.168")},
                {"type": "Hostname", "address": node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _node_info(node, kubelet),
            "images": [],
        },
    }


def _capacity(node: WorldNode) -> Mapping[str, int]:
    found = shown(node)
    gpus = {r: n + node.unhealthy for r, n in node.gpus.items() if r in found}
    return {**found, **gpus, MEMORY: found.get(MEMORY, 0) + 2 * GIB}


def _given(**maps: Mapping[str, str]) -> JSON:
    """Return *maps* without the empty ones: Go leaves those out, and clients see None."""
    return {name: dict(values) for name, values in maps.items() if values}


def taint_json(taint: Any) -> JSON:
    """Return a taint; an empty value is left out, as Go does."""
    return {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}


def _quantities(resources: Mapping[str, int]) -> JSON:
    return {resource: _quantity(resource, amount) for resource, amount in resources.items()}


def _quantity(resource: str, amount: int) -> str:
    """Return *amount* as Kubernetes writes it: millicores, KiB of memory where it is a round number."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return f"{amount // 1024}Ki" if resource == MEMORY and amount % 1024 == 0 else str(amount)


def _node_info(node: WorldNode, kubelet: str) -> JSON:
    return {
        "architecture": "amd64",
        "bootID": uid_of(node.uid, "boot"),
        "containerRuntimeVersion": "containerd://2.0.5-k3s1.32",
        "kernelVersion": "6.8.0-60-generic",
        "kubeProxyVersion": kubelet,
        "kubeletVersion": kubelet,
        "machineID": node.uid.replace("-", ""),
        "operatingSystem": "linux",
        "osImage": "Ubuntu 24.04.2 LTS",
        "systemUUID": node.instance,
    }


def _node_conditions(node: WorldNode) -> list[JSON]:
    since = stamp(node.ready_since or node.created_at)
    healthy = [
        _condition(kind, "False", since, f"KubeletHas{word}", "kubelet is fine")
        for kind, word in (
            ("MemoryPressure", "SufficientMemory"),
            ("DiskPressure", "NoDiskPressure"),
            ("PIDPressure", "SufficientPID"),
        )
    ]
    healthy += [_condition(kind, status, since) for kind, status in node.conditions.items()]
    if node.ready:
        return [*healthy, _condition("Ready", "True", since, "KubeletReady", "kubelet is posting ready status")]
    return [*healthy, _condition("Ready", "False", since, "KubeletNotReady", "container runtime network not ready")]


def _condition(kind: str, status: str, since: str, reason: str = "", message: str = "") -> JSON:
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
    }


def pod_json(pod: WorldPod) -> JSON:
    """Return a Pod. Its devices are asked for by one container, which a world's pod has no more of."""
    deleting: JSON = {}
    if pod.deletion_at is not None:
        deleting = {"deletionTimestamp": stamp(pod.deletion_at), "deletionGracePeriodSeconds": 30}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "resourceVersion": str(pod.version),
            "creationTimestamp": stamp(pod.created_at),
            **_given(labels=pod.labels, annotations=_annotations(pod)),
            **deleting,
            **({"ownerReferences": [_owner(pod)]} if pod.owner_kind else {}),
        },
        "spec": _pod_spec(pod),
        "status": _pod_status(pod),
    }


def _annotations(pod: WorldPod) -> Mapping[str, str]:
    """Return the pod's annotations; a mirror pod, which its Node owns, is known by one."""
    return {MIRROR_ANNOTATION: pod.uid, **pod.annotations} if pod.owner_kind == "Node" else pod.annotations


def _owner(pod: WorldPod) -> JSON:
    return {
        "apiVersion": OWNER_VERSIONS.get(pod.owner_kind, "v1"),
        "kind": pod.owner_kind,
        "name": pod.owner_name,
        "uid": uid_of(pod.namespace, pod.owner_kind, pod.owner_name),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod_spec(pod: WorldPod) -> JSON:
    devices = _quantities({r: n for r, n in pod.requests.items() if r != CLAIMS})
    claims = [claim.name for claim in pod.claims] or [f"gpu-{n}" for n in range(pod.requests.get(CLAIMS, 0))]
    compute = _quantities(pod.compute)
    resources: JSON = {
        **({"requests": {**compute, **devices}} if compute or devices else {}),
        **({"limits": devices} if devices else {}),
        **({"claims": [{"name": name} for name in claims]} if claims else {}),
    }
    spec: JSON = {
        "containers": [
            {
                "name": CONTAINER,
                "image": pod.image,
                **({"args": pod.annotations[ARGS_ANNOTATION].split()} if ARGS_ANNOTATION in pod.annotations else {}),
                "imagePullPolicy": "IfNotPresent",
                "resources": resources,
            }
        ],
        "restartPolicy": "Never" if pod.owner_kind == "Job" else "Always",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "priority": pod.priority,
        **({"priorityClassName": pod.priority_class} if pod.priority_class else {}),
        **({"tolerations": [_toleration(t) for t in pod.tolerations]} if pod.tolerations else {}),
    }
    if pod.claims:
        spec["resourceClaims"] = [
            {
                "name": c.name,
                **({"resourceClaimName": c.claim} if c.claim else {"resourceClaimTemplateName": c.template}),
            }
            for c in pod.claims
        ]
    elif claims:
        spec["resourceClaims"] = [{"name": name, "resourceClaimTemplateName": "gpu"} for name in claims]
    if pod.node_selector:
        spec["nodeSelector"] = dict(pod.node_selector)
    if affinity := _node_affinity(pod):
        spec["affinity"] = {"nodeAffinity": affinity}
    if pod.group:
        workload, _, group = pod.group.partition("/")
        named = {"name": workload, "podGroup": group} if group else {"podGroupName": workload}
        spec["workloadRef" if group else "schedulingGroup"] = named
    if pod.gate:
        spec["schedulingGates"] = [{"name": pod.gate}]
    if pod.node is not None:
        spec["nodeName"] = pod.node
    return spec


def _node_affinity(pod: WorldPod) -> JSON:
    affinity: JSON = {}
    if pod.affinity:
        terms = [_term(term) for term in pod.affinity]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if pod.preferred:
        preferred = [{"weight": p.weight, "preference": _term(p.term)} for p in pod.preferred]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return affinity


def _term(term: Sequence[Requirement]) -> JSON:
    return {"matchExpressions": [_requirement(r) for r in term]}


def _requirement(requirement: Any) -> JSON:
    values = {"values": list(requirement.values)} if requirement.values else {}
    return {"key": requirement.key, "operator": requirement.operator, **values}


def _toleration(toleration: Any) -> JSON:
    found = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {k: v for k, v in found.items() if v}


def _pod_status(pod: WorldPod) -> JSON:
    status: JSON = {"phase": pod.phase, "qosClass": "Burstable"}
    if conditions := _pod_conditions(pod):
        status["conditions"] = conditions
    if pod.nominated:
        status["nominatedNodeName"] = pod.nominated
    if pod.claim_names:
        named = sorted(pod.claim_names.items())
        status["resourceClaimStatuses"] = [{"name": name, "resourceClaimName": claim} for name, claim in named]
    if pod.special_claim:
        mapped = [
            {"containerName": CONTAINER, "resourceName": resource, "requestName": name}
            for resource, name in extended_requests(pod).items()
        ]
        given = {"resourceClaimName": pod.special_claim, "requestMappings": mapped}
        status["extendedResourceClaimStatus"] = given
    if pod.node is not None:
        status["hostIP"] = address_of(pod.node, "192.168")
        status["containerStatuses"] = [_container_status(pod)]
    if pod.started_at is not None:
        status["startTime"] = stamp(pod.started_at)
        status["podIP"] = address_of(pod.uid, "10.42")
        status["podIPs"] = [{"ip": status["podIP"]}]
    return status


def _pod_conditions(pod: WorldPod) -> list[JSON]:
    if pod.scheduled is None or pod.scheduled_since is None:
        return []  # the scheduler has not tried it: there is no condition at all
    since = stamp(pod.scheduled_since)
    if not pod.scheduled:
        return [_condition("PodScheduled", "False", since, pod.reason, pod.message)]
    running = "True" if pod.phase == "Running" else "False"
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(pod.phase, "ContainersNotReady")
    reason = "" if running == "True" else why
    changed = stamp(pod.finished_at or pod.started_at or pod.scheduled_since)
    return [
        _condition("Initialized", "True", since),
        _condition("Ready", running, changed, reason),
        _condition("ContainersReady", running, changed, reason),
        _condition("PodScheduled", "True", since),
    ]


def _container_status(pod: WorldPod) -> JSON:
    state: JSON = {"waiting": {"reason": "ContainerCreating"}}
    if pod.finished_at is not None and pod.started_at is not None:
        times = {"startedAt": stamp(pod.started_at), "finishedAt": stamp(pod.finished_at)}
        exit_code = 0 if pod.phase == "Succeeded" else 1
        state = {"terminated": {"exitCode": exit_code, "reason": "Completed", **times}}
    elif pod.started_at is not None:
        state = {"running": {"startedAt": stamp(pod.started_at)}}
    running = "running" in state
    return {
        "name": CONTAINER,
        "image": "example/workload:1",
        "imageID": "",
        "ready": running,
        "started": running,
        "restartCount": 0,
        "state": state,
    }


def list_json(kind: str, api: str, items: Sequence[JSON], version: int, more: str | None = None) -> JSON:
    """Return a list object (``PodList`` for *kind* Pod); *more* is its continue token."""
    metadata: JSON = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    bare = [{k: v for k, v in item.items() if k not in ("apiVersion", "kind")} for item in items]
    return {"apiVersion": api, "kind": f"{kind}List", "metadata": metadata, "items": bare}


def status_json(code: int, reason: str, message: str, **details: Any) -> JSON:
    """Return a Status: how the API server says no (and, for deletions, yes)."""
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Success" if code < 300 else "Failure",
        **({"message": message} if message else {}),
        **({"reason": reason} if reason else {}),
        **({"details": details} if details else {}),
        "code": code,
    }
