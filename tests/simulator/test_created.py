"""What the plain client creates at the simulated Kubernetes API beside pods: namespaces, budgets, owners."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from simulator.server import Simulator
from tests.simulator.builders import k8s

SPEC = {"containers": [{"name": "main", "image": "busybox"}], "tolerations": [{"operator": "Exists"}]}
POD = {"spec": SPEC, "metadata": {"labels": {"app": "web"}}}


def refused(call: Any) -> int:
    with pytest.raises(ApiException) as found:
        call()
    return int(found.value.status)


def names(core: Any) -> list[str]:
    return sorted(p.metadata.name for p in core.list_namespaced_pod("ml").items)


def test_a_namespace_comes_once_with_its_labels_and_goes_with_its_pods(core: Any) -> None:
    made = {"metadata": {"name": "ml", "labels": {"team": "vision"}}}
    core.create_namespace(made)
    assert core.read_namespace("ml").metadata.labels == {"team": "vision"}
    assert refused(lambda: core.create_namespace(made)) == 409
    core.create_namespaced_pod("ml", {**POD, "metadata": {"name": "train"}})
    core.delete_namespace("ml")
    assert refused(lambda: core.read_namespace("ml")) == 404
    assert names(core) == []


def test_a_deployment_is_its_pods_which_are_replaced_until_it_is_deleted(
    core: Any, sim: Simulator, api_for: Callable[[Simulator], Any]
) -> None:
    apps = k8s.AppsV1Api(api_for(sim))
    apps.create_namespaced_deployment(
        "ml", {"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {}, "template": POD}}
    )
    assert apps.read_namespaced_deployment("web", "ml").spec.replicas == 2
    assert [d.metadata.name for d in apps.list_namespaced_deployment("ml", label_selector="app=web").items] == ["web"]
    assert apps.list_namespaced_deployment("ml", label_selector="app=other").items == []
    core.delete_namespaced_pod("web-5d4f8c7b9-0", "ml")
    sim.live.turn(timedelta(seconds=10))
    assert len(names(core)) == 2
    apps.delete_namespaced_deployment("web", "ml")
    sim.live.turn(timedelta(seconds=10))
    assert names(core) == []
    assert refused(lambda: apps.delete_namespaced_deployment("other", "ml")) == 404


def test_a_job_is_its_pods_which_end_and_go_with_it(
    core: Any, sim: Simulator, api_for: Callable[[Simulator], Any]
) -> None:
    batch = k8s.BatchV1Api(api_for(sim))
    template = {**POD, "metadata": {"annotations": {"simulator/duration-seconds": "5"}}}
    made = {"metadata": {"name": "train"}, "spec": {"parallelism": 2, "template": template}}
    batch.create_namespaced_job("ml", made)
    sim.live.turn(timedelta(minutes=2))
    assert [p.status.phase for p in core.list_namespaced_pod("ml").items] == ["Succeeded", "Succeeded"]
    assert refused(lambda: batch.create_namespaced_job("ml", made)) == 409
    batch.delete_namespaced_job("train", "ml")
    assert names(core) == []


def test_a_budget_that_is_created_forbids_evictions_until_it_is_deleted(
    core: Any, sim: Simulator, api_for: Callable[[Simulator], Any]
) -> None:
    policy = k8s.PolicyV1Api(api_for(sim))
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    policy.create_namespaced_pod_disruption_budget("ml", {"metadata": {"name": "web"}, "spec": spec})
    core.create_namespaced_pod("ml", {**POD, "metadata": {"name": "web", "labels": {"app": "web"}}})
    sim.live.turn(timedelta(minutes=1))
    eviction = {"metadata": {"name": "web"}}
    assert refused(lambda: core.create_namespaced_pod_eviction("web", "ml", eviction)) == 429
    policy.delete_namespaced_pod_disruption_budget("web", "ml")
    core.create_namespaced_pod_eviction("web", "ml", eviction)
    assert refused(lambda: policy.delete_namespaced_pod_disruption_budget("web", "ml")) == 404
