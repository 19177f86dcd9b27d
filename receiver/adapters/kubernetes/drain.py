"""Which pods keep their node, and evicting the others.

Promises never to evict a pod that holds a GPU unless its owner consented, or a window evicts it after its grace period.
The node and its pods are read from the API server right before, never from a cache.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from receiver.adapters.http.sessions import Remarks, moment
from receiver.adapters.kubernetes.api import (
    BUDGETS_OF,
    CONFLICT,
    EVICTION,
    NOT_FOUND,
    PODS,
    TOO_MANY,
    ClusterWire,
    KubernetesApi,
    at_least,
    entries,
    key_of,
    section,
)
from receiver.adapters.kubernetes.node_marks import NodeMarks
from receiver.adapters.kubernetes.nodes import words
from receiver.adapters.kubernetes.pods import (
    MIRROR_ANNOTATION,
    SPEAKING,
    DrainFate,
    asked_or_held,
    controller_of,
    fate,
    gpu_requests,
    is_protected,
    requirement_from,
    terminated,
    toleration_from,
)
from receiver.adapters.kubernetes.reflector import Lists
from receiver.core.model.pods import PROTECTED, SYSTEM_NAMESPACE, WHY, KeepRule, keeps_for
from receiver.core.scaling.bounds import window_may_evict
from receiver.core.scaling.demand import CORDON, meets, tolerates
from receiver.core.scaling.packing import consents
from receiver.ports import SAFE_TO_EVICT_ANNOTATION, Did, Receipt, TryLater, WontWork

BUDGET_DELAY = timedelta(seconds=10)
BUDGET_NAMED = re.compile(r"[Tt]he disruption budget (\S+) (?:needs|is|does)")  # in an answer of Kubernetes
LEAVING_DELAY = timedelta(seconds=5)


class Keepers:
    """Says which pods keep their nodes by *rules*.

    The PodDisruptionBudgets of kube-system are listed only where a pod of that namespace may have to leave, once per
    look; while they cannot be listed the last ones count.
    """

    def __init__(self, lists: Lists, remarks: Remarks, rules: Collection[KeepRule]) -> None:
        self._lists, self._remarks, self._rules = lists, remarks, rules
        self._budgets: Sequence[Mapping[str, Any]] = ()
        self._listed = False

    def begin(self) -> None:
        """A new look begins: what is listed is listed anew."""
        self._listed = False

    def why(self, raw: Mapping[str, Any]) -> str:
        """Why the pod in *raw* keeps its node, empty when it does not, holds a GPU, or leaves with the node."""
        metadata, spec = section(raw, "metadata"), section(raw, "spec")
        annotations, owner = words(metadata, "annotations"), controller_of(metadata)
        if terminated(raw) or metadata.get("deletionTimestamp"):
            return ""
        if owner.startswith("DaemonSet/") or MIRROR_ANNOTATION in annotations:
            return ""
        if is_protected(annotations):
            why = PROTECTED
        elif annotations.get(SAFE_TO_EVICT_ANNOTATION, "").lower() == "true":
            return ""
        else:
            namespace = str(metadata.get("namespace") or "")
            rule = keeps_for(
                namespace=namespace,
                managed=bool(owner),
                stores=_stores(spec),
                covered=partial(self._covered, raw),
                rules=self._rules,
            )
            why = "" if rule is None else WHY[rule]
        return why if why and not gpu_requests(spec) else ""

    def _covered(self, raw: Mapping[str, Any]) -> bool:
        if not self._listed:
            self._listed = True
            try:
                self._budgets = self._lists.every("poddisruptionbudgets", BUDGETS_OF, SYSTEM_NAMESPACE)
            except (TryLater, WontWork) as error:
                self._remarks.warn("PodDisruptionBudgets of kube-system not listed, so its pods keep nodes", str(error))
        return any(_covers(budget, raw) for budget in self._budgets)


def _covers(budget: Mapping[str, Any], raw: Mapping[str, Any]) -> bool:
    """True when the selector of *budget* (PodDisruptionBudget v1 policy) matches: without one it matches no pod."""
    selector = section(budget, "spec").get("selector")
    if not isinstance(selector, dict):
        return False
    labels = words(section(raw, "metadata"), "labels")
    equal = all(labels.get(key) == value for key, value in words(selector, "matchLabels").items())
    return equal and all(meets(labels, requirement_from(want)) for want in entries(selector, "matchExpressions"))


def _stores(spec: Mapping[str, Any]) -> bool:
    """True for a pod with a volume on its node's disk; what lives in memory alone does not count."""
    return any(
        "hostPath" in volume or ("emptyDir" in volume and section(volume, "emptyDir").get("medium") != "Memory")
        for volume in entries(spec, "volumes")
    )


