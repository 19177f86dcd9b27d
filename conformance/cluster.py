"""What the scenarios do in a cluster, all of it in one namespace and on nodes that carry their label."""

import time
from collections.abc import Mapping
from typing import Any

from conformance.kubernetes_api import JSON, Api, ApiRefused, gone_is_fine, part
from conformance.plan import GPU, MARK, MARKED, NAMESPACE, POOL_LABEL, TOLERATION

CORE = f"/api/v1/namespaces/{NAMESPACE}"
PODS = f"{CORE}/pods"
NODES = "/api/v1/nodes"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
CLAIM_TEMPLATES = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
OWN_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"  # of the product of each scenario
SLICES, CLASSES = "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/deviceclasses"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ENDS_WITHIN = 60.0  # seconds
# Where a pod asks for no GPU, it must not land on the cluster's own nodes.
ON_OUR_NODES = {"nodeSelector": {MARK: "true"}, "tolerations": [TOLERATION]}


class NotOursError(Exception):
    """A namespace or node that no run of the scenarios has created; nothing is done to it."""


class Cluster:
    """The cluster behind *api*; *pool* is the value of its nodes' pool label. Calls raise ApiRefused and HTTPError."""

    def __init__(self, api: Api, pool: str) -> None:
        self.api, self._pool = api, pool

    # --- the namespace ---

    def begin(self) -> None:
        """Create the namespace, and wait until pods may be created there. Raises NotOursError."""
        metadata = {"name": NAMESPACE, "labels": {MARK: "true"}}
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        try:
            self.api.post("/api/v1/namespaces", made)
        except ApiRefused as refused:
            if refused.status != 409:
                raise
            self._own_namespace()
            self.clear()

    def _own_namespace(self) -> None:
        found = self.api.get(f"/api/v1/namespaces/{NAMESPACE}")
        if (found["metadata"].get("labels") or {}).get(MARK) != "true":
            raise NotOursError(f"the namespace {NAMESPACE} was not created by this program: it lacks the label {MARK}")

    def clear(self) -> None:
        """Delete what the scenarios create in the namespace, and wait until the pods are gone. Raises NotOursError."""
        self._own_namespace()
        for path in (JOBS, DEPLOYMENTS, BUDGETS, CLAIM_TEMPLATES, OWN_LEASES):
            for one in self._all(path):
                self.api.delete(f"{path}/{one['metadata']['name']}")
        deadline = time.monotonic() + ENDS_WITHIN
        while pods := self.pods():
            if time.monotonic() > deadline:
                raise TimeoutError(f"pods that do not go: {sorted(pods)}")
            for name in pods:
                self.api.delete(f"{PODS}/{name}", at_once=True)
            time.sleep(0.2)

    def end(self) -> None:
        """Delete the namespace, and nodes and leases that a run left behind; wait until the namespace is gone."""
        for path in (NODES, LEASES, SLICES, CLASSES):
            for one in self._all(path, labelSelector=MARKED):
                self.api.delete(f"{path}/{one['metadata']['name']}")
        deadline = time.monotonic() + ENDS_WITHIN
        if not gone_is_fine(self.clear):
            return
        while self.api.delete(f"/api/v1/namespaces/{NAMESPACE}"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the namespace {NAMESPACE} does not go")
            time.sleep(0.5)

    def _all(self, path: str, **selected: str) -> list[JSON]:
        try:
            return self.api.items(path, **selected)
        except ApiRefused as refused:
            if refused.status not in (403, 404):  # not served, or no right: there is nothing of ours
                raise
            return []

    # --- work ---

    def pod(self, name: str, gpus: int = 1, **changes: Any) -> None:
        """Create a pod without a controller; *changes* are those of `template`. Raises ApiRefused."""
        self._create(PODS, {**_template(gpus, **changes), "apiVersion": "v1", "kind": "Pod"}, name)

    def job(self, name: str, pods: int = 1, **changes: Any) -> None:
        """Create a Job whose pods all run at once."""
        template = _template(1, **changes)
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": pods, "completions": pods, "backoffLimit": 6, "template": template}
        self._create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}, name)

    def deployment(self, name: str, replicas: int = 1, gpus: int = 1, **changes: Any) -> None:
        """Create a Deployment whose pods have the label ``app``."""
        template = _template(gpus, labels={"app": name}, **changes)
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        self._create(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}, name)

    def disruption_budget(self, name: str, app: str) -> None:
        """Create a PodDisruptionBudget that lets no pod of *app* go while there is one."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        self._create(BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}, name)

    def claim_template(self, name: str) -> None:
        """Create a ResourceClaimTemplate of one GPU. Raises ApiRefused (404) where the cluster does not serve it."""
        exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
        spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": spec}
        self._create(CLAIM_TEMPLATES, made, name)

    def claiming_pod(self, name: str, template: str) -> None:
        """Create a pod that claims what *template* says."""
        claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
        pod = _template(0, resourceClaims=claims)
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        self._create(PODS, {**pod, "apiVersion": "v1", "kind": "Pod"}, name)

    def _create(self, path: str, made: JSON, name: str) -> None:
        given = made.get("metadata") or {}
        labels = {**given.get("labels", {}), MARK: "true"}
        made["metadata"] = {**given, "name": name, "namespace": NAMESPACE, "labels": labels}
        deadline = time.monotonic() + 10
        while True:
            try:
                self.api.post(path, made)
            except ApiRefused as refused:  # a new namespace has its service account a moment later
                if "service account" not in str(refused) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def delete_pod(self, name: str) -> None:
        """Delete a pod, as a person does."""
        self.api.delete(f"{PODS}/{name}")

    def delete_budget(self, name: str) -> None:
        """Delete a PodDisruptionBudget."""
        self.api.delete(f"{BUDGETS}/{name}")

    def pods(self) -> dict[str, JSON]:
        """Return the namespace's pods by name."""
        return {p["metadata"]["name"]: p for p in self.api.items(PODS)}

    def running(self) -> list[str]:
        """Return the names of the pods that run and were not asked to go."""
        return sorted(
            name
            for name, pod in self.pods().items()
            if part(pod, "status").get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        )

    def unschedulable(self) -> list[str]:
        """Return the names of the pods that the scheduler found no room for."""
        return sorted(
            name
            for name, pod in self.pods().items()
            for condition in part(pod, "status").get("conditions") or ()
            if condition.get("reason") == "Unschedulable" and condition.get("status") == "False"
        )

    # --- nodes ---

    def nodes(self) -> dict[str, JSON]:
        """Return the pool's nodes by name."""
        found = self.api.items(NODES, labelSelector=f"{POOL_LABEL}={self._pool}")
        return {n["metadata"]["name"]: n for n in found}

    def usable(self) -> list[str]:
        """Return the names of the pool's nodes whose GPUs can be allocated."""
        return sorted(n for n, node in self.nodes().items() if _gpus_of(node))

    def cordoned(self) -> list[str]:
        """Return the names of the pool's nodes that are closed to new pods."""
        return sorted(n for n, node in self.nodes().items() if part(node, "spec").get("unschedulable"))

    def cordon(self, name: str) -> None:
        """Cordon one of the pool's nodes, as kubectl does. Raises NotOursError."""
        self._own_node(name)
        self.api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": True}}, "strategic")

    def delete_node(self, name: str) -> None:
        """Delete the Node object of one of the pool's nodes. Raises NotOursError."""
        self._own_node(name)
        self.api.delete(f"{NODES}/{name}")

    def _own_node(self, name: str) -> None:
        if name not in self.nodes():
            raise NotOursError(f"the node {name} is not of the pool {self._pool}")

    def gpu_pods_on(self, instance: str) -> list[str]:
        """Return namespace and name of the GPU pods that a node of *instance* still holds."""
        names = [n for n, node in self.nodes().items() if part(node, "spec").get("providerID") == f"civo://{instance}"]
        pods = [p for n in names for p in self.api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={n}")]
        return [
            f"{p['metadata']['namespace']}/{p['metadata']['name']}"
            for p in pods
            if part(p, "status").get("phase") not in ("Succeeded", "Failed")
            and not p["metadata"].get("deletionTimestamp")
            and _holds_a_gpu(p)
        ]


def _gpus_of(node: JSON) -> int:
    return int(part(part(node, "status"), "allocatable").get(GPU) or 0)


def _holds_a_gpu(pod: JSON) -> bool:
    limits = [(c.get("resources") or {}).get("limits") or {} for c in pod["spec"]["containers"]]
    return any(GPU in each for each in limits) or bool(pod["spec"].get("resourceClaims"))


def _template(
    gpus: int,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> JSON:
    """Return a pod template of one container with *gpus* GPUs; *spec* are further fields of the pod."""
    limits = {"limits": {GPU: str(gpus)}} if gpus else {}
    return {
        "metadata": {"labels": {**(labels or {}), MARK: "true"}, "annotations": dict(annotations or {})},
        "spec": {
            **ON_OUR_NODES,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": limits}],
            **spec,
        },
    }
