"""Every object of k8s/workloads is one that its API takes: Kubernetes' own schemas and those of custom resources."""

import copy
import json
from functools import reduce
from operator import getitem
from typing import Any

from tests.lint import none_of
from tests.manifests.built import BUILT, KUBERNETES, custom_schema, made_of, mistakes, named
from tests.manifests.built import SCHEMAS as OF_OVERLAYS
from tests.workloads.files import WORKLOADS, Object, objects

JSON = dict[str, Any]
SCHEMAS = OF_OVERLAYS / "workloads"
FILES = {("batch.volcano.sh/v1alpha1", "Job"): "volcano-Job"}  # the rest are called like their kind
CUSTOM_GROUPS = ("kueue.x-k8s.io/", "scheduling.volcano.sh/", "batch.volcano.sh/", "keda.sh/", "autoscaling.k8s.io/")
OURS = [o for o in objects() if o.kind != "Kustomization"]
CUSTOM = [o for o in OURS if o.body["apiVersion"].startswith(CUSTOM_GROUPS)]
BUILT_IN = [o for o in OURS if o not in CUSTOM]
FOLDERS = [folder for folder in BUILT if folder.startswith("k8s/workloads")]
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


def wrong_in(body: JSON) -> list[str]:
    """Return what is wrong with the custom resource in *body* by its schema."""
    name = FILES.get((body["apiVersion"], body["kind"]), body["kind"])
    return [error.message for error in custom_schema(SCHEMAS / f"{name}.json").iter_errors(body)]


def since(found: Object) -> str:
    """Return the oldest version of Kubernetes that takes *found*."""
    return SINCE.get(f"{found.kind}/{found.body['metadata']['name']}", KUBERNETES[0])


def test_every_object_of_kubernetes_fits_its_schema_from_the_version_on_that_its_file_names() -> None:
    found = [(v, o) for v in KUBERNETES for o in BUILT_IN if KUBERNETES.index(v) >= KUBERNETES.index(since(o))]
    assert len(found) > 20 * len(KUBERNETES)
    none_of(f"{v}: {o.name}: {wrong}" for v, o in found if (wrong := mistakes(o.body, v)))


def test_a_file_that_needs_a_later_version_says_so() -> None:
    later = [(o.name, since(o), o.file.read_text(encoding="utf-8")) for o in BUILT_IN if since(o) != KUBERNETES[0]]
    assert later
    none_of(f"{name}: {version}" for name, version, text in later if f"Kubernetes {version} or later" not in text)


def test_what_kustomize_builds_are_the_objects_that_the_files_have() -> None:
    written = named(tuple(o.body for o in OURS))
    built = {(f, key): body for f in FOLDERS for key, body in named(made_of(f)).items() if key[0] != "ConfigMap"}
    assert len(FOLDERS) > 5
    none_of(f"{folder}: {key}" for (folder, key), body in built.items() if written.get(key) != body)


def test_the_script_of_the_training_job_and_the_counters_are_built_into_config_maps() -> None:
    train = named(made_of("k8s/workloads/examples"))["ConfigMap", "team-vision", "train"]
    counters = named(made_of("k8s/workloads/gpu-operator"))
    assert train["data"] == {"train.py": (WORKLOADS / "examples" / "train.py").read_text(encoding="utf-8")}
    [data] = [body["data"] for key, body in counters.items() if key[2] == "gpu-autoscaler-dcgm-metrics"]
    assert data == {"dcgm-metrics.csv": (WORKLOADS / "gpu-operator/dcgm-metrics.csv").read_text(encoding="utf-8")}


def test_every_custom_resource_is_taken_by_its_schema() -> None:
    assert len(CUSTOM) > 10
    none_of(f"{o.name}: {wrong}" for o in CUSTOM for wrong in wrong_in(o.body))


def test_the_pods_of_volcanos_tasks_are_pods() -> None:
    pods = [(o.name, task["template"]) for o in CUSTOM for task in o.body["spec"].get("tasks", ())]
    told = [(name, mistakes({"apiVersion": "v1", "kind": "Pod", **pod}, KUBERNETES[-1])) for name, pod in pods]
    assert told
    none_of(f"{name}: {wrong}" for name, wrong in told if wrong)


def test_a_wrong_word_in_a_custom_resource_is_found() -> None:
    def is_found(kind: str) -> bool:
        path, value = WRONG_WORDS[kind]
        body = copy.deepcopy(next(o.body for o in CUSTOM if o.kind == kind))
        reduce(getitem, path[:-1], body["spec"])[path[-1]] = value
        return bool(wrong_in(body))

    assert {o.kind for o in CUSTOM} == set(WRONG_WORDS)
    none_of(kind for kind in WRONG_WORDS if not is_found(kind))


def test_every_schema_says_where_it_is_from_and_under_which_licence() -> None:
    def says(comment: str) -> bool:
        return "Apache-2.0" in comment and ("(PyPI)" in comment or " at " in comment)

    comments = {file.stem: json.loads(file.read_text(encoding="utf-8"))["$comment"] for file in SCHEMAS.glob("*.json")}
    assert comments
    none_of(name for name, comment in sorted(comments.items()) if not says(comment))
