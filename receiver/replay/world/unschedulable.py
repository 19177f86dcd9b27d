"""Why a pod does not fit: the sentence that kube-scheduler leaves on it."""

from collections import Counter
from collections.abc import Iterable, Mapping

from receiver.replay.world.config import CLAIMS
from receiver.replay.world.matching import selects, untolerated
from receiver.replay.world.objects import WorldNode, WorldPod

Used = Mapping[str, Mapping[str, int]]


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
