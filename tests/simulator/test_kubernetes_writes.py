"""The Kubernetes face written to by the official client."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests
from kubernetes.client.exceptions import ApiException

from simulator.server import Simulator
from tests.simulator.builders import GPU_POOL, a_pod_manifest, k8s

Starter = Callable[..., Simulator]
ApiFor = Callable[[Simulator], Any]


def node_of(core: Any) -> Any:
    return core.list_node().items[0]


# --- nodes ------------------------------------------------------------------------------------------------


def test_a_cordon_marks_the_node_and_keeps_pods_away(sim: Simulator, core: Any) -> None:
    name = node_of(core).metadata.name
    body = {"spec": {"unschedulable": True}, "metadata": {"annotations": {"gpu-autoscaler.io/cordoned-for": "a1"}}}
    core.patch_node(name, body)
    node = core.read_node(name)
    assert node.spec.unschedulable is True
    assert node.metadata.annotations["gpu-autoscaler.io/cordoned-for"] == "a1"
    assert "node.kubernetes.io/unschedulable" in {t.key for t in node.spec.taints}
    core.create_namespaced_pod("default", a_pod_manifest("late"))
    sim.live.turn(timedelta(seconds=5))
    assert core.read_namespaced_pod("late", "default").spec.node_name is None


def test_null_in_a_patch_removes_the_cordon_and_its_annotation(core: Any) -> None:
    name = node_of(core).metadata.name
    core.patch_node(name, {"spec": {"unschedulable": True}, "metadata": {"annotations": {"a": "1", "b": "2"}}})
    core.patch_node(name, {"spec": {"unschedulable": None}, "metadata": {"annotations": {"a": None}}})
    node = core.read_node(name)
    assert node.spec.unschedulable is None
    assert node.metadata.annotations == {"b": "2"}
    assert [t.key for t in node.spec.taints] == ["gpu"]


@pytest.mark.parametrize(
    "content_type, body",
    [
        ("application/merge-patch+json", {"spec": {"unschedulable": True}}),
        ("application/strategic-merge-patch+json", {"spec": {"unschedulable": True}}),
        ("application/json-patch+json", [{"op": "add", "path": "/spec/unschedulable", "value": True}]),
    ],
)
def test_every_patch_format_works(sim: Simulator, core: Any, content_type: str, body: object) -> None:
    url = f"{sim.url}/api/v1/nodes/{node_of(core).metadata.name}"
    answer = requests.patch(url, data=json.dumps(body), headers={"Content-Type": content_type}, timeout=60)
    assert (answer.status_code, answer.json()["spec"]["unschedulable"]) == (200, True)


def test_the_official_client_may_send_a_list_of_operations(core: Any) -> None:
    name = node_of(core).metadata.name
    operations = [
        {"op": "test", "path": "/metadata/labels/gpu", "value": "on-demand"},
        {"op": "add", "path": "/metadata/labels/gpu-autoscaler.io~1seen", "value": "yes"},
        {"op": "remove", "path": "/metadata/labels/gpu"},
    ]
    labels = core.patch_node(name, operations).metadata.labels
    assert (labels["gpu-autoscaler.io/seen"], "gpu" in labels) == ("yes", False)
    with pytest.raises(ApiException) as refused:
        core.patch_node(name, operations)
    assert refused.value.status == 422


def test_a_patch_of_an_older_version_conflicts(core: Any) -> None:
    node = node_of(core)
    version = node.metadata.resource_version
    core.patch_node(node.metadata.name, {"metadata": {"labels": {"a": "1"}}})
    with pytest.raises(ApiException) as refused:
        core.patch_node(node.metadata.name, {"metadata": {"resourceVersion": version, "labels": {"a": "2"}}})
    assert refused.value.status == 409


def test_an_unknown_patch_format_is_refused(sim: Simulator, core: Any) -> None:
    url = f"{sim.url}/api/v1/nodes/{node_of(core).metadata.name}"
    assert requests.patch(url, data="{}", headers={"Content-Type": "text/plain"}, timeout=60).status_code == 415


def test_a_dry_run_changes_nothing(core: Any) -> None:
    name = node_of(core).metadata.name
    assert core.patch_node(name, {"spec": {"unschedulable": True}}, dry_run="All").spec.unschedulable is True
    assert core.read_node(name).spec.unschedulable is None


def test_a_deleted_node_object_leaves_its_machine_running(sim: Simulator, core: Any) -> None:
    core.delete_node(node_of(core).metadata.name)
    assert core.list_node().items == []
    with sim.moved() as world:
        assert [vm.status for vm in world.pools[GPU_POOL].instances] == ["ACTIVE"]


# --- pods -------------------------------------------------------------------------------------------------


def test_a_created_pod_is_scheduled_and_runs(sim: Simulator, core: Any) -> None:
    created = core.create_namespaced_pod("team-a", a_pod_manifest("train", nodeSelector={"gpu": "on-demand"}))
    assert created.spec.containers[0].resources.requests["nvidia.com/gpu"] == "1"
    sim.live.turn(timedelta(seconds=10))
    assert core.read_namespaced_pod("train", "team-a").status.phase == "Running"
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod("team-a", a_pod_manifest("train"))
    assert refused.value.status == 409


def test_an_init_container_may_ask_for_more_than_the_rest(core: Any) -> None:
    wide = {"name": "prepare", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "2"}}}
    core.create_namespaced_pod("default", a_pod_manifest("train", initContainers=[wide]))
    found = core.read_namespaced_pod("train", "default")
    assert found.spec.containers[0].resources.requests["nvidia.com/gpu"] == "2"


def test_a_pod_can_be_annotated_and_ungated(sim: Simulator, core: Any) -> None:
    core.create_namespaced_pod("default", a_pod_manifest("train", schedulingGates=[{"name": "queue"}]))
    body = {"metadata": {"annotations": {"gpu-autoscaler.io/protect": "true"}, "labels": {"team": "red"}}}
    patched = core.patch_namespaced_pod("train", "default", body)
    assert patched.metadata.annotations["gpu-autoscaler.io/protect"] == "true"
    assert patched.metadata.labels == {"team": "red"}
    core.patch_namespaced_pod("train", "default", [{"op": "remove", "path": "/spec/schedulingGates"}])
    sim.live.turn(timedelta(seconds=10))
    assert core.read_namespaced_pod("train", "default").status.phase == "Running"


def test_a_deleted_pod_terminates_and_then_is_gone(sim: Simulator, core: Any) -> None:
    core.create_namespaced_pod("default", a_pod_manifest("train"))
    sim.live.turn(timedelta(seconds=10))
    wrong = k8s.V1DeleteOptions(preconditions=k8s.V1Preconditions(uid="another"))
    with pytest.raises(ApiException) as refused:
        core.delete_namespaced_pod("train", "default", body=wrong)
    assert refused.value.status == 409
    core.delete_namespaced_pod("train", "default")
    assert core.read_namespaced_pod("train", "default").metadata.deletion_timestamp is not None
    sim.live.turn(timedelta(seconds=10))
    assert core.list_namespaced_pod("default").items == []


# --- evictions --------------------------------------------------------------------------------------------


def evict(core: Any, name: str) -> Any:
    body = k8s.V1Eviction(metadata=k8s.V1ObjectMeta(name=name, namespace="default"))
    return core.create_namespaced_pod_eviction(name, "default", body, _preload_content=False)


def test_an_eviction_lets_the_pod_go(sim: Simulator, core: Any) -> None:
    core.create_namespaced_pod("default", a_pod_manifest("train"))
    sim.live.turn(timedelta(seconds=10))
    answer = evict(core, "train")
    assert (answer.status, json.loads(answer.data)["status"]) == (201, "Success")
    sim.live.turn(timedelta(seconds=10))
    with pytest.raises(ApiException) as refused:
        evict(core, "train")
    assert refused.value.status == 404


def test_an_eviction_against_a_budget_is_told_to_try_later(start: Starter, api_for: ApiFor) -> None:
    sim = start(pdbs=[{"namespace": "default", "selector": {"app": "llm"}, "min_available": 1}])
    core = k8s.CoreV1Api(api_for(sim))
    serving = a_pod_manifest("serve")
    serving["metadata"]["labels"] = {"app": "llm"}
    core.create_namespaced_pod("default", serving)
    sim.live.turn(timedelta(seconds=10))
    with pytest.raises(ApiException) as refused:
        evict(core, "serve")
    status = json.loads(refused.value.body or "")
    assert (refused.value.status, status["reason"]) == (429, "TooManyRequests")
    assert status["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert core.read_namespaced_pod("serve", "default").metadata.deletion_timestamp is None


# --- events -----------------------------------------------------------------------------------------------


def core_event(name: str, namespace: str = "default") -> Mapping[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "train", "uid": "u1"},
        "reason": "TriggeredScaleUp",
        "message": "usable in about 4 minutes",
        "type": "Normal",
        "source": {"component": "gpu-autoscaler"},
    }


def test_an_event_is_kept_under_its_name(sim: Simulator, core: Any) -> None:
    core.create_namespaced_event("default", core_event("train.1"))
    (event,) = core.list_namespaced_event("default", field_selector="involvedObject.name=train").items
    assert (event.metadata.name, event.reason, event.source.component) == (
        "train.1",
        "TriggeredScaleUp",
        "gpu-autoscaler",
    )
    with sim.moved() as world:
        assert [(e.kind, e.name, e.reason) for e in world.events] == [("Pod", "train", "TriggeredScaleUp")]
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_event("default", core_event("train.1"))
    assert refused.value.status == 409


def test_an_event_must_stand_in_the_namespace_of_its_object(core: Any) -> None:
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_event("other", core_event("train.1"))
    assert refused.value.status == 422


def test_a_new_style_event_is_the_same_object(sim: Simulator, core: Any, api_for: ApiFor) -> None:
    events = k8s.EventsV1Api(api_for(sim))
    body = k8s.EventsV1Event(
        metadata=k8s.V1ObjectMeta(name="train.2", namespace="default"),
        regarding=k8s.V1ObjectReference(kind="Pod", namespace="default", name="train"),
        reason="CannotEverFit",
        note="no pool offers 16 GPUs on one node",
        type="Warning",
        action="Scaling",
        reporting_controller="gpu-autoscaler",
        reporting_instance="gpu-autoscaler-0",
        event_time=datetime(2026, 3, 2, 8, 0, tzinfo=UTC),
    )
    events.create_namespaced_event("default", body)
    (new,) = events.list_event_for_all_namespaces().items
    (old,) = core.list_event_for_all_namespaces().items
    assert (new.note, new.reporting_controller) == (old.message, old.reporting_component)
    body.metadata.name, body.action = "train.3", ""
    with pytest.raises(ApiException) as refused:
        events.create_namespaced_event("default", body)
    assert refused.value.status == 422


# --- rights -----------------------------------------------------------------------------------------------


def may(api: Any, verb: str, resource: str, subresource: str = "", group: str = "", name: str = "") -> bool:
    attributes = k8s.V1ResourceAttributes(
        verb=verb, group=group, resource=resource, subresource=subresource, name=name or None
    )
    body = k8s.V1SelfSubjectAccessReview(spec=k8s.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    allowed: bool = k8s.AuthorizationV1Api(api).create_self_subject_access_review(body).status.allowed
    return allowed


def test_denied_rights_are_reviewed_and_enforced(start: Starter, api_for: ApiFor) -> None:
    sim = start(kubernetes={"denied": ["patch nodes", "create pods/eviction"]})
    api = api_for(sim)
    core = k8s.CoreV1Api(api)
    assert (may(api, "patch", "nodes"), may(api, "create", "pods", "eviction")) == (False, False)
    assert may(api, "list", "pods")
    with pytest.raises(ApiException) as refused:
        core.patch_node(node_of(core).metadata.name, {"spec": {"unschedulable": True}})
    assert (refused.value.status, json.loads(refused.value.body or "")["reason"]) == (403, "Forbidden")


def test_a_denied_right_on_a_custom_resource_is_reviewed(start: Starter, api_for: ApiFor) -> None:
    api = api_for(start(kubernetes={"denied": ["list workloads.kueue.x-k8s.io"]}))
    assert not may(api, "list", "workloads", group="kueue.x-k8s.io")
    assert may(api, "list", "workloads", group="example.com")


def test_with_the_rules_of_a_role_only_they_are_allowed(start: Starter, api_for: ApiFor) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["*"]},
    ]
    api = api_for(start(kubernetes={"rules": rules}))
    core = k8s.CoreV1Api(api)
    assert core.list_pod_for_all_namespaces().items
    assert k8s.SchedulingV1Api(api).list_priority_class().items == []
    for forbidden in (
        lambda: core.patch_node(node_of(core).metadata.name, {"spec": {"unschedulable": True}}),
        lambda: core.read_node(node_of(core).metadata.name),
        core.list_namespace,
        k8s.BatchV1Api(api).list_job_for_all_namespaces,
    ):
        with pytest.raises(ApiException) as refused:
            forbidden()
        assert refused.value.status == 403
    assert may(api, "list", "pods")
    assert not may(api, "watch", "pods")
    assert not may(api, "list", "pods", group="metrics.k8s.io")


def test_a_rule_for_names_covers_these_objects_and_no_list(start: Starter, api_for: ApiFor) -> None:
    rule = {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["get", "list", "create"]}
    api = api_for(start(kubernetes={"rules": [{**rule, "resourceNames": ["held"]}]}))
    core = k8s.CoreV1Api(api)
    for call, status in (
        (lambda: core.read_namespaced_resource_quota("held", "ml"), 404),
        (lambda: core.read_namespaced_resource_quota("other", "ml"), 403),
        (core.list_resource_quota_for_all_namespaces, 403),
    ):
        with pytest.raises(ApiException) as refused:
            call()
        assert refused.value.status == status
    assert may(api, "get", "resourcequotas", name="held")
    assert not may(api, "create", "resourcequotas")
