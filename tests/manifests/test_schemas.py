"""Every object of k8s/install and of what kustomize builds against the schemas of Kubernetes and of CRDs."""

import copy
import json
from typing import Any

from tests.lint import none_of
from tests.manifests.built import (
    BUILT,
    KUBERNETES,
    NEW,
    OLD,
    SCHEMAS,
    custom_mistakes,
    every_object,
    installed,
    is_custom,
    is_served,
    made_of,
    mistakes,
    named,
    the,
)

Path = tuple[str | int, ...]
MISSPELT: tuple[tuple[str, Path, str], ...] = (
    ("Deployment", ("spec", "template", "spec", "containers", 0, "readinessProbe"), "periodSecond"),
    ("Deployment", ("spec", "template", "spec", "containers", 0, "resources"), "limit"),
    ("NetworkPolicy", ("spec", "egress", 0, "to", 0), "podselector"),
    ("PodDisruptionBudget", ("spec",), "maxunavailable"),
)
MISSPELT_IN_CUSTOM: tuple[tuple[str, str, Path, str], ...] = (
    ("PrometheusRule", "gpu-autoscaler-pools-alerts", ("spec", "groups", 0, "rules", 0), "exprr"),
    ("ServiceMonitor", "gpu-autoscaler", ("spec", "endpoints", 0), "honorlabels"),
    ("AlertmanagerConfig", "gpu-autoscaler", ("spec", "receivers", 0, "webhookConfigs", 0), "sendresolved"),
)


def test_the_oldest_kustomize_and_a_new_one_build_the_same_of_every_folder() -> None:
    def wrong(folder: str) -> str:
        try:
            old, new = named(made_of(folder, OLD)), named(made_of(folder, NEW))
        except AssertionError as refused:
            return str(refused)
        different = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        return f"{folder} differs in {different}" if different or not old else ""

    assert len(BUILT) > 9
    none_of(filter(None, map(wrong, BUILT)))


def test_every_object_of_kubernetes_fits_its_schema() -> None:
    found = [o for o in every_object() if not is_custom(o)]
    assert len(found) > 20
    wrong = ((version, mistakes(o, version)) for version in KUBERNETES for o in found if is_served(o, version))
    none_of(f"{version}: {mistake}" for version, mistake in wrong if mistake)


def test_every_custom_object_fits_the_schema_of_its_crd() -> None:
    found = [o for o in every_object() if is_custom(o)]
    assert {o["kind"] for o in found} == {path.stem for path in SCHEMAS.glob("*.json")}
    none_of(wrong for o in found for wrong in custom_mistakes(o))


def test_a_misspelt_field_is_a_mistake() -> None:
    def is_found(kind: str, path: Path, key: str) -> bool:
        found = copy.deepcopy(the(installed("observe"), kind))
        taken = mistakes(found, KUBERNETES[0]) == ""
        _at(found, path)[key] = {}
        return taken and key in mistakes(found, KUBERNETES[0])

    none_of(f"{kind} {key}" for kind, path, key in MISSPELT if not is_found(kind, path, key))


def test_a_misspelt_field_of_a_custom_object_is_a_mistake() -> None:
    def is_found(kind: str, name: str, path: Path, key: str) -> bool:
        found = copy.deepcopy(the(installed("kube-prometheus-stack"), kind, name))
        _at(found, path)[key] = "x"
        return any(key in wrong for wrong in custom_mistakes(found))

    none_of(f"{kind} {key}" for kind, name, path, key in MISSPELT_IN_CUSTOM if not is_found(kind, name, path, key))


def test_every_schema_says_where_it_is_from() -> None:
    for path in SCHEMAS.glob("*.json"):
        said = json.loads(path.read_text(encoding="utf-8"))["$comment"]
        assert "prometheus-operator 0.80.1" in said
        assert "Apache-2.0" in said


def _at(found: Any, path: Path) -> Any:
    for key in path:
        found = found[key]
    return found
