"""Every object of k8s/workloads is one that its API takes: Kubernetes' own schemas and those of custom resources."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.manifests.built import KUBERNETES, NEW, OLD, build, mistakes, named, read
from tests.manifests.built import SCHEMAS as OF_OVERLAYS
from tests.workloads.files import WORKLOADS, Object, objects

JSON = dict[str, Any]
SCHEMAS = OF_OVERLAYS / "workloads"
FILES = {("batch.volcano.sh/v1alpha1", "Job"): "volcano-Job"}  # the rest are called like their kind
CUSTOM_GROUPS = ("kueue.x-k8s.io/", "scheduling.volcano.sh/", "batch.volcano.sh/", "keda.sh/", "autoscaling.k8s.io/")
OURS = [o for o in objects() if o.kind != "Kustomization"]
CUSTOM = [o for o in OURS if o.body["apiVersion"].startswith(CUSTOM_GROUPS)]
BUILT_IN = [o for o in OURS if o not in CUSTOM]
FOLDERS = sorted(file.parent for file in WORKLOADS.rglob("kustomization.yaml"))
# What a file says that it needs. (The schemas before 1.29 demand onPodConditions of every rule of podFailurePolicy.)
SINCE = {
    "ValidatingAdmissionPolicy/gpu-pods": "1.30",
    "ValidatingAdmissionPolicyBinding/gpu-pods": "1.30",
    "Job/train": "1.29",
}
WRONG_WORDS: dict[str, tuple[tuple[str, ...], Any]] = {
    "ClusterQueue": (("cohort",), "gpu"),
    "Cohort": (("parent",), "all"),
    "LocalQueue": (("clusterQueue",), ["team-vision"]),
    "ResourceFlavor": (("nodeTaints",), [{"key": "gpu"}]),
    "Queue": (("preemptionPolicy",), "bestFit"),
    "PodGroup": (("minMembers",), 2),
    "Job": (("plugins", "sla"), []),
    "ScaledObject": (("minReplicas",), 0),
    "VerticalPodAutoscaler": (("updatePolicy", "updateMode"), "Auto"),
}


def schema_of(body: JSON) -> JSON:
    """Return the JSON schema of the custom resource in *body*."""
    name = FILES.get((body["apiVersion"], body["kind"]), body["kind"])
    found: JSON = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def custom_mistakes(body: JSON) -> list[str]:
    """Return what the schema of the custom resource in *body* objects to."""
    return [error.message for error in jsonschema.Draft202012Validator(schema_of(body)).iter_errors(body)]


def since(found: Object) -> str:
    """Return the oldest version of Kubernetes that takes *found*."""
    return SINCE.get(f"{found.kind}/{found.body['metadata']['name']}", KUBERNETES[0])


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_of_kubernetes_fits_its_schema_from_the_version_on_that_its_file_names(version: str) -> None:
    found = [o for o in BUILT_IN if KUBERNETES.index(version) >= KUBERNETES.index(since(o))]
    assert len(found) > 20
    assert [wrong for o in found if (wrong := mistakes(o.body, version))] == []


@pytest.mark.parametrize("found", [o for o in BUILT_IN if since(o) != KUBERNETES[0]], ids=lambda found: found.name)
def test_a_file_that_needs_a_later_version_says_so(found: Object) -> None:
    assert f"Kubernetes {since(found)} or later" in found.file.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_oldest_kustomize_and_a_new_one_build_the_same_objects_as_the_files_have(folder: Path) -> None:
    old, new = (named(tuple(read(build(folder, kubectl)))) for kubectl in (OLD, NEW))
    assert old == new
    written = named(tuple(o.body for o in OURS))
    made = {key: body for key, body in new.items() if key[0] != "ConfigMap"}
    assert made == {key: written[key] for key in made}


def test_the_script_of_the_training_job_and_the_counters_are_built_into_config_maps() -> None:
    train = named(tuple(read(build(WORKLOADS / "examples", NEW))))["ConfigMap", "team-vision", "train"]
    counters = named(tuple(read(build(WORKLOADS / "gpu-operator", NEW))))
    assert train["data"] == {"train.py": (WORKLOADS / "examples" / "train.py").read_text(encoding="utf-8")}
    [data] = [body["data"] for key, body in counters.items() if key[2] == "gpu-autoscaler-dcgm-metrics"]
    assert data == {"dcgm-metrics.csv": (WORKLOADS / "gpu-operator/dcgm-metrics.csv").read_text(encoding="utf-8")}


@pytest.mark.parametrize("found", CUSTOM, ids=lambda found: found.name)
def test_a_custom_resource_is_taken_by_its_schema(found: Object) -> None:
    assert custom_mistakes(found.body) == []


@pytest.mark.parametrize("found", [o for o in CUSTOM if "tasks" in o.body["spec"]], ids=lambda found: found.name)
def test_the_pods_of_volcanos_tasks_are_pods(found: Object) -> None:
    for task in found.body["spec"]["tasks"]:
        assert mistakes({"apiVersion": "v1", "kind": "Pod", **task["template"]}, KUBERNETES[-1]) == ""


@pytest.mark.parametrize("kind", WRONG_WORDS)
def test_a_wrong_word_in_a_custom_resource_is_found(kind: str) -> None:
    path, value = WRONG_WORDS[kind]
    body = copy.deepcopy(next(o.body for o in CUSTOM if o.kind == kind))
    place = body["spec"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert custom_mistakes(body)


def test_every_kind_that_is_not_kubernetes_own_is_tried_with_a_wrong_word() -> None:
    assert {o.kind for o in CUSTOM} == set(WRONG_WORDS)


@pytest.mark.parametrize("file", sorted(SCHEMAS.glob("*.json")), ids=lambda file: file.stem)
def test_a_schema_says_where_it_is_from_and_under_which_licence(file: Path) -> None:
    comment = json.loads(file.read_text(encoding="utf-8"))["$comment"]
    assert "Apache-2.0" in comment
    assert "(PyPI)" in comment or " at " in comment