def _returned(raw: Mapping[str, Any], cordoned_at: datetime | None) -> bool:
    """Whether the pod without a GPU in *raw* came to its node after *cordoned_at* by tolerating the cordon."""
    created = moment(section(raw, "metadata").get("creationTimestamp"))
    if cordoned_at is None or created is None or created < cordoned_at or asked_or_held(raw):
        return False
    return any(tolerates(toleration_from(t), CORDON) for t in entries(section(raw, "spec"), "tolerations"))


class Drain:
    """Empties nodes by evictions."""

    def __init__(self, api: KubernetesApi, wire: ClusterWire, marks: NodeMarks, keepers: Keepers) -> None:
        self._api, self._wire, self._marks, self._keepers = api, wire, marks, keepers

    def drain(
        self, node: str, *, consenting: bool = False, evicting: bool = False, cordoned_at: datetime | None = None
    ) -> Receipt:
        """Evict the pods that may go from *node*; see `Cluster.drain`. Nothing is evicted while a pod keeps the
        node, or after our cordon was lifted: evicted pods could then return to it."""
        if (open_again := self._marks.lifted(node)) is not None:
            return open_again
        agreed = window_may_evict if evicting else consents if consenting else None
        pods = [(fate(raw, agreed), raw) for raw in self.pods_on(node)]
        self._keepers.begin()
        speaking = sorted(
            f"{key_of(raw)} {why}"
            for what, raw in pods
            if (why := what if what in SPEAKING else self._keepers.why(raw) if what is DrainFate.GOES else "")
        )
        if speaking:
            return Receipt(did=Did.DIFFERS, sentence=f"node {node} stays: {', '.join(speaking)}")
        going = [raw for what, raw in pods if what is DrainFate.GOES]
        if held := self._held_back(going):
            raise _kept_by_a_budget(held, node, "; no pod is evicted there until all can go")
        leaving = [key_of(raw) for what, raw in pods if what is DrainFate.LEAVES]
        for raw in going:
            if _returned(raw, cordoned_at):
                continue
            try:
                if self._evict(raw):
                    leaving.append(key_of(raw))
            except TryLater as error:  # one that left may use up what a budget allowed
                if error.code != TOO_MANY:
                    raise
                raise _kept_by_a_budget({key_of(raw): error}, node) from error
        if leaving:
            detail = f"{', '.join(sorted(leaving))} still leaving node {node}"
            raise TryLater(detail, code="draining", delay=LEAVING_DELAY)
        return Receipt(did=Did.DONE, sentence=f"nothing is left to evict from node {node}")

    def pods_on(self, node: str) -> list[Mapping[str, Any]]:
        if not node:
            raise WontWork("a node without a name cannot be asked about", code="bad_name")
        selector = f"spec.nodeName={node}"
        pods = self._wire.every("pods", self._api.reads(PODS), field_selector=selector)
        return [raw for raw in pods if section(raw, "spec").get("nodeName") == node]

    def _held_back(self, raws: Sequence[Mapping[str, Any]]) -> Mapping[str, TryLater]:
        """Which of these pods a PodDisruptionBudget would hold, with its answer, by a dry run."""
        held: dict[str, TryLater] = {}
        for raw in raws:
            try:
                self._evict(raw, dry_run="All")
            except TryLater as error:
                if error.code != TOO_MANY:
                    raise
                held[key_of(raw)] = error
        return held

    def _evict(self, raw: Mapping[str, Any], **options: str) -> bool:
        """Evict exactly this pod, not a namesake that came after it; False when it is gone."""
        metadata = section(raw, "metadata")
        name, namespace = str(metadata.get("name")), str(metadata.get("namespace"))
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": str(metadata.get("uid"))}},
        }
        call = self._api.creates(EVICTION)
        try:
            self._wire.ask("create", "pods/eviction", call, namespace, name, body, **options)
        except WontWork as error:
            if error.code == NOT_FOUND:
                return False
            raise
        except TryLater as error:
            if error.code != CONFLICT:
                raise
        return True


def _kept_by_a_budget(held: Mapping[str, TryLater], node: str, more: str = "") -> TryLater:
    names = sorted({name for error in held.values() for name in BUDGET_NAMED.findall(str(error))})
    budget = f"PodDisruptionBudget {', '.join(names)}" if names else "a PodDisruptionBudget"
    detail = f"{budget} keeps {', '.join(sorted(held))} on node {node}{more}"
    return TryLater(detail, code="pdb", delay=max(at_least(e.delay, BUDGET_DELAY) for e in held.values()))
