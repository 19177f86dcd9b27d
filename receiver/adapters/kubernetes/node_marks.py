"""What we put on nodes: cordons that say what they are for, and the labels and taints of their pool.

Promises never to touch a cordon of someone else, and to keep the labels and taints that others put there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from receiver.adapters.kubernetes.api import NODE, NOT_FOUND, ClusterWire, KubernetesApi, entries, section
from receiver.adapters.kubernetes.nodes import node_from, taint_from
from receiver.core.model.policy import Taint
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION, ClusterNode, Did, Receipt, WontWork


class NodeMarks:
    """Changes nodes through *wire*, each as it was read just before."""

    def __init__(self, api: KubernetesApi, wire: ClusterWire) -> None:
        self._wire = wire
        self._api = api

    def cordon(self, node: str, action: str) -> Receipt:
        """Make *node* unschedulable for *action*; a node that is gone, or someone else's to decide on, DIFFERS."""
        raw = self._read(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        found = node_from(raw)
        owner = found.annotations.get(CORDON_ANNOTATION)
        if found.unschedulable and owner == action:
            return Receipt(did=Did.ALREADY, sentence=f"node {node} is cordoned for this action already")
        if _is_theirs(found):
            return Receipt(did=Did.DIFFERS, sentence=f"someone else cordoned node {node}; it is theirs")
        if not found.unschedulable and owner == action:
            return Receipt(did=Did.DIFFERS, sentence=f"someone made node {node} schedulable again; it stays")
        if not self._patch(raw, {"annotations": {CORDON_ANNOTATION: action}}, {"unschedulable": True}):
            return _gone(node, Did.DIFFERS)
        return Receipt(did=Did.DONE, sentence=f"cordoned node {node}")

    def uncordon(self, node: str) -> Receipt:
        """Undo a cordon of ours for a removal."""
        raw = self._read(node)
        if raw is None:
            return _gone(node, Did.ALREADY)
        found = node_from(raw)
        if CORDON_ANNOTATION in found.annotations:
            return self._lift(raw, CORDON_ANNOTATION, stays=STOP_ANNOTATION in found.annotations)
        if _is_theirs(found):
            return Receipt(did=Did.DIFFERS, sentence=f"someone else cordoned node {node}; it is theirs")
        return Receipt(did=Did.ALREADY, sentence=f"node {node} is not cordoned for a removal")

    def lifted(self, node: str) -> Receipt | None:
        """Return DIFFERS when *node* no longer bears our cordon for a removal; None when it does, or is gone."""
        raw = self._read(node)
        if raw is None:
            return None
        found = node_from(raw)
        if found.unschedulable and CORDON_ANNOTATION in found.annotations:
            return None
        return Receipt(did=Did.DIFFERS, sentence=f"someone lifted our cordon of node {node}; it stays")

    def cordon_for_budget(self, node: str, why: str) -> Receipt:
        """Make *node* unschedulable for a budget's stop, *why*; a node that is gone or someone else's DIFFERS."""
        raw = self._read(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        found = node_from(raw)
        if _is_theirs(found):
            return Receipt(did=Did.DIFFERS, sentence=f"someone else cordoned node {node}; it is theirs")
        if found.unschedulable and found.annotations.get(STOP_ANNOTATION) == why:
            return Receipt(did=Did.ALREADY, sentence=f"node {node} is closed to new work already")
        if not self._patch(raw, {"annotations": {STOP_ANNOTATION: why}}, {"unschedulable": True}):
            return _gone(node, Did.DIFFERS)
        return Receipt(did=Did.DONE, sentence=f"closed node {node} to new work")

    def uncordon_for_budget(self, node: str) -> Receipt:
        """Undo `cordon_for_budget`; a cordon for a removal stays."""
        raw = self._read(node)
        if raw is None:
            return _gone(node, Did.ALREADY)
        found = node_from(raw)
        if STOP_ANNOTATION not in found.annotations:
            return Receipt(did=Did.ALREADY, sentence=f"node {node} is not closed to new work by us")
        return self._lift(raw, STOP_ANNOTATION, stays=CORDON_ANNOTATION in found.annotations)

    def _lift(self, raw: Mapping[str, Any], annotation: str, *, stays: bool) -> Receipt:
        """Take *annotation* off, and the cordon with it unless it *stays* for the other reason."""
        name = str(section(raw, "metadata").get("name"))
        if not self._patch(raw, {"annotations": {annotation: None}}, {} if stays else {"unschedulable": False}):
            return _gone(name, Did.ALREADY)
        done = f"node {name} stays cordoned for the other reason" if stays else f"made node {name} schedulable again"
        return Receipt(did=Did.DONE, sentence=done)

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        """Put on *node* what it lacks of *labels* and *taints*; a node that is gone DIFFERS.

        A label of ours with another value is replaced, and so is a taint of the same key and effect: Kubernetes
        allows one of each.
        """
        raw = self._read(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        found = node_from(raw)
        new_labels = {key: value for key, value in labels.items() if found.labels.get(key) != value}
        new_taints = [taint for taint in taints if taint not in found.taints]
        if not new_labels and not new_taints:
            return Receipt(did=Did.ALREADY, sentence=f"node {node} has these labels and taints already")
        spec = {"taints": _with(entries(section(raw, "spec"), "taints"), new_taints)} if new_taints else {}
        if not self._patch(raw, {"labels": new_labels} if new_labels else {}, spec):
            return _gone(node, Did.DIFFERS)
        what = [*(f"{key}={value}" for key, value in sorted(new_labels.items())), *(_words(t) for t in new_taints)]
        return Receipt(did=Did.DONE, sentence=f"put {', '.join(what)} on node {node}")

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        """Let *node* carry exactly *taints* of our soft ones; a node that is gone DIFFERS."""
        raw = self._read(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        worn = node_from(raw).taints
        if {t for t in worn if t in SOFT_TAINTS} == set(taints):
            return Receipt(did=Did.ALREADY, sentence=f"node {node} carries these soft taints already")
        others = [entry for entry in entries(section(raw, "spec"), "taints") if taint_from(entry) not in SOFT_TAINTS]
        if not self._patch(raw, {}, {"taints": _with(others, taints)}):
            return _gone(node, Did.DIFFERS)
        return Receipt(
            did=Did.DONE, sentence=f"node {node} carries {', '.join(map(_words, taints)) or 'no soft taint'}"
        )

    def _read(self, name: str) -> Mapping[str, Any] | None:
        try:
            return self._wire.ask("get", "nodes", self._api.reads(NODE), name)
        except WontWork as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def _patch(self, raw: Mapping[str, Any], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
        """Change a node as it was read: its resourceVersion makes a change in between a conflict. False: it is gone."""
        read = section(raw, "metadata")
        version = {"resourceVersion": str(read["resourceVersion"])} if read.get("resourceVersion") else {}
        body = {"metadata": {**metadata, **version}, **({"spec": dict(spec)} if spec else {})}
        try:
            self._wire.ask("patch", "nodes", self._api.patches(NODE), str(read.get("name")), body)
        except WontWork as error:
            if error.code == NOT_FOUND:
                return False
            raise
        return True


def _is_theirs(node: ClusterNode) -> bool:
    """True for a node that someone else cordoned: neither of our annotations says why it is unschedulable."""
    return node.unschedulable and not node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}


def _gone(node: str, did: Did) -> Receipt:
    return Receipt(did=did, sentence=f"node {node} is gone")


def _with(worn: Sequence[Mapping[str, Any]], taints: Sequence[Taint]) -> list[Mapping[str, Any]]:
    """Return the whole list of taints, because a patch replaces it; those that stay are sent back as they were read."""
    replaced = {(t.key, t.effect) for t in taints}
    kept = [raw for raw in worn if ((t := taint_from(raw)).key, t.effect) not in replaced]
    return [*kept, *({"key": t.key, "value": t.value, "effect": t.effect} for t in taints)]


def _words(taint: Taint) -> str:
    """Return a taint as kubectl writes it."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
