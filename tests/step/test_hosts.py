"""Nodes without GPUs count as hosts of a topology spread, unless a pod's node selector leaves them out."""

from dataclasses import replace
from typing import Any

import pytest

from receiver.core.model.pods import HostRule, Requirement, Together
from receiver.core.model.policy import POOL_LABEL
from receiver.ports import ClusterFacts, ClusterNode
from receiver.step.hosts import beside_other_nodes
from tests.core.builders import a_pod, a_policy, with_fields
from tests.given.requests import buffer_of, candidate_of

EVENLY = HostRule(together=Together.EVENLY, namespaces=("ml",))
APART = replace(EVENLY, together=Together.NEVER)
LINUX = Requirement(key="kubernetes.io/os", operator="In", values=("linux",))
GPU_NODE = ClusterNode(name="g", instance="i-g", ready=True, unschedulable=False, labels={POOL_LABEL: "l40s-id"})
CPU_LABELS = {POOL_LABEL: "cpu-id", "kubernetes.io/os": "linux"}
CPU_NODE = ClusterNode(name="c", instance="i-c", ready=True, unschedulable=False, labels=CPU_LABELS)


@pytest.mark.parametrize(
    ("pod", "nodes", "elsewhere"),
    [
        pytest.param({}, (GPU_NODE, CPU_NODE), True, id="a pod that selects nothing"),
        pytest.param({"affinity": ((LINUX,),)}, (GPU_NODE, CPU_NODE), True, id="one whose affinity allows them"),
        pytest.param({"node_selector": {POOL_LABEL: "l40s-id"}}, (GPU_NODE, CPU_NODE), False, id="one of a pool"),
        pytest.param({}, (GPU_NODE,), False, id="no other nodes"),
    ],
)
def test_a_spread_counts_nodes_outside_the_pools(
    pod: dict[str, Any], nodes: tuple[ClusterNode, ...], elsewhere: bool
) -> None:
    found = beside_other_nodes(ClusterFacts(nodes=nodes, pods=(a_pod(host_rules=(APART, EVENLY), **pod),)), a_policy())
    assert found.pods[0].scheduling.host_rules == (APART, replace(EVENLY, elsewhere=elsewhere))


def test_pods_that_are_only_announced_are_marked_as_well() -> None:
    pod = a_pod(host_rules=(EVENLY,))
    cluster = ClusterFacts(
        nodes=(CPU_NODE,),
        pods=(),
        requests=(buffer_of("ml/b", pod, 1), candidate_of("ml/c", [pod]), buffer_of("ml/wrong", None, problem="?")),
    )
    found = beside_other_nodes(cluster, a_policy())
    marked = with_fields(pod, host_rules=(replace(EVENLY, elsewhere=True),))
    assert [request.pods for request in found.requests] == [(marked,), (marked,), ()]


def test_without_a_spread_nothing_is_copied() -> None:
    cluster = ClusterFacts(nodes=(CPU_NODE,), pods=(a_pod(), a_pod(host_rules=(APART,))))
    assert beside_other_nodes(cluster, a_policy()).pods[1] is cluster.pods[1]
