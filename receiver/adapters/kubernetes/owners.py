"""What owns a pod, followed up to the object that a person would scale, and scaled to zero.

Promises never to touch what something else would start again, what would take its data with it, or a pod that does
not consent (any more): everything is read anew right before the change.
"""

from collections.abc import Mapping
from typing import Any

from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.api import (
    ClusterPart,
    Json,
    condition,
    controller_of,
    section,
    text,
    versioned,
    words,
)
from receiver.adapters.kubernetes.nodes import named
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.core.model.pods import Pod
from receiver.ports import Did, Receipt, WontWork

WORKS = "this works for Deployments, StatefulSets, ReplicaSets and Jobs that nothing else controls"
LONGEST_CHAIN = 4  # Kubernetes checks no ownerReference: two objects may own each other
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
STARTS_ONLY = ("batch", "CronJob")  # it makes new Jobs and never touches an old one
SCALABLE = {  # plural and path by API group and kind
    ("apps", "Deployment"): ("deployments", api.DEPLOYMENT),
    ("apps", "StatefulSet"): ("statefulsets", api.STATEFUL_SET),
    ("apps", "ReplicaSet"): ("replicasets", api.REPLICA_SET),
    ("batch", "Job"): ("jobs", api.JOB),
}


class Owners(ClusterPart):
    """The part of `KubernetesCluster` that scales owners of pods."""

    def scale_to_zero(self, pod: Pod, *, covered: bool = False) -> Receipt:
        """See `Cluster.scale_to_zero`. A pod that is gone, or whose annotations changed since: DIFFERS."""
        raw = self._wire.find("pods", api.POD, pod.namespace, pod.name)
        current_pod = SeenPod(raw).pod if raw is not None else None
        if raw is None or current_pod is None or current_pod.uid != pod.uid or current_pod.terminating:
            return Receipt(did=Did.DIFFERS, sentence=f"pod {pod.key} is gone or going")
        if not current_pod.wishes.allow_zero(pod.wishes, covered=covered):
            return Receipt(did=Did.DIFFERS, sentence=f"the annotations of pod {pod.key} changed meanwhile")
        reference = controller_of(section(raw, "metadata"))
        if not reference:
            raise WontWork(f"nothing controls pod {pod.key}, so nothing can be scaled; {WORKS}", code="not_scalable")
        return self._scale(pod.namespace, reference)

    def _scale(self, namespace: str, reference: Json, steps: int = LONGEST_CHAIN) -> Receipt:
        """Follow the controllers up from *reference* and change the last one, at most so many *steps* away."""
        target = f"{named(reference.get('kind'))} {namespace}/{named(reference.get('name'))}"
        if _kind(reference) not in SCALABLE:
            raise WontWork(f"{target} cannot be scaled to zero by us; {WORKS}", code="not_scalable")
        plural, path = SCALABLE[_kind(reference)]
        raw = self._wire.find(plural, path, namespace, text(reference, "name"))
        if raw is None or section(raw, "metadata").get("uid") != text(reference, "uid"):
            return Receipt(did=Did.DIFFERS, sentence=f"{target} is gone, or another one has its name")
        above = controller_of(section(raw, "metadata"))
        if above and _kind(above) != STARTS_ONLY:
            if _kind(above) not in SCALABLE:
                owner = f"{named(above.get('kind'))} {named(above.get('name'))}"
                raise WontWork(f"{target} belongs to {owner}, which would start it again; {WORKS}", code="not_scalable")
            if not steps:
                raise WontWork(f"{target} is owned in circles; {WORKS}", code="not_scalable")
            return self._scale(namespace, above, steps - 1)
        return self._suspend(raw, target) if plural == "jobs" else self._to_zero(plural, path, raw, target)

    def _to_zero(self, plural: str, path: str, raw: Json, target: str) -> Receipt:
        spec = section(raw, "spec")
        if section(spec, "persistentVolumeClaimRetentionPolicy").get("whenScaled") == "Delete":
            raise WontWork(f"{target} would delete its volumes with its pods (whenScaled: Delete)", code="keeps_data")
        replicas = spec.get("replicas", 1)  # absent means one
        if replicas == 0:
            return Receipt(did=Did.ALREADY, sentence=f"{target} is at zero replicas already")
        self._modify(f"{plural}/scale", f"{path}/scale", raw, {"replicas": 0})
        return Receipt(did=Did.DONE, sentence=f"scaled {target} from {replicas} to 0 replicas")

    def _suspend(self, raw: Json, target: str) -> Receipt:
        if QUEUE_LABEL in words(section(raw, "metadata"), "labels"):
            raise WontWork(f"{target} belongs to a queue of Kueue, which would resume it", code="not_scalable")
        if section(raw, "spec").get("suspend") is True:
            return Receipt(did=Did.ALREADY, sentence=f"{target} is suspended already")
        if condition(section(raw, "status"), "Complete", "Failed"):
            return Receipt(did=Did.ALREADY, sentence=f"{target} is finished")
        self._modify("jobs", api.JOB, raw, {"suspend": True})
        return Receipt(did=Did.DONE, sentence=f"suspended {target}")

    def _modify(self, resource: str, path: str, raw: Json, spec: Mapping[str, Any]) -> None:
        metadata = section(raw, "metadata")
        body = {"spec": dict(spec), "metadata": versioned(raw)}
        self._wire.ask("patch", resource, path, str(metadata.get("namespace")), str(metadata.get("name")), body)


def _kind(reference: Json) -> tuple[str, str]:
    return text(reference, "apiVersion").rpartition("/")[0], text(reference, "kind")
