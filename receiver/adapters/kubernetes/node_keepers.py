"""The pods without a GPU that keep their node from being drained; see `receiver.core.model.pods`."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from receiver.adapters.http.remarks import Remarks
from receiver.adapters.kubernetes.api import BUDGETS_OF, KubernetesApi
from receiver.adapters.kubernetes.nodes import entries, section, words
from receiver.adapters.kubernetes.pods import (
    MIRROR_ANNOTATION,
    controller_of,
    gpu_requests,
    is_protected,
    requirement_from,
    terminated,
)
from receiver.adapters.kubernetes.wire import ClusterWire
from receiver.core.model.pods import PROTECTED, SYSTEM_NAMESPACE, WHY, KeepRule, keeps_for
from receiver.core.scaling.demand import meets
from receiver.ports import SAFE_TO_EVICT_ANNOTATION, TryLater, WontWork


class Keepers:
    """Says which pods keep their nodes by *rules*.

    The PodDisruptionBudgets of kube-system are listed only where a pod of that namespace may have to leave, once per
    look; while they cannot be listed the last ones count.
    """

    def __init__(self, api: KubernetesApi, wire: ClusterWire, remarks: Remarks, rules: Collection[KeepRule]) -> None:
        self._api, self._wire, self._remarks, self._rules = api, wire, remarks, rules
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
                self._budgets = self._wire.every(
                    "poddisruptionbudgets", partial(self._api.reads(BUDGETS_OF), SYSTEM_NAMESPACE)
                )
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
