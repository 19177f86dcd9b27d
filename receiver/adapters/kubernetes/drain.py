"""Which pods keep their node, and evicting the others.

Promises never to evict a pod that holds a GPU unless its owner consented, or a window evicts it after its grace period.
The node and its pods are read from the API server right before, never from a cache.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.affinity import requirement_from
from receiver.adapters.kubernetes.api import ClusterPart, Json, entries, section, versioned, words
from receiver.adapters.kubernetes.dra import Dra
from receiver.adapters.kubernetes.nodes import node_from, taint_from
from receiver.adapters.kubernetes.pods import SPEAKING, DrainFate, SeenPod
from receiver.adapters.kubernetes.reflector import Lists
from receiver.adapters.kubernetes.sightings import Sightings
from receiver.core.model.pods import PROTECTED, SYSTEM_NAMESPACE, WHY, KeepRule, Pod, keeps_for
from receiver.core.model.policy import Taint
from receiver.core.scaling.bounds import window_may_evict
from receiver.core.scaling.demand import CORDON, meets, tolerates
from receiver.core.scaling.nominations import believed
from receiver.core.scaling.packing import SOFT_TAINTS, consents
from receiver.ports import (
    CORDON_ANNOTATION,
    DRAINING,
    STOP_ANNOTATION,
    Clock,
    ClusterNode,
    Did,
    Receipt,
    TryLater,
    WontWork,
)


class NodeMarks(ClusterPart):
    """The part of `KubernetesCluster` that changes nodes, each as it was read just before."""

    def cordon(self, node: str, action: str) -> Receipt:
        """Make *node* unschedulable for *action*; a node that is gone, or someone else's to decide on, DIFFERS."""
        already = f"node {node} is cordoned for this action already"
        return self._close(node, CORDON_ANNOTATION, action, already, f"cordoned node {node}")

    def cordon_for_budget(self, node: str, why: str) -> Receipt:
        """Make *node* unschedulable for a budget's stop, *why*; a node that is gone or someone else's DIFFERS."""
        already = f"node {node} is closed to new work already"
        return self._close(node, STOP_ANNOTATION, why, already, f"closed node {node} to new work")

    def _close(self, node: str, annotation: str, value: str, already: str, detail: str) -> Receipt:
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        cluster_node = node_from(raw)
        if _is_theirs(cluster_node):
            return Receipt(did=Did.DIFFERS, sentence=f"someone else cordoned node {node}; it is theirs")
        if cluster_node.annotations.get(annotation) == value:
            if cluster_node.unschedulable:
                return Receipt(did=Did.ALREADY, sentence=already)
            if annotation == CORDON_ANNOTATION:
                return Receipt(did=Did.DIFFERS, sentence=f"someone made node {node} schedulable again; it stays")
        return self._change(raw, {"annotations": {annotation: value}}, {"unschedulable": True}, detail)

    def uncordon(self, node: str) -> Receipt:
        return self._open(node, CORDON_ANNOTATION, STOP_ANNOTATION, f"node {node} is not cordoned for a removal")

    def uncordon_for_budget(self, node: str) -> Receipt:
        return self._open(node, STOP_ANNOTATION, CORDON_ANNOTATION, f"node {node} is not closed to new work by us")

    def _open(self, node: str, annotation: str, other: str, already: str) -> Receipt:
        """Take *annotation* off, and the cordon with it unless the *other* one is a reason for it too."""
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.ALREADY)
        cluster_node = node_from(raw)
        if annotation not in cluster_node.annotations:
            if annotation == CORDON_ANNOTATION and _is_theirs(cluster_node):
                return Receipt(did=Did.DIFFERS, sentence=f"someone else cordoned node {node}; it is theirs")
            return Receipt(did=Did.ALREADY, sentence=already)
        stays = other in cluster_node.annotations
        detail = f"node {node} stays cordoned for the other reason" if stays else f"made node {node} schedulable again"
        spec = {} if stays else {"unschedulable": False}
        return self._change(raw, {"annotations": {annotation: None}}, spec, detail, Did.ALREADY)

    def lifted(self, node: str) -> Receipt | None:
        """Return DIFFERS when *node* no longer bears our cordon for a removal; None when it does, or is gone."""
        raw = self._node(node)
        cluster_node = None if raw is None else node_from(raw)
        if cluster_node is None or (cluster_node.unschedulable and CORDON_ANNOTATION in cluster_node.annotations):
            return None
        return Receipt(did=Did.DIFFERS, sentence=f"someone lifted our cordon of node {node}; it stays")

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        """Put on *node* what it lacks of *labels* and *taints*; a node that is gone DIFFERS. A label of ours with
        another value is replaced, and so is a taint of the same key and effect: Kubernetes allows one of each."""
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        cluster_node = node_from(raw)
        new_labels = {key: value for key, value in labels.items() if cluster_node.labels.get(key) != value}
        new_taints = [taint for taint in taints if taint not in cluster_node.taints]
        if not new_labels and not new_taints:
            return Receipt(did=Did.ALREADY, sentence=f"node {node} has these labels and taints already")
        spec = {"taints": _with(entries(section(raw, "spec"), "taints"), new_taints)} if new_taints else {}
        marks = [*(f"{key}={value}" for key, value in sorted(new_labels.items())), *map(_kubectl, new_taints)]
        detail = f"put {', '.join(marks)} on node {node}"
        return self._change(raw, {"labels": new_labels} if new_labels else {}, spec, detail)

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        if {t for t in node_from(raw).taints if t in SOFT_TAINTS} == set(taints):
            return Receipt(did=Did.ALREADY, sentence=f"node {node} carries these soft taints already")
        others = [entry for entry in entries(section(raw, "spec"), "taints") if taint_from(entry) not in SOFT_TAINTS]
        detail = f"node {node} carries {', '.join(map(_kubectl, taints)) or 'no soft taint'}"
        return self._change(raw, {}, {"taints": _with(others, taints)}, detail)

    def has_node(self, node: str) -> bool:
        return self._node(node) is not None

    def _node(self, name: str) -> Json | None:
        return self._wire.find("nodes", api.NODE, name)

    def _change(self, raw: Json, metadata: Json, spec: Json, detail: str, did_if_gone: Did = Did.DIFFERS) -> Receipt:
        name = str(section(raw, "metadata").get("name"))
        body: dict[str, Any] = {"metadata": {**metadata, **versioned(raw)}, **({"spec": spec} if spec else {})}
        try:
            self._wire.ask("patch", "nodes", api.NODE, name, body)
        except WontWork as error:
            if error.code == api.NOT_FOUND:
                return _gone(name, did_if_gone)
            raise
        return Receipt(did=Did.DONE, sentence=detail)


