"""Other autoscalers that act on the same pools: two of them undo each other's changes. A pure judgement."""

import re
from collections.abc import Iterator, Sequence

from receiver.adapters.survey.cluster import SeenNode, SeenPod
from receiver.core.model.policy import Policy
from receiver.doctor.finding import Check, Finding
from receiver.doctor.nodes import of_pool

AUTOSCALERS = Check(
    "kubernetes.other_autoscaler",
    "whether Cluster Autoscaler, Karpenter or another autoscaler of nodes acts on a configured pool",
    ("warn", "fail"),
    "take the pool out of its `--nodes` (and leave out `:workers`, which means every pool), or delete it "
    "(docs/why-not-cluster-autoscaler.md)",
)
CLUSTER_AUTOSCALER = "cluster-autoscaler"
OTHERS = ("karpenter", "cluster-turndown", "escalator", "k8s-spot-rescheduler")
EVERY_POOL = "workers"  # Cluster Autoscaler's provider for Civo: the same bounds for every pool
MARKS = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")
NODES = re.compile(r"(\d+):(\d+):([A-Za-z0-9._-]+)")


def others(pods: Sequence[SeenPod], nodes: Sequence[SeenNode], policy: Policy) -> Iterator[Finding]:
    """Look for pods of autoscalers, by their images, and for their marks on our nodes."""
    found = list(_found(pods, nodes, policy))
    yield from found or [AUTOSCALERS.passed("no other autoscaler acts on a configured pool")]


def _found(pods: Sequence[SeenPod], nodes: Sequence[SeenNode], policy: Policy) -> Iterator[Finding]:
    ours = {pool.id: pool.name for pool in policy.pools}
    for pod in pods:
        image = pod.words[0] if pod.words else ""
        if pod.is_ours or not image:
            continue
        if CLUSTER_AUTOSCALER in image:
            if taken := _targets(pod) & {*ours, EVERY_POOL} if _targets(pod) else {EVERY_POOL}:
                whose = ", ".join("every pool" if t == EVERY_POOL else f"pool {ours[t]}" for t in sorted(taken))
                yield AUTOSCALERS.failed(f"{pod.key} is Cluster Autoscaler and resizes {whose}")
        elif other := next((name for name in OTHERS if name in image), None):
            yield AUTOSCALERS.warned(
                f"{pod.key} is {other}, which may remove nodes of our pools", "keep it off the configured pools"
            )
    for pool in policy.pools:
        marked = [s.node.name for s in of_pool(nodes, pool) if any(t.key in MARKS for t in s.node.taints)]
        if marked:
            yield AUTOSCALERS.failed(f"Cluster Autoscaler marked nodes of pool {pool.name}: {', '.join(marked)}")


def _targets(pod: SeenPod) -> set[str]:
    """The pools that ``--nodes=min:max:POOL`` names; one that names a pool makes ``workers`` count for nothing."""
    named = {found.group(3) for word in pod.words if (found := NODES.search(word)) and "node" in _flag(pod, word)}
    return named - {EVERY_POOL} or named


def _flag(pod: SeenPod, word: str) -> str:
    """The flag that *word* belongs to: its own, or the word before it."""
    if "=" in word:
        return word.partition("=")[0]
    before = pod.words.index(word) - 1
    return pod.words[before] if before >= 0 else ""
