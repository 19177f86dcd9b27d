"""What owns a pod, followed up to the object that a person would scale, and scaled to zero.

Promises never to touch what something else would start again, what would take its data with it, or a pod that does
not consent (any more): everything is read anew right before the change.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from receiver.adapters.kubernetes.api import (
    DEPLOYMENT,
    JOB,
    NOT_FOUND,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    ClusterWire,
    KubernetesApi,
    entries,
    section,
)
from receiver.adapters.kubernetes.nodes import named, words
from receiver.adapters.kubernetes.pods import pod_from
from receiver.core.model.pods import Pod
from receiver.ports import Did, Receipt, WontWork

WORKS = "this works for Deployments, StatefulSets, ReplicaSets and Jobs that nothing else controls"
LONGEST_CHAIN = 4  # Kubernetes checks no ownerReference: two objects may own each other
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
STARTS_ONLY = ("batch", "CronJob")  # it makes new Jobs and never touches an old one


@dataclass(frozen=True, slots=True)
class _Calls:
    """How to read and change one kind; *resource* is RBAC's word for what is changed."""

    plural: str
    read: Callable[..., Any]
    resource: str
    patch: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Reference:
    """A controller as an ownerReference names it; *group* is its API group."""

    group: str
    kind: str
    name: str
    uid: str


def _scalable(plural: str, path: str, api: KubernetesApi) -> _Calls:
    return _Calls(plural, api.reads(path), f"{plural}/scale", api.patches(f"{path}/scale"))


class Owners:
    """Scales owners of pods through *wire*."""

    def __init__(self, api: KubernetesApi, wire: ClusterWire) -> None:
        self._wire = wire
        self._api = api
        self._kinds: Mapping[tuple[str, str], _Calls] = {
            ("apps", "Deployment"): _scalable("deployments", DEPLOYMENT, api),
            ("apps", "StatefulSet"): _scalable("statefulsets", STATEFUL_SET, api),
            ("apps", "ReplicaSet"): _scalable("replicasets", REPLICA_SET, api),
            ("batch", "Job"): _Calls("jobs", api.reads(JOB), "jobs", api.patches(JOB)),
        }

    def scale_to_zero(self, pod: Pod) -> Receipt:
        """See `Cluster.scale_to_zero`. A pod that is gone, or whose annotations changed since: DIFFERS."""
        raw = self._read("pods", self._api.reads(POD), pod.name, pod.namespace)
        found = pod_from(raw) if raw is not None else None
        if raw is None or found is None or found.uid != pod.uid or found.terminating:
            return Receipt(did=Did.DIFFERS, sentence=f"pod {pod.key} is gone or going")
        wishes = (found.idle_shutdown, found.keep_until, found.protected)
        if found.idle_shutdown is None or wishes != (pod.idle_shutdown, pod.keep_until, pod.protected):
            return Receipt(did=Did.DIFFERS, sentence=f"the annotations of pod {pod.key} changed meanwhile")
        reference = _controller(raw)
        if reference is None:
            raise WontWork(f"nothing controls pod {pod.key}, so nothing can be scaled; {WORKS}", code="not_scalable")
        return self._scale(pod.namespace, reference)

    def _scale(self, namespace: str, reference: _Reference, steps: int = LONGEST_CHAIN) -> Receipt:
        """Follow the controllers up from *reference* and change the last one, at most so many *steps* away."""
        calls = self._kinds.get((reference.group, reference.kind))
        told = f"{named(reference.kind)} {namespace}/{named(reference.name)}"
        if calls is None:
            raise WontWork(f"{told} cannot be scaled to zero by us; {WORKS}", code="not_scalable")
        raw = self._read(calls.plural, calls.read, reference.name, namespace)
        if raw is None or section(raw, "metadata").get("uid") != reference.uid:
            return Receipt(did=Did.DIFFERS, sentence=f"{told} is gone, or another one has its name")
        above = _controller(raw)
        if above is not None and (above.group, above.kind) != STARTS_ONLY:
            if (above.group, above.kind) not in self._kinds:
                raise WontWork(
                    f"{told} belongs to {named(above.kind)} {named(above.name)}, which would start it again; {WORKS}",
                    code="not_scalable",
                )
            if not steps:
                raise WontWork(f"{told} is owned in circles; {WORKS}", code="not_scalable")
            return self._scale(namespace, above, steps - 1)
        if reference.kind == "Job":
            return self._suspend(calls, raw, told)
        return self._to_zero(calls, raw, told)

    def _to_zero(self, calls: _Calls, raw: Mapping[str, Any], told: str) -> Receipt:
        spec = section(raw, "spec")
        if section(spec, "persistentVolumeClaimRetentionPolicy").get("whenScaled") == "Delete":
            raise WontWork(f"{told} would delete its volumes with its pods (whenScaled: Delete)", code="keeps_data")
        replicas = spec.get("replicas", 1)  # absent means one
        if replicas == 0:
            return Receipt(did=Did.ALREADY, sentence=f"{told} is at zero replicas already")
        self._patch(calls, raw, {"replicas": 0})
        return Receipt(did=Did.DONE, sentence=f"scaled {told} from {replicas} to 0 replicas")

    def _suspend(self, calls: _Calls, raw: Mapping[str, Any], told: str) -> Receipt:
        if QUEUE_LABEL in words(section(raw, "metadata"), "labels"):
            raise WontWork(f"{told} belongs to a queue of Kueue, which would resume it", code="not_scalable")
        if section(raw, "spec").get("suspend") is True:
            return Receipt(did=Did.ALREADY, sentence=f"{told} is suspended already")
        conditions = entries(section(raw, "status"), "conditions")
        if any(c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in conditions):
            return Receipt(did=Did.ALREADY, sentence=f"{told} is finished")
        self._patch(calls, raw, {"suspend": True})
        return Receipt(did=Did.DONE, sentence=f"suspended {told}")

    def _read(self, plural: str, call: Callable[..., Any], name: str, namespace: str) -> Mapping[str, Any] | None:
        try:
            return self._wire.ask("get", plural, call, namespace, name)
        except WontWork as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def _patch(self, calls: _Calls, raw: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        """Change an object as it was read: its resourceVersion makes a change in between a conflict."""
        metadata = section(raw, "metadata")
        body: dict[str, Any] = {"spec": dict(spec)}
        if metadata.get("resourceVersion"):
            body["metadata"] = {"resourceVersion": str(metadata["resourceVersion"])}
        name, namespace = str(metadata.get("name")), str(metadata.get("namespace"))
        self._wire.ask("patch", calls.resource, calls.patch, namespace, name, body)


def _controller(raw: Mapping[str, Any]) -> _Reference | None:
    """Return what controls the object in *raw*, or None."""
    for reference in entries(section(raw, "metadata"), "ownerReferences"):
        if reference.get("controller") is True:
            return _Reference(
                group=str(reference.get("apiVersion") or "").rpartition("/")[0],
                kind=str(reference.get("kind") or ""),
                name=str(reference.get("name") or ""),
                uid=str(reference.get("uid") or ""),
            )
    return None
