"""Which pods keep their node, and evicting the others.

Promises never to evict a pod that holds a GPU unless its owner consented, or a window evicts it after its grace period.
The node and its pods are read from the API server right before, never from a cache.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from receiver.adapters.http.sessions import Remarks, moment
from receiver.adapters.kubernetes.api import (
    BUDGETS_OF,
    CONFLICT,
    EVICTION,
    NOT_FOUND,
    PODS,
    TOO_MANY,
    Json,
    entries,
    section,
    words,
)
from receiver.adapters.kubernetes.node_marks import NodeMarks
from receiver.adapters.kubernetes.pods import SPEAKING, DrainFate, SeenPod, requirement_from
from receiver.adapters.kubernetes.reflector import Lists
from receiver.core.model.pods import PROTECTED, SYSTEM_NAMESPACE, WHY, KeepRule, Pod, keeps_for
from receiver.core.scaling.bounds import window_may_evict
from receiver.core.scaling.demand import CORDON, meets, tolerates
from receiver.core.scaling.packing import consents
from receiver.ports import Did, Receipt, TryLater, WontWork

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
        self._budgets: Sequence[Json] = ()
        self._listed = False

    def begin(self) -> None:
        """A new look begins: what is listed is listed anew."""
        self._listed = False

    def why(self, pod: SeenPod) -> str:
        """Why *pod* keeps its node, empty when it does not, holds a GPU, or leaves with the node."""
        if pod.terminated or pod.leaving or pod.daemon:
            return ""
        if pod.protected:
            why = PROTECTED
        elif pod.agreed:
            return ""
        else:
            rule = keeps_for(
                namespace=pod.namespace,
                managed=bool(pod.controller),
                stores=_stores(pod.spec),
                covered=partial(self._covered, pod),
                rules=self._rules,
            )
            why = "" if rule is None else WHY[rule]
        return why if why and not pod.gpus else ""

    def _covered(self, pod: SeenPod) -> bool:
        if not self._listed:
            self._listed = True
            try:
                self._budgets = self._lists.every("poddisruptionbudgets", BUDGETS_OF, SYSTEM_NAMESPACE)
            except (TryLater, WontWork) as error:
                self._remarks.warn("PodDisruptionBudgets of kube-system not listed, so its pods keep nodes", str(error))
        return any(_covers(budget, pod.labels) for budget in self._budgets)


def _covers(budget: Json, labels: Mapping[str, str]) -> bool:
    """True when the selector of *budget* (PodDisruptionBudget v1 policy) matches: without one it matches no pod."""
    selector = section(budget, "spec").get("selector")
    return isinstance(selector, dict) and selects(selector, labels)


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Return whether *selector* (LabelSelector v1 meta) selects a pod with *labels*; an empty one selects every pod."""
    equal = words(selector, "matchLabels").items() <= labels.items()
    return equal and all(meets(labels, requirement_from(want)) for want in entries(selector, "matchExpressions"))


def _stores(spec: Json) -> bool:
    """True for a pod with a volume on its node's disk; what lives in memory alone does not count."""
    return any(
        "hostPath" in volume or ("emptyDir" in volume and section(volume, "emptyDir").get("medium") != "Memory")
        for volume in entries(spec, "volumes")
    )


def _returned(pod: SeenPod, cordoned_at: datetime | None) -> bool:
    """Whether the pod without a GPU came to its node after *cordoned_at* by tolerating the cordon."""
    created = moment(pod.metadata.get("creationTimestamp"))
    if cordoned_at is None or created is None or created < cordoned_at or pod.held:
        return False
    return any(tolerates(toleration, CORDON) for toleration in pod.tolerations)


class Drain(NodeMarks):
    """The part of `KubernetesCluster` that empties nodes by evictions."""

    _keepers: Keepers

    def drain(
        self, node: str, *, consenting: bool = False, evicting: bool = False, cordoned_at: datetime | None = None
    ) -> Receipt:
        """Evict the pods that may go from *node*; see `Cluster.drain`. Nothing is evicted while a pod keeps the
        node, or after our cordon was lifted: evicted pods could then return to it."""
        if (open_again := self.lifted(node)) is not None:
            return open_again
        agreed = window_may_evict if evicting else consents if consenting else None
        pods = [(pod.fate(agreed), pod) for pod in self._pods_on(node)]
        self._keepers.begin()
        speaking = sorted(
            f"{pod.key} {why}"
            for fate, pod in pods
            if (why := fate if fate in SPEAKING else self._keepers.why(pod) if fate is DrainFate.GOES else "")
        )
        if speaking:
            return Receipt(did=Did.DIFFERS, sentence=f"node {node} stays: {', '.join(speaking)}")
        going = [pod for fate, pod in pods if fate is DrainFate.GOES]
        if held := self._held_back(going):
            raise _kept_by_a_budget(held, node, "; no pod is evicted there until all can go")
        leaving = [pod.key for fate, pod in pods if fate is DrainFate.LEAVES]
        for pod in going:
            if _returned(pod, cordoned_at):
                continue
            try:
                if self._evict(pod):
                    leaving.append(pod.key)
            except TryLater as error:  # one that left may use up what a budget allowed
                if error.code != TOO_MANY:
                    raise
                raise _kept_by_a_budget({pod.key: error}, node) from error
        if leaving:
            detail = f"{', '.join(sorted(leaving))} still leaving node {node}"
            raise TryLater(detail, code="draining", delay=LEAVING_DELAY)
        return Receipt(did=Did.DONE, sentence=f"nothing is left to evict from node {node}")

    def _held_back(self, pods: Sequence[SeenPod]) -> Mapping[str, TryLater]:
        """Which of *pods* a PodDisruptionBudget would hold, with its answer, by a dry run."""
        held: dict[str, TryLater] = {}
        for pod in pods:
            try:
                self._evict(pod, dry_run="All")
            except TryLater as error:
                if error.code != TOO_MANY:
                    raise
                held[pod.key] = error
        return held

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        """Return the GPU pods bound to *node*, running, starting or leaving."""
        return tuple(pod.pod for pod in self._pods_on(node) if pod.pod is not None)

    def _pods_on(self, node: str) -> list[SeenPod]:
        if not node:
            raise WontWork("a node without a name cannot be asked about", code="bad_name")
        raws = self._wire.every("pods", PODS, field_selector=f"spec.nodeName={node}")
        return [pod for pod in map(SeenPod, raws) if pod.node == node]

    def _evict(self, pod: SeenPod, **options: str) -> bool:
        """Evict exactly this pod, not a namesake that came after it; False when it is gone."""
        name, namespace = str(pod.metadata.get("name")), str(pod.metadata.get("namespace"))
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": str(pod.metadata.get("uid"))}},
        }
        try:
            self._wire.ask("create", "pods/eviction", EVICTION, namespace, name, body, **options)
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
    return TryLater(detail, code="pdb", delay=max(BUDGET_DELAY, *(e.delay or BUDGET_DELAY for e in held.values())))
