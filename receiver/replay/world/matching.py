"""Whether a node lets a pod in by its taints and labels, as Kubernetes documents it, and kube-scheduler's words if not.

Written apart from the product's own idea of what fits where, so that the two check each other.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from receiver.core.model.pods import Preference, Requirement, Toleration
from receiver.core.model.policy import Taint
from receiver.replay.world.config import CLAIMS
from receiver.replay.world.objects import WorldNode, WorldPod

Used = Mapping[str, Mapping[str, int]]


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps a pod with *tolerations* away, or None."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(_tolerates(t, taint) for t in tolerations):
            return taint
    return None


def soft(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> int:
    """Return how many taints would rather have a pod with *tolerations* elsewhere."""
    return sum(t.effect == "PreferNoSchedule" and not any(_tolerates(x, t) for x in tolerations) for t in taints)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def selects(
    labels: Mapping[str, str], node_selector: Mapping[str, str], affinity: tuple[tuple[Requirement, ...], ...]
) -> bool:
    """True when *labels* satisfy the selector and one of the affinity's alternatives."""
    if any(labels.get(k) != v for k, v in node_selector.items()):
        return False
    return not affinity or any(term and all(_holds(r, labels) for r in term) for term in affinity)


def preference(labels: Mapping[str, str], preferred: Iterable[Preference]) -> int:
    """Return the sum of the weights of what *labels* satisfy; an empty term counts nothing."""
    return sum(p.weight for p in preferred if p.term and all(_holds(r, labels) for r in p.term))


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    have = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return have is not None and have in requirement.values
        case "NotIn":
            return have is None or have not in requirement.values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt":
            try:
                number, bound = int(have or ""), int(requirement.values[0])
            except (ValueError, IndexError):
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
    raise ValueError(f"unknown operator {requirement.operator!r}")


def why_not(pod: WorldPod, nodes: Iterable[WorldNode], used: Used) -> str:
    """Return the sentence: how many nodes fail for which reason, counted and sorted as kube-scheduler does.

    A node is counted under the first of its filters that fails; too little of several resources counts for each.
    """
    reasons: Counter[str] = Counter()
    total = 0
    for node in nodes:
        total += 1
        reasons.update(_reasons(pod, node, used.get(node.name, {})))
    if not total:
        return "no nodes available to schedule pods"
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{total} nodes are available: {told}."


def _reasons(pod: WorldPod, node: WorldNode, used: Mapping[str, int]) -> Iterable[str]:
    taint = untolerated(node.taints, pod.tolerations)
    if taint is not None and node.unschedulable:
        return ("node(s) were unschedulable",)
    if taint is not None:
        return (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",)
    if not selects(node.labels, pod.node_selector, pod.affinity):
        return ("node(s) didn't match Pod's node affinity/selector",)
    short = [r for r, count in pod.asks.items() if node.allocatable.get(r, 0) - used.get(r, 0) < count]
    if CLAIMS in short:
        return ("cannot allocate all claims",)
    return [f"Insufficient {r}" for r in short] or ("node(s) didn't have room for the whole gang",)
