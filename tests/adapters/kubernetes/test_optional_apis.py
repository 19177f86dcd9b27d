"""An API that only one feature needs is absent, refused, failing or taken away: that feature alone goes without."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.core.model.pods import PodPhase
from receiver.ports import PROVISIONING_CLASS, ClusterFacts
from tests.adapters.kubernetes.custom_objects import (
    KUEUE,
    VOLCANO_GROUPS,
    VOLCANO_QUEUES,
    a_group,
    a_queue,
    a_workload,
    of_gpus,
    owned_by_vcjob,
)
from tests.adapters.kubernetes.kubernetes_objects import (
    NODES,
    PODS,
    a_cluster_at,
    a_list,
    a_node,
    a_pod,
    denied,
    owned_by,
)
from tests.adapters.kubernetes.list_server import list_server
from tests.clocks import FixedClock
from tests.core.builders import NOW
from tests.given.requests import EVERY_READER

Raw = dict[str, Any]
LWS = "leaderworkerset.sigs.k8s.io"
PODS_THAT_NEED_THEM = (
    a_pod("plain"),
    a_pod("of-volcano", annotations={"scheduling.k8s.io/group-name": "volcano"}),
    a_pod("of-coscheduling", labels={"scheduling.x-k8s.io/pod-group": "coscheduling"}),
    a_pod("of-job-set", labels={"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": "w"}),
    a_pod("of-worker-set", labels={f"{LWS}/name": "lws", f"{LWS}/group-index": "0"}, annotations={f"{LWS}/size": "2"}),
    a_pod("of-pod-group", schedulingGroup={"podGroupName": "pg"}),
    a_pod("of-workload", workloadRef={"name": "w", "podGroup": "g"}),
    a_pod("of-job", ownerReferences=owned_by("Job", "train")),
    a_pod("claims", gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]),
    a_pod("system", gpus=0, node="gpu-1", namespace="kube-system", ownerReferences=owned_by("ReplicaSet", "dns")),
)
PROVISIONING = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
OBJECTS = {
    KUEUE: [
        a_workload("queued"),
        {
            **a_workload("checked", conditions=[{"type": "QuotaReserved", "status": "True"}]),
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True"}],
                "admissionChecks": [{"name": "money", "state": "Pending"}],
            },
        },
    ],
    VOLCANO_GROUPS: [
        a_group("announced", 2, minResources=of_gpus(2), priorityClassName="high"),
        a_group("of-a-job", 2, minResources=of_gpus(2), ownerReferences=owned_by_vcjob("train")),
    ],
    VOLCANO_QUEUES: [a_queue()],
    "/apis/kueue.x-k8s.io/v1beta2/admissionchecks": [
        {"metadata": {"name": "money"}, "spec": {"controllerName": "gpu-autoscaler.io/budget"}}
    ],
    "/apis/resource.k8s.io/v1/resourceslices": [
        {"metadata": {"name": "s"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "gpu-1", "pool": {"name": "p"}}}
    ],
    PROVISIONING: [
        {
            "metadata": {"namespace": "ml", "name": "r", "creationTimestamp": "2026-11-20T10:00:00Z"},
            "spec": {"provisioningClassName": PROVISIONING_CLASS, "podSets": []},
        }
    ],
}
OPTIONAL = [
    "kueue.x-k8s.io/v1beta2/workloads",
    "kueue.x-k8s.io/v1beta2/admissionchecks",
    "kueue.x-k8s.io/v1beta2/resourceflavors",
    "scheduling.volcano.sh/v1beta1/podgroups",
    "scheduling.volcano.sh/v1beta1/queues",
    "batch.volcano.sh/v1alpha1/jobs",
    "scheduling.x-k8s.io/v1alpha1/podgroups",
    "scheduling.k8s.io/v1/priorityclasses",
    "scheduling.k8s.io/v1beta1/podgroups",
    "scheduling.k8s.io/v1alpha1/workloads",
    "jobset.x-k8s.io/v1alpha2/jobsets",
    "leaderworkerset.x-k8s.io/v1/leaderworkersets",
    "batch/v1/jobs",
    "autoscaling.x-k8s.io/v1beta1/capacitybuffers",
    "autoscaling.x-k8s.io/v1/provisioningrequests",
    "policy/v1/namespaces/kube-system/poddisruptionbudgets",
    "resource.k8s.io/v1/resourceslices",
    "resource.k8s.io/v1/deviceclasses",
    "resource.k8s.io/v1/resourceclaims",
    "resource.k8s.io/v1/resourceclaimtemplates",
    "resource.k8s.io/v1/devicetaintrules",
]


class Server:
    """Serves every list, empty unless it is in `OBJECTS`; *refused* are the groups and lists that it does not."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        self.asked: set[str] = set()

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.add(path)
        status = next((s for name, s in self.refused.items() if path == f"/apis/{name}" or path.startswith(name)), 200)
        if status != 200:
            refusal = denied("list", path.rpartition("/")[2]) if status == 403 else {}
            return status, json.dumps(refusal).encode()
        found = {NODES: [a_node()], PODS: PODS_THAT_NEED_THEM, **OBJECTS}.get(path, [])
        return 200, json.dumps(a_list(*found)).encode()


