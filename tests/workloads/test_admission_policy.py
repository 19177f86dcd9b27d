"""What the admission policy of k8s/workloads takes and refuses, evaluated as CEL, and what it tells the person."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from receiver.config import load_text
from receiver.core.scaling.demand import IGNORED_NAMESPACES
from receiver.doctor.smoke import Trial, manifest
from simulator.kubernetes_admission import Policy
from tests.doctor.builders import installation
from tests.lint import load_yaml, none_of
from tests.workloads.files import CONFIGURATION, objects, of_kind, pods

JSON = dict[str, Any]
[DEFINITION] = of_kind("ValidatingAdmissionPolicy")
POLICY = Policy(DEFINITION.body)
GPU = "nvidia.com/gpu"
PLURALS = {"Pod": "pods", "Deployment": "deployments", "DaemonSet": "daemonsets", "Job": "jobs"}
SELECTOR = "spec.nodeSelector: say which GPU nodes"
TOLERATION = "spec.tolerations: GPU nodes carry a taint. Add {key: nvidia.com/gpu"
OVERCOMMITTED = "spec.containers[].resources: GPUs cannot be overcommitted"
LABELS = "metadata.labels: its cost would have no owner. Add a value for:"


def a_pod(**changes: Any) -> JSON:
    """Return a GPU pod that is taken; *changes* replace parts of its spec."""
    container = {"name": "main", "image": "train", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}
    labels = dict.fromkeys(("team", "project", "workload-class", "environment", "cost-center"), "x")
    spec: JSON = {
        "nodeSelector": {"gpu": "on-demand"},
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        **changes,
    }
    spec = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "labels": labels}, "spec": spec}


def asking(name: str = "main", *, limits: JSON | None = None, requests: JSON | None = None) -> JSON:
    """Return a container with *limits* and *requests*."""
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value is not None}
    return {"name": name, "image": "train", "resources": resources}


def required(*terms: JSON) -> JSON:
    """Return required node affinity of *terms*."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str = "In") -> JSON:
    """Return a term with one expression about *key*."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": ["on-demand"]}]}


TAKEN = {
    "the example": a_pod(),
    "limits alone": a_pod(containers=[asking(limits={GPU: "1"})]),
    "the same number, once as a number": a_pod(containers=[asking(limits={GPU: 1}, requests={GPU: "1"})]),
    "other resources that differ": a_pod(
        containers=[asking(limits={GPU: "1", "memory": "8Gi"}, requests={GPU: "1", "memory": "4Gi", "cpu": "2"})]
    ),
    "a toleration of the taint's value": a_pod(tolerations=[{"key": GPU, "operator": "Equal", "value": "present"}]),
    "more tolerations": a_pod(tolerations=[{"key": "node.kubernetes.io/not-ready"}, *a_pod()["spec"]["tolerations"]]),
    "the pool's id": a_pod(nodeSelector={"kubernetes.civo.com/civo-node-pool": "gpu-l40s"}),
    "what the operator labels": a_pod(nodeSelector={"nvidia.com/gpu.present": "true"}),
    "affinity instead of a selector": a_pod(nodeSelector=None, affinity=required(expression("gpu"))),
    "every alternative names a pool": a_pod(
        nodeSelector=None, affinity=required(expression("gpu"), expression("node.kubernetes.io/instance-type"))
    ),
    "a sidecar without GPUs": a_pod(containers=[*a_pod()["spec"]["containers"], asking("sidecar")]),
    "no GPU at all": a_pod(containers=[asking(limits={"cpu": "1"})], tolerations=None, nodeSelector=None),
    "no resources at all": a_pod(containers=[{"name": "web", "image": "web"}], tolerations=None, nodeSelector=None),
    "the zeros of a LimitRange": a_pod(
        containers=[asking(limits={GPU: "0"}, requests={GPU: "0"})], tolerations=None, nodeSelector=None
    ),
    "another device of NVIDIA": a_pod(
        containers=[asking(limits={"nvidia.com/hostdev": "1"})], tolerations=None, nodeSelector=None
    ),
}
REFUSED: dict[str, tuple[JSON, str]] = {
    "no toleration": (a_pod(tolerations=None), TOLERATION),
    "a toleration of another taint": (a_pod(tolerations=[{"key": "gpu", "operator": "Exists"}]), TOLERATION),
    "a toleration of another effect": (
        a_pod(tolerations=[{"key": GPU, "operator": "Exists", "effect": "NoExecute"}]),
        TOLERATION,
    ),
    "a toleration of another value": (a_pod(tolerations=[{"key": GPU, "value": "true"}]), TOLERATION),
    "a toleration of everything": (
        a_pod(tolerations=[*a_pod()["spec"]["tolerations"], {"operator": "Exists"}]),
        "spec.tolerations: one without a key tolerates every taint",
    ),
    "no selector": (a_pod(nodeSelector=None), SELECTOR),
    "a selector of something else": (a_pod(nodeSelector={"zone": "a"}), SELECTOR),
    "the label that nobody sets": (a_pod(nodeSelector={GPU: "true"}), SELECTOR),
    "one alternative that names no pool": (
        a_pod(nodeSelector=None, affinity=required(expression("gpu"), expression("zone"))),
        SELECTOR,
    ),
    "affinity away from a pool": (a_pod(nodeSelector=None, affinity=required(expression("gpu", "NotIn"))), SELECTOR),
    "preferred affinity alone": (
        a_pod(
            nodeSelector=None,
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": expression("gpu")}]
                }
            },
        ),
        SELECTOR,
    ),
    "requests without limits": (a_pod(containers=[asking(requests={GPU: "1"})]), OVERCOMMITTED),
    "requests below limits": (a_pod(containers=[asking(limits={GPU: "2"}, requests={GPU: "1"})]), OVERCOMMITTED),
    "one of two containers": (
        a_pod(containers=[*a_pod()["spec"]["containers"], asking("other", limits={GPU: "2"}, requests={GPU: "1"})]),
        OVERCOMMITTED,
    ),
    "an init container": (
        a_pod(
            containers=[asking()],
            initContainers=[asking("first", limits={GPU: "1"}, requests={GPU: "1"})],
            tolerations=None,
        ),
        TOLERATION,
    ),
    "MIG slices": (a_pod(containers=[asking(limits={"nvidia.com/mig-1g.10gb": "1"})], tolerations=None), TOLERATION),
    "time-sliced GPUs": (
        a_pod(containers=[asking(limits={"nvidia.com/gpu.shared": "1"})], nodeSelector=None),
        SELECTOR,
    ),
}


@pytest.mark.parametrize("pod", TAKEN.values(), ids=list(TAKEN))
def test_a_pod_is_taken(pod: JSON) -> None:
    assert POLICY.refusals("pods", pod) == []


@pytest.mark.parametrize(("pod", "told"), REFUSED.values(), ids=list(REFUSED))
def test_a_pod_is_refused_with_the_field_and_the_remedy(pod: JSON, told: str) -> None:
    [message] = POLICY.refusals("pods", pod)
    assert message.startswith(told)


def test_a_gpu_pod_without_a_label_of_attribution_is_refused_by_name() -> None:
    for label in ("team", "project", "workload-class", "environment", "cost-center"):
        empty, missing = a_pod(), a_pod()
        empty["metadata"]["labels"][label] = ""
        del missing["metadata"]["labels"][label]
        for pod in (empty, missing):
            assert POLICY.refusals("pods", pod) == [f"{LABELS} {label}"]


def test_a_gpu_pod_without_any_label_is_told_all_of_them() -> None:
    pod = a_pod()
    del pod["metadata"]["labels"]
    assert POLICY.refusals("pods", pod) == [f"{LABELS} team project workload-class environment cost-center"]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    pod = a_pod(tolerations=None, nodeSelector=None)
    del pod["metadata"]["labels"]["team"]
    assert len(POLICY.refusals("pods", pod)) == 3


IN_A_TEMPLATE: dict[str, tuple[str, str, Callable[[JSON], JSON]]] = {
    "deployments": ("apps", "spec.template.", lambda template: {"spec": {"template": template}}),
    "statefulsets": ("apps", "spec.template.", lambda template: {"spec": {"template": template}}),
    "jobs": ("batch", "spec.template.", lambda template: {"spec": {"template": template}}),
    "cronjobs": (
        "batch",
        "spec.jobTemplate.spec.template.",
        lambda template: {"spec": {"jobTemplate": {"spec": {"template": template}}}},
    ),
}


@pytest.mark.parametrize("resource", IN_A_TEMPLATE)
def test_a_template_is_judged_like_its_pods_and_the_message_names_the_field_there(resource: str) -> None:
    group, path, within = IN_A_TEMPLATE[resource]
    good, bad = a_pod(), a_pod(tolerations=None)
    assert POLICY.matches(resource, "CREATE", "ml", group=group)
    assert POLICY.refusals(resource, within({"metadata": good["metadata"], "spec": good["spec"]})) == []
    [message] = POLICY.refusals(resource, within({"metadata": bad["metadata"], "spec": bad["spec"]}))
    assert message.startswith(path + TOLERATION)


def test_a_template_without_metadata_is_told_its_labels_and_breaks_nothing() -> None:
    [message] = POLICY.refusals("deployments", {"spec": {"template": {"spec": a_pod()["spec"]}}})
    assert message.startswith("spec.template." + LABELS)


def test_a_daemonset_that_asks_for_gpus_is_refused_and_one_that_does_not_is_taken() -> None:
    pod, plain = a_pod(), a_pod(containers=[asking()], tolerations=[{"operator": "Exists"}])
    [message] = POLICY.refusals("daemonsets", {"spec": {"template": pod}})
    assert "holds one on every node for ever" in message
    assert POLICY.refusals("daemonsets", {"spec": {"template": plain}}) == []


def test_the_gpu_operators_own_pods_and_daemonsets_are_left_alone() -> None:
    for namespace in IGNORED_NAMESPACES:
        assert not POLICY.matches("pods", "CREATE", namespace)
        assert not POLICY.matches("daemonsets", "CREATE", namespace, group="apps")
    assert POLICY.matches("pods", "CREATE", "ml")


@pytest.mark.parametrize("resource, group", [("pods", ""), ("jobs", "batch")])
def test_what_cannot_change_its_pods_any_more_is_not_judged_again(resource: str, group: str) -> None:
    assert not POLICY.matches(resource, "UPDATE", "ml", group=group)  # a finalizer, or a Job that is suspended


def a_deployment(pod: JSON, **metadata: Any) -> JSON:
    """Return a Deployment of *pod*."""
    return {"metadata": {"name": "service", **metadata}, "spec": {"template": {**pod, "kind": None}}}


def test_a_change_of_the_pods_is_judged() -> None:
    assert POLICY.matches("deployments", "UPDATE", "ml", group="apps")
    before, after = a_deployment(a_pod()), a_deployment(a_pod(tolerations=None))
    assert POLICY.refusals("deployments", after, before)
    assert POLICY.refusals("deployments", before, after) == []


def test_what_was_there_before_the_policy_can_be_labelled_and_deleted() -> None:
    before = a_deployment(a_pod(tolerations=None), finalizers=["foregroundDeletion"])
    labelled = a_deployment(a_pod(tolerations=None), labels={"team": "vision"})
    going = a_deployment(a_pod(tolerations=None), deletionTimestamp="2026-11-20T10:00:00Z")
    going["spec"]["replicas"] = 0
    assert POLICY.refusals("deployments", labelled, before) == []
    assert POLICY.refusals("deployments", going, before) == []


def test_every_pod_of_these_files_is_taken_as_pod_and_as_template() -> None:
    known = ("v1", "apps/v1", "batch/v1")
    asked = [(made.of.name, "pods", made.raw) for made in pods()]
    asked += [(m.of.name, PLURALS[m.of.kind], m.of.body) for m in pods() if m.of.body["apiVersion"] in known]
    none_of(f"{name}: {told}" for name, resource, body in asked for told in POLICY.refusals(resource, body))


def test_the_labels_that_the_policy_demands_are_those_that_costs_are_told_by() -> None:
    attribution = load_text(CONFIGURATION.read_text(encoding="utf-8")).configuration.attribution
    [listed] = [v["expression"] for v in DEFINITION.body["spec"]["variables"] if v["name"] == "attribution"]
    assert set(load_yaml(listed)) == set(attribution.model_dump(exclude={"unallocated"}).values())


def test_the_selectors_that_the_policy_takes_are_labels_of_every_pool_from_its_first_node_on() -> None:
    [listed] = [v["expression"] for v in DEFINITION.body["spec"]["variables"] if v["name"] == "poolLabels"]
    for pool in load_text(CONFIGURATION.read_text(encoding="utf-8")).policy.pools:
        assert set(load_yaml(listed)) <= set(pool.offered_labels)


def test_a_policy_that_cannot_be_evaluated_lets_nothing_through_and_the_binding_denies() -> None:
    [binding] = of_kind("ValidatingAdmissionPolicyBinding")
    assert DEFINITION.body["spec"]["failurePolicy"] == "Fail"
    assert binding.body["spec"]["policyName"] == DEFINITION.body["metadata"]["name"]
    assert "Deny" in binding.body["spec"]["validationActions"]


def test_every_message_is_one_line_as_the_api_demands() -> None:
    for validation in DEFINITION.body["spec"]["validations"]:
        assert "\n" not in validation.get("message", "")
    broken = copy.deepcopy(a_pod(tolerations=[{"operator": "Exists"}], nodeSelector=None))
    assert all("\n" not in told for told in POLICY.refusals("pods", broken))


def test_there_is_one_policy_and_it_is_applied_with_every_cluster() -> None:
    listed = load_yaml((CONFIGURATION.parent / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert str(DEFINITION.file.relative_to(CONFIGURATION.parent)) in listed
    assert [o.name for o in objects() if o.kind == "ValidatingAdmissionPolicy"] == [DEFINITION.name]


def test_the_expressions_call_only_what_kubernetes_and_the_evaluator_here_both_have() -> None:
    spec = DEFINITION.body["spec"]
    parts = [*spec["matchConditions"], *spec["variables"], *spec["validations"]]
    texts = [part[key] for part in parts for key in ("expression", "messageExpression") if key in part]
    words = [re.sub(r"'[^']*'", "''", text) for text in texts]
    called = {name for text in words for name in re.findall(r"\b(\w+)\(", text)} - {"in"}
    assert called == {"has", "size", "string", "startsWith", "filter", "exists", "all"}
    assert not [text for text in words if "?." in text or "[?" in text]  # optionals: cel-python has none


def test_the_pod_of_the_doctors_smoke_test_is_taken(tmp_path: Path) -> None:
    settings = installation(tmp_path, load_yaml(CONFIGURATION.read_text(encoding="utf-8"))).settings
    pools = load_text(CONFIGURATION.read_text(encoding="utf-8")).policy.pools
    refused = {p.name: POLICY.refusals("pods", manifest(Trial(pool=p), settings)) for p in pools}
    assert refused == {pool.name: [] for pool in pools}
