"""What we put on nodes: cordons that say what they are for, and the labels and taints of their pool.

Promises never to touch a cordon of someone else, and to keep the labels and taints that others put there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from receiver.adapters.kubernetes.api import NODE, NOT_FOUND, ClusterPart, Json, entries, section, versioned
from receiver.adapters.kubernetes.nodes import node_from, taint_from
from receiver.core.model.policy import Taint
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION, ClusterNode, Did, Receipt, WontWork


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

    def _close(self, node: str, annotation: str, value: str, already: str, done: str) -> Receipt:
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        found = node_from(raw)
        if _is_theirs(found):
            return Receipt(did=Did.DIFFERS, sentence=f"someone else cordoned node {node}; it is theirs")
        if found.annotations.get(annotation) == value:
            if found.unschedulable:
                return Receipt(did=Did.ALREADY, sentence=already)
            if annotation == CORDON_ANNOTATION:
                return Receipt(did=Did.DIFFERS, sentence=f"someone made node {node} schedulable again; it stays")
        return self._change(raw, {"annotations": {annotation: value}}, {"unschedulable": True}, done)

    def uncordon(self, node: str) -> Receipt:
        """Undo a cordon of ours for a removal."""
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.ALREADY)
        found = node_from(raw)
        if CORDON_ANNOTATION in found.annotations:
            return self._lift(raw, found, CORDON_ANNOTATION, STOP_ANNOTATION)
        if _is_theirs(found):
            return Receipt(did=Did.DIFFERS, sentence=f"someone else cordoned node {node}; it is theirs")
        return Receipt(did=Did.ALREADY, sentence=f"node {node} is not cordoned for a removal")

    def uncordon_for_budget(self, node: str) -> Receipt:
        """Undo `cordon_for_budget`; a cordon for a removal stays."""
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.ALREADY)
        found = node_from(raw)
        if STOP_ANNOTATION not in found.annotations:
            return Receipt(did=Did.ALREADY, sentence=f"node {node} is not closed to new work by us")
        return self._lift(raw, found, STOP_ANNOTATION, CORDON_ANNOTATION)

    def _lift(self, raw: Json, found: ClusterNode, annotation: str, other: str) -> Receipt:
        """Take *annotation* off, and the cordon with it unless the *other* one is a reason for it too."""
        metadata = {"annotations": {annotation: None}}
        if other in found.annotations:
            return self._change(
                raw, metadata, {}, f"node {found.name} stays cordoned for the other reason", Did.ALREADY
            )
        done = f"made node {found.name} schedulable again"
        return self._change(raw, metadata, {"unschedulable": False}, done, Did.ALREADY)

    def lifted(self, node: str) -> Receipt | None:
        """Return DIFFERS when *node* no longer bears our cordon for a removal; None when it does, or is gone."""
        raw = self._node(node)
        found = None if raw is None else node_from(raw)
        if found is None or (found.unschedulable and CORDON_ANNOTATION in found.annotations):
            return None
        return Receipt(did=Did.DIFFERS, sentence=f"someone lifted our cordon of node {node}; it stays")

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        """Put on *node* what it lacks of *labels* and *taints*; a node that is gone DIFFERS.

        A label of ours with another value is replaced, and so is a taint of the same key and effect: Kubernetes
        allows one of each.
        """
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        found = node_from(raw)
        new_labels = {key: value for key, value in labels.items() if found.labels.get(key) != value}
        new_taints = [taint for taint in taints if taint not in found.taints]
        if not new_labels and not new_taints:
            return Receipt(did=Did.ALREADY, sentence=f"node {node} has these labels and taints already")
        spec = {"taints": _with(entries(section(raw, "spec"), "taints"), new_taints)} if new_taints else {}
        what = [*(f"{key}={value}" for key, value in sorted(new_labels.items())), *map(_kubectl, new_taints)]
        done = f"put {', '.join(what)} on node {node}"
        return self._change(raw, {"labels": new_labels} if new_labels else {}, spec, done)

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        """Let *node* carry exactly *taints* of our soft ones; a node that is gone DIFFERS."""
        raw = self._node(node)
        if raw is None:
            return _gone(node, Did.DIFFERS)
        if {t for t in node_from(raw).taints if t in SOFT_TAINTS} == set(taints):
            return Receipt(did=Did.ALREADY, sentence=f"node {node} carries these soft taints already")
        others = [entry for entry in entries(section(raw, "spec"), "taints") if taint_from(entry) not in SOFT_TAINTS]
        done = f"node {node} carries {', '.join(map(_kubectl, taints)) or 'no soft taint'}"
        return self._change(raw, {}, {"taints": _with(others, taints)}, done)

    def _node(self, name: str) -> Json | None:
        return self._wire.find("nodes", NODE, name)

    def _change(self, raw: Json, metadata: Json, spec: Json, done: str, gone: Did = Did.DIFFERS) -> Receipt:
        """Change a node as it was read; *gone* is what a node that is no longer there means."""
        name = str(section(raw, "metadata").get("name"))
        body: dict[str, Any] = {"metadata": {**metadata, **versioned(raw)}, **({"spec": spec} if spec else {})}
        try:
            self._wire.ask("patch", "nodes", NODE, name, body)
        except WontWork as error:
            if error.code == NOT_FOUND:
                return _gone(name, gone)
            raise
        return Receipt(did=Did.DONE, sentence=done)


def _is_theirs(node: ClusterNode) -> bool:
    """True for a node that someone else cordoned: neither of our annotations says why it is unschedulable."""
    return node.unschedulable and not node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}


def _gone(node: str, did: Did) -> Receipt:
    return Receipt(did=did, sentence=f"node {node} is gone")


def _with(worn: Sequence[Json], taints: Sequence[Taint]) -> list[Json]:
    """Return the whole list of taints, because a patch replaces it; those that stay are sent back as they were read."""
    replaced = {(t.key, t.effect) for t in taints}
    kept = [raw for raw in worn if ((t := taint_from(raw)).key, t.effect) not in replaced]
    return [*kept, *({"key": t.key, "value": t.value, "effect": t.effect} for t in taints)]


def _kubectl(taint: Taint) -> str:
    """Return a taint as kubectl writes it."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
