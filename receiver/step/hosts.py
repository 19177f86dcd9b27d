"""Nodes outside the GPU pools, as topology spread constraints of GPU pods see them: nodes with none of those pods."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from receiver.core.model.pods import Pod, Together
from receiver.core.model.policy import POOL_LABEL, Policy
from receiver.core.scaling.neighbours import Selection, chooses, selection_of
from receiver.ports import ClusterFacts


def beside_other_nodes(cluster: ClusterFacts, policy: Policy) -> ClusterFacts:
    """Return *cluster* with each spread of a pod marked that counts nodes beside those of the pools. By default every
    node counts that the pod's node selector and affinity allow, with or without GPUs."""
    announced = [pod for request in cluster.requests for pod in request.pods if not request.waits]
    if not any(pod.scheduling.host_rules for pod in (*cluster.pods, *announced)):
        return cluster
    ours = {pool.id for pool in policy.pools}
    others = [node.labels for node in cluster.nodes if node.labels.get(POOL_LABEL) not in ours]
    choices: dict[Selection, bool] = {}

    def marked(pods: Sequence[Pod]) -> tuple[Pod, ...]:
        return tuple(_marked(pod, others, choices) if pod.scheduling.host_rules else pod for pod in pods)

    return replace(
        cluster,
        pods=marked(cluster.pods),
        requests=tuple(r if r.waits else replace(r, pods=marked(r.pods)) for r in cluster.requests),
    )


def _marked(pod: Pod, others: Sequence[Mapping[str, str]], choices: dict[Selection, bool]) -> Pod:
    if all(rule.together is not Together.EVENLY for rule in pod.scheduling.host_rules):
        return pod
    selection = selection_of(pod)
    if selection not in choices:
        choices[selection] = any(chooses(selection, labels) for labels in others)
    if not choices[selection]:
        return pod
    rules = (replace(r, elsewhere=True) if r.together is Together.EVENLY else r for r in pod.scheduling.host_rules)
    return replace(pod, scheduling=replace(pod.scheduling, host_rules=tuple(rules)))