@contextmanager
def a_cluster(server: Server, clock: FixedClock) -> Iterator[KubernetesCluster]:
    with list_server(server.answer) as url:
        cluster = a_cluster_at(
            url,
            clock=clock,
            kueue_queued=True,
            volcano_podgroups=True,
            readers=EVERY_READER,
        )
        try:
            yield cluster
        finally:
            cluster.close()


def works(facts: ClusterFacts) -> bool:
    """True when the node and the pod are there that need none of these APIs."""
    waiting = {pod.name for pod in facts.pods if pod.phase is PodPhase.WAITING}
    return [node.name for node in facts.nodes] == ["gpu-1"] and {"plain", "of-job"} <= waiting


STATUSES = (404, 403, 500)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("name", OPTIONAL)
def test_a_list_that_one_feature_needs_silences_that_feature_alone(name: str, status: int) -> None:
    """It is refused from the second look on: first for as long as what was read before may count, then for longer."""
    server, clock = Server(), FixedClock(NOW)
    with a_cluster(server, clock) as cluster:
        assert works(cluster.look())
        server.refused = {name: status}
        for _ in range(2):
            clock.at += timedelta(minutes=8)
            assert works(cluster.look())
        server.refused = {}
        clock.at += timedelta(minutes=11)
        facts = cluster.look()
    assert works(facts)
    assert not facts.unread
    assert f"/apis/{name}" in server.asked


# Devices may be the only GPUs of a node, so a failing API server is asked again for a few minutes: test_dra.py.
AT_FIRST = [
    (name, status)
    for name, status in product(OPTIONAL, STATUSES)
    if status != 500 or not name.endswith(("/resourceslices", "/deviceclasses"))
]


@pytest.mark.parametrize(("name", "status"), AT_FIRST)
def test_a_list_that_was_never_there_silences_its_feature_alone(name: str, status: int) -> None:
    server = Server()
    server.refused = {name: status}
    with a_cluster(server, FixedClock(NOW)) as cluster:
        assert works(cluster.look())


@pytest.mark.parametrize(
    "group",
    sorted({name.partition("/")[0] for name in OPTIONAL} - {"batch", "policy"}),
)
def test_a_whole_group_that_is_taken_away_silences_its_features_alone(group: str) -> None:
    server, clock = Server(), FixedClock(NOW)
    with a_cluster(server, clock) as cluster:
        assert works(cluster.look())
        server.refused = {f"/apis/{group}/": 404}
        clock.at += timedelta(seconds=10)
        assert works(cluster.look())


QUEUES = [
    ("kueue.x-k8s.io/v1beta2/workloads", "ml/queued", 'kueue.demand is "queued"'),
    ("scheduling.volcano.sh/v1beta1/podgroups", "ml/announced", 'volcano.demand is "podgroups"'),
    ("scheduling.volcano.sh/v1beta1/queues", "ml/announced", 'volcano.demand is "podgroups"'),
]


@pytest.mark.parametrize(("name", "gang", "setting"), QUEUES)
@pytest.mark.parametrize(
    ("status", "remedy"), [(404, "install it or change that"), (403, 'verbs: ["list"]')], ids=["absent", "refused"]
)
def test_a_queue_that_is_configured_and_cannot_be_read_is_empty_and_told_with_its_remedy(
    name: str, gang: str, setting: str, status: int, remedy: str
) -> None:
    server = Server()
    server.refused = {name: status, name.replace("v1beta2", "v1beta1"): status}
    with a_cluster(server, FixedClock(NOW)) as cluster:
        facts = cluster.look()
    assert gang not in {pod.gang for pod in facts.pods}
    assert setting in facts.unread
    assert name.rpartition("/")[2] in facts.unread
    assert remedy in facts.unread


@pytest.mark.parametrize(("name", "gang", "setting"), QUEUES)
def test_while_the_api_fails_a_queue_counts_as_it_was_read_last_for_ten_minutes(
    name: str, gang: str, setting: str
) -> None:
    server, clock = Server(), FixedClock(NOW)
    with a_cluster(server, clock) as cluster:
        assert gang in {pod.gang for pod in cluster.look().pods}
        server.refused = {name: 500}
        clock.at += timedelta(minutes=9)
        facts = cluster.look()
        assert gang in {pod.gang for pod in facts.pods}
        assert not facts.unread
        clock.at += timedelta(minutes=1)
        facts = cluster.look()
    assert gang not in {pod.gang for pod in facts.pods}
    assert setting in facts.unread