def _is_theirs(node: ClusterNode) -> bool:
    """True for a node that someone else cordoned: neither of our annotations says why it is unschedulable."""
    return node.unschedulable and not node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}


def _gone(node: str, did: Did) -> Receipt:
    return Receipt(did=did, sentence=f"node {node} is gone")


def _with(worn: Sequence[Json], taints: Sequence[Taint]) -> list[Json]:
    """Return the whole list of taints, because a patch replaces it; those that stay are sent back as they were read."""
    replaced = {(t.key, t.effect) for t in taints}
    raw_taints = [raw for raw in worn if ((t := taint_from(raw)).key, t.effect) not in replaced]
    return [*raw_taints, *({"key": t.key, "value": t.value, "effect": t.effect} for t in taints)]


def _kubectl(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


BUDGET_DELAY = timedelta(seconds=10)
BUDGET_NAMED = re.compile(r"[Tt]he disruption budget (\S+) (?:needs|is|does)")  # in an answer of Kubernetes
LEAVING_DELAY = timedelta(seconds=5)


class Keepers:
    """Says which pods keep their nodes by *rules*. The PodDisruptionBudgets of kube-system are listed only where a
    pod of that namespace may have to leave, once per look; while they cannot be listed the last ones count."""

    def __init__(self, lists: Lists, rules: Collection[KeepRule]) -> None:
        self._lists, self._rules = lists, rules
        self._budgets: Sequence[Json] = ()
        self._listed = False

    def begin(self) -> None:
        self._listed = False

    def why(self, pod: SeenPod) -> str:
        """Why *pod* keeps its node, empty when it does not, holds a GPU, or leaves with the node."""
        if pod.terminated or pod.leaving or pod.daemon:
            return ""
        if pod.protected:
            reason = PROTECTED
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
            reason = "" if rule is None else WHY[rule]
        return reason if reason and not pod.gpus else ""

    def _covered(self, pod: SeenPod) -> bool:
        if not self._listed:
            self._listed = True
            try:
                self._budgets = self._lists.every("poddisruptionbudgets", api.BUDGETS_OF, SYSTEM_NAMESPACE)
            except (TryLater, WontWork) as error:
                event = "PodDisruptionBudgets of kube-system not listed, so its pods keep nodes"
                self._lists.remarks.warn(event, str(error))
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
    """Whether the pod without a GPU came to its node after *cordoned_at* by tolerating the cordon, and another one like
    it would again. A pod that nothing controls is evicted: it cannot come back."""
    created = moment(pod.metadata.get("creationTimestamp"))
    if cordoned_at is None or created is None or created <= cordoned_at or pod.held or not pod.controller:
        return False
    return any(tolerates(toleration, CORDON) for toleration in pod.tolerations)


class Drain(NodeMarks):
    """The part of `KubernetesCluster` that empties nodes by evictions."""

    _clock: Clock
    _keepers: Keepers
    _sightings: Sightings
    _dra: Dra

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
            f"{pod.key} {reason}"
            for fate, pod in pods
            if (reason := fate if fate in SPEAKING else self._keepers.why(pod) if fate is DrainFate.GOES else "")
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
                if error.code != api.TOO_MANY:
                    raise
                raise _kept_by_a_budget({pod.key: error}, node) from error
        if leaving:
            detail = f"{', '.join(sorted(leaving))} still leaving node {node}"
            raise TryLater(detail, code=DRAINING, delay=LEAVING_DELAY)
        return Receipt(did=Did.DONE, sentence=f"nothing is left to evict from node {node}")

    def _held_back(self, pods: Sequence[SeenPod]) -> Mapping[str, TryLater]:
        held: dict[str, TryLater] = {}
        for pod in pods:
            try:
                self._evict(pod, dry_run="All")
            except TryLater as error:
                if error.code != api.TOO_MANY:
                    raise
                held[pod.key] = error
        return held

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        now = self._clock.now()
        pods = [(pod, pod.pod) for pod in self._pods_on(node)]
        # The scheduler writes the node of a pod some minutes before it binds it, where a volume must be attached.
        nominated = self._pods_at("status.nominatedNodeName", node)
        pods += [(pod, pod.pod or pod.without_gpus) for pod in nominated if pod.nominated == node and pod.wants_devices]
        dated = [self._sightings.dated(pod, seen, now) for seen, pod in pods if pod is not None]
        return tuple(pod for pod in dated if believed(pod, {node}, now).node == node)

    def _pods_on(self, node: str) -> list[SeenPod]:
        pods = [pod for pod in self._pods_at("spec.nodeName", node) if pod.node == node]
        self._dra.mark(pods)
        return pods

    def _pods_at(self, field: str, node: str) -> list[SeenPod]:
        if not node:
            raise WontWork("a node without a name cannot be asked about", code="bad_name")
        return [*map(SeenPod, self._wire.every("pods", api.PODS, field_selector=f"{field}={node}"))]

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
            self._wire.ask("create", "pods/eviction", api.EVICTION, namespace, name, body, **options)
        except WontWork as error:
            if error.code == api.NOT_FOUND:
                return False
            raise
        except TryLater as error:
            if error.code != api.CONFLICT:
                raise
        return True


def _kept_by_a_budget(held: Mapping[str, TryLater], node: str, suffix: str = "") -> TryLater:
    names = sorted({name for error in held.values() for name in BUDGET_NAMED.findall(str(error))})
    budget = f"PodDisruptionBudget {', '.join(names)}" if names else "a PodDisruptionBudget"
    detail = f"{budget} blocks the eviction of {', '.join(sorted(held))} from node {node}{suffix}"
    return TryLater(detail, code="pdb", delay=max(BUDGET_DELAY, *(e.delay or BUDGET_DELAY for e in held.values())))
