"""Custom resources that a test seeds, read by the product's own adapter over HTTP."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, KubernetesCluster, connect
from receiver.core.model.pods import PodPhase
from simulator.manifests import pod_spec
from simulator.server import Simulator
from tests.adapters.kubernetes.custom_objects import (
    a_group,
    a_queue,
    a_template,
    a_vcjob,
    a_workload,
    of_gpus,
    owned_by_vcjob,
)
from tests.simulator.builders import k8s

Connect = Callable[..., KubernetesCluster]
KUEUE = ("kueue.x-k8s.io/v1beta2", "Workload")
GROUP = ("scheduling.volcano.sh/v1beta1", "PodGroup")
QUEUE = ("scheduling.volcano.sh/v1beta1", "Queue")
VCJOB = ("batch.volcano.sh/v1alpha1", "Job")


@pytest.fixture
def connected(sim: Simulator, tmp_path: Path) -> Iterator[Connect]:
    """Connect the adapter with options of its own."""
    opened: list[KubernetesCluster] = []

    def begin(**options: Any) -> KubernetesCluster:
        opened.append(
            connect(
                str(sim.kubeconfig(tmp_path / "kubeconfig")),
                calls=Calls(timeouts=(60, 60)),
                options=ClusterOptions(**options),
            )
        )
        return opened[-1]

    yield begin
    for cluster in opened:
        cluster.close()


def seed(sim: Simulator, kind: tuple[str, str], *objects: dict[str, Any]) -> requests.Response:
    body = [{"apiVersion": kind[0], "kind": kind[1], **one} for one in objects]
    return requests.post(f"{sim.url}/_custom", json=body, timeout=60)


@contextmanager
def pages_of(size: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr("receiver.adapters.kubernetes.api.PAGE", size)
        yield


def test_a_queue_of_kueue_becomes_demand_page_by_page(
    sim: Simulator, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seed(sim, KUEUE, *(a_workload(f"w-{n}") for n in range(5))).status_code == 201
    with pages_of(2, monkeypatch):
        pods = connected(kueue_queued=True).look().pods
    assert {(p.gang, p.phase) for p in pods} == {(f"ml/w-{n}", PodPhase.WAITING) for n in range(5)}
    assert len(pods) == 10
    page = requests.get(f"{sim.url}/apis/{KUEUE[0]}/workloads?limit=2", timeout=60).json()
    assert (len(page["items"]), page["kind"], bool(page["metadata"]["continue"])) == (2, "WorkloadList", True)


def test_pending_groups_of_volcano_become_demand_within_their_queue(sim: Simulator, connected: Connect) -> None:
    owned = {"ownerReferences": owned_by_vcjob("train")}
    seed(sim, GROUP, a_group("small", 2, **owned), a_group("large", 8, minResources=of_gpus(8)))
    seed(sim, QUEUE, a_queue(capability=4))
    seed(sim, VCJOB, a_vcjob("train", {"name": "w", "replicas": 2, "template": a_template(2)}))
    pods = connected(volcano_podgroups=True).look().pods
    assert [(p.key, p.gpus, p.gang) for p in pods] == [("ml/small/0", 2, "ml/small"), ("ml/small/1", 2, "ml/small")]


def test_a_group_completes_the_gang_of_pods_that_exist(sim: Simulator, connected: Connect) -> None:
    annotations = {"scheduling.k8s.io/group-name": "pg"}
    with sim.moved() as world:
        for n in range(3):
            metadata = {"namespace": "ml", "name": f"w-{n}", "annotations": annotations}
            world.add_pod(pod_spec({"metadata": metadata, "spec": a_template(8)["spec"]}))
    seed(sim, GROUP, a_group("pg", 2))
    assert {p.gang_min for p in connected().look().pods if p.gang} == {2}


def test_a_group_that_is_not_installed_is_not_found(sim: Simulator, connected: Connect) -> None:
    assert "does not serve workloads.kueue.x-k8s.io" in connected(kueue_queued=True).look().unread


def test_what_was_installed_can_be_taken_away(sim: Simulator, connected: Connect) -> None:
    seed(sim, KUEUE, a_workload())
    assert len(connected(kueue_queued=True).look().pods) == 2
    requests.delete(f"{sim.url}/_custom", timeout=60)
    found = connected(kueue_queued=True).look()
    assert (found.pods, bool(found.unread)) == ((), True)


def test_a_missing_right_is_named(sim: Simulator, connected: Connect) -> None:
    seed(sim, KUEUE, a_workload())
    sim.live.denied.add("list workloads.kueue.x-k8s.io")
    assert 'apiGroups: ["kueue.x-k8s.io"]' in connected(kueue_queued=True).look().unread


def test_an_object_of_no_known_kind_is_refused(sim: Simulator) -> None:
    assert seed(sim, ("example.com/v1", "Thing"), a_workload()).status_code == 400


def test_what_surrounds_workloads_is_read_by_the_official_client(
    sim: Simulator, api_for: Callable[[Simulator], Any]
) -> None:
    seed(sim, ("v1", "Namespace"), {"metadata": {"name": "ml", "labels": {"a": "b"}}})
    seed(sim, ("scheduling.k8s.io/v1", "PriorityClass"), {"metadata": {"name": "production"}, "value": 7})
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    seed(sim, ("networking.k8s.io/v1", "NetworkPolicy"), {"metadata": {"name": "p", "namespace": "ml"}, "spec": spec})
    api = api_for(sim)
    namespaces = {n.metadata.name: n.metadata.labels for n in k8s.CoreV1Api(api).list_namespace().items}
    assert namespaces["ml"] == {"a": "b"}
    assert "default" in namespaces
    assert [c.value for c in k8s.SchedulingV1Api(api).list_priority_class().items] == [7]
    [policy] = k8s.NetworkingV1Api(api).list_network_policy_for_all_namespaces().items
    assert (policy.metadata.namespace, policy.spec.policy_types) == ("ml", ["Ingress"])
    daemons = k8s.AppsV1Api(api).list_daemon_set_for_all_namespaces().items
    assert {(d.metadata.name, d.status.number_ready) for d in daemons} == {
        ("nvidia-device-plugin-daemonset", 1),
        ("nvidia-dcgm-exporter", 1),
    }
    tolerated = {t.key for d in daemons for t in d.spec.template.spec.tolerations}
    assert tolerated == {"nvidia.com/gpu", "gpu"}


def test_groups_that_are_installed_are_discovered_and_built_in_ones_stay(sim: Simulator) -> None:
    def groups() -> set[str]:
        return {group["name"] for group in requests.get(f"{sim.url}/apis", timeout=60).json()["groups"]}

    assert "kueue.x-k8s.io" not in groups()
    seed(sim, KUEUE, a_workload("w"))
    assert "kueue.x-k8s.io" in groups()
    requests.delete(f"{sim.url}/_custom", timeout=60)
    assert "kueue.x-k8s.io" not in groups()
    assert requests.get(f"{sim.url}/apis/apps/v1/daemonsets", timeout=60).status_code == 200
