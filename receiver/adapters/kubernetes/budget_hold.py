"""New GPU work kept out of namespaces and queues while a budget's hold lasts: by a quota of ``requests.<resource>: 0``.

Promises to write only to ResourceQuotas of its own name and label, and to ClusterQueues that it can put back: what one
was before stands on it, so neither a restart nor a lost store forgets it. What another installation in the cluster
holds, by the annotation, is not ours. ``scopeSelector`` with ``NotIn`` covers pods
without a priority class too (Kubernetes' quota evaluator matches it as a label selector does).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.api import ClusterPart, Json, section, versioned, words
from receiver.adapters.kubernetes.installations import Installations
from receiver.adapters.kubernetes.reflector import Lists, ResourceKind
from receiver.ports import QUOTA_LABEL, QUOTA_NAME, STOP_POLICY_ANNOTATION, Did, HeldPlaces, Receipt, WontWork

CLUSTER_QUEUES = ResourceKind("kueue.x-k8s.io", "clusterqueues", ("v1beta2", "v1beta1"))
RUNS = "None"  # Kueue's stop policy of a queue that runs, and its default
HOLD = "Hold"
HELD_BY = "gpu-autoscaler.io/held-by"  # the key of the installation that holds it


class HoldingMeans(ClusterPart):
    """The part of `KubernetesCluster` that `receiver.ports.WorkGate` describes."""

    _lists: Lists
    _installations: Installations
    _own: str

    def held_places(self, *, queues: bool) -> HeldPlaces:
        """See `WorkGate.held_places`. A cluster without Kueue has no queues."""
        quotas = self._lists.every("resourcequotas", api.QUOTAS, options={"label_selector": QUOTA_LABEL})
        others = self._others()
        namespaces = sorted(str(section(q, "metadata").get("namespace")) for q in quotas if _is_ours(q, others))
        every = self._cluster_queues() if queues else ()
        held = sorted(_name(q) for q in every if _is_held(q, others))
        return HeldPlaces(namespaces=tuple(namespaces), cluster_queues=tuple(held))

    def hold_namespace(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        named = f"ResourceQuota {namespace}/{QUOTA_NAME}"
        wanted = quota(namespace, resources, passing, self._own)
        raw_quota = self._quota(namespace)
        if raw_quota is not None:
            if not _is_ours(raw_quota, self._others()):
                return Receipt(did=Did.DIFFERS, sentence=f"{named} is not ours and is left alone")
            spec = section(raw_quota, "spec")
            if {name: spec[name] for name in ("hard", "scopeSelector") if spec.get(name)} == wanted["spec"]:
                return Receipt(did=Did.ALREADY, sentence=f"{named} is there already")
            self._delete(namespace, raw_quota)  # what a quota is scoped to cannot be changed
        self._wire.ask("create", "resourcequotas", api.QUOTAS_OF, namespace, wanted)
        return Receipt(did=Did.DONE, sentence=f"created {named}: no new pod there may ask for a GPU")

    def release_namespace(self, namespace: str) -> Receipt:
        named = f"ResourceQuota {namespace}/{QUOTA_NAME}"
        raw_quota = self._quota(namespace)
        if raw_quota is None:
            return Receipt(did=Did.ALREADY, sentence=f"{named} is gone already")
        if not _is_ours(raw_quota, self._others()):
            return Receipt(did=Did.DIFFERS, sentence=f"{named} is not ours and is left alone")
        self._delete(namespace, raw_quota)
        return Receipt(did=Did.DONE, sentence=f"deleted {named}")

    def hold_queue(self, queue: str) -> Receipt:
        """See `WorkGate.hold_queue`. A queue of ours that was released by hand is held again."""
        raw_queue = self._cluster_queue(queue)
        if raw_queue is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no ClusterQueue {queue}")
        policy, ours = section(raw_queue, "spec").get("stopPolicy"), _is_held(raw_queue, self._others())
        stopped = (policy or RUNS) != RUNS
        if ours and stopped:
            return Receipt(did=Did.ALREADY, sentence=f"ClusterQueue {queue} is on Hold already")
        if stopped:
            return Receipt(did=Did.DIFFERS, sentence=f"ClusterQueue {queue} is stopped by somebody else ({policy})")
        note = {} if ours else {STOP_POLICY_ANNOTATION: str(policy or "")}
        note |= {HELD_BY: self._own} if self._own and not ours else {}
        self._patch(raw_queue, note, {"stopPolicy": HOLD})
        return Receipt(did=Did.DONE, sentence=f"put ClusterQueue {queue} on Hold")

    def release_queue(self, queue: str) -> Receipt:
        raw_queue = self._cluster_queue(queue)
        if raw_queue is None or not _is_held(raw_queue, self._others()):
            return Receipt(did=Did.ALREADY, sentence=f"ClusterQueue {queue} is not held by us")
        before, policy = _annotations(raw_queue)[STOP_POLICY_ANNOTATION], section(raw_queue, "spec").get("stopPolicy")
        # A stop policy that was changed since we held the queue stays. An empty note means that it was not set.
        notes: dict[str, str | None] = dict.fromkeys({STOP_POLICY_ANNOTATION, HELD_BY} & _annotations(raw_queue).keys())
        self._patch(raw_queue, notes, {"stopPolicy": before or None} if policy == HOLD else {})
        detail = (
            f"ClusterQueue {queue} runs again" if policy == HOLD else f"ClusterQueue {queue} stays {policy or RUNS}"
        )
        return Receipt(did=Did.DONE, sentence=detail)

    def _others(self) -> Collection[str]:
        """The keys of the other installations."""
        return {each.key for each in self._installations.others().installations} if self._own else ()

    def _quota(self, namespace: str) -> Json | None:
        return self._wire.find("resourcequotas", api.QUOTA, namespace, QUOTA_NAME)

    def _delete(self, namespace: str, raw_quota: Json) -> None:
        """Delete exactly this quota, not a namesake that came after it."""
        options = {"preconditions": {"uid": str(section(raw_quota, "metadata").get("uid"))}}
        self._wire.ask("delete", "resourcequotas", api.QUOTA, namespace, QUOTA_NAME, options)

    def _cluster_queues(self) -> list[Json]:
        try:
            return self._lists.every_of(CLUSTER_QUEUES)
        except WontWork as error:
            if error.code == api.NOT_FOUND:
                return []
            raise

    def _cluster_queue(self, name: str) -> Json | None:
        return next((q for q in self._cluster_queues() if _name(q) == name), None)

    def _patch(self, raw_queue: Json, annotations: Mapping[str, str | None], spec: Json) -> None:
        metadata = {**versioned(raw_queue), **({"annotations": annotations} if annotations else {})}
        self._lists.patch(CLUSTER_QUEUES, _name(raw_queue), {"metadata": metadata, "spec": spec})


def quota(namespace: str, resources: Sequence[str], passing: Sequence[str], held_by: str = "") -> dict[str, Any]:
    """Return the ResourceQuota by which the installation *held_by* keeps pods asking for *resources* out of
    *namespace*."""
    spec: dict[str, Any] = {"hard": {f"requests.{resource}": "0" for resource in sorted(resources)}}
    if passing:
        scope = {"scopeName": "PriorityClass", "operator": "NotIn", "values": sorted(passing)}
        spec["scopeSelector"] = {"matchExpressions": [scope]}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": QUOTA_NAME,
            "namespace": namespace,
            "labels": {QUOTA_LABEL: "true"},
            **({"annotations": {HELD_BY: held_by}} if held_by else {}),
        },
        "spec": spec,
    }


def _is_ours(raw_quota: Json, others: Collection[str]) -> bool:
    """True for a quota of ours, also of one that we made as another installation than today, and not of *others*."""
    labelled = QUOTA_LABEL in words(section(raw_quota, "metadata"), "labels")
    return labelled and _annotations(raw_quota).get(HELD_BY) not in others


def _is_held(raw_queue: Json, others: Collection[str]) -> bool:
    """The same for a ClusterQueue."""
    noted = _annotations(raw_queue)
    return STOP_POLICY_ANNOTATION in noted and noted.get(HELD_BY) not in others


def _name(raw: Json) -> str:
    return str(section(raw, "metadata").get("name"))


def _annotations(raw: Json) -> Mapping[str, str]:
    return words(section(raw, "metadata"), "annotations")
