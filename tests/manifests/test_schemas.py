"""Every object of every overlay, as old and new kustomize build it, against the schemas of Kubernetes and CRDs."""

import copy
import json
from typing import Any

import pytest

from tests.manifests.built import (
    KUBERNETES,
    NEW,
    OLD,
    OPTIONAL,
    OVERLAYS,
    SCHEMAS,
    custom_mistakes,
    every_object,
    is_custom,
    made_of,
    mistakes,
    named,
    overlay,
    the,
)

JSON = dict[str, Any]


@pytest.mark.parametrize("folder", [*(f"overlays/{name}" for name in OVERLAYS), *OPTIONAL])
def test_the_oldest_kustomize_and_a_new_one_build_the_same(folder: str) -> None:
    old, new = named(made_of(folder, OLD)), named(made_of(folder, NEW))
    assert len(old) > 1
    assert old == new


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_of_kubernetes_fits_its_schema(version: str) -> None:
    found = [o for o in every_object() if not is_custom(o)]
    assert len(found) > 20
    assert [wrong for o in found if (wrong := mistakes(o, version))] == []


def test_every_custom_object_fits_the_schema_of_its_crd() -> None:
    found = [o for o in every_object() if is_custom(o)]
    assert {o["kind"] for o in found} == {path.stem for path in SCHEMAS.glob("*.json")}
    assert [wrong for o in found for wrong in custom_mistakes(o)] == []


@pytest.mark.parametrize(
    "kind, path, key",
    [
        ("Deployment", ("spec", "template", "spec", "containers", 0, "readinessProbe"), "periodSecond"),
        ("Deployment", ("spec", "template", "spec", "containers", 0, "resources"), "limit"),
        ("NetworkPolicy", ("spec", "egress", 0, "to", 0), "podselector"),
        ("PodDisruptionBudget", ("spec",), "maxunavailable"),
    ],
)
def test_a_misspelt_field_is_a_mistake(kind: str, path: tuple[str | int, ...], key: str) -> None:
    found = copy.deepcopy(the(overlay("observe"), kind))
    assert mistakes(found, KUBERNETES[0]) == ""
    _at(found, path)[key] = {}
    assert key in mistakes(found, KUBERNETES[0])


@pytest.mark.parametrize(
    "kind, name, path, key",
    [
        ("PrometheusRule", "gpu-autoscaler-pools-alerts", ("spec", "groups", 0, "rules", 0), "exprr"),
        ("ServiceMonitor", "gpu-autoscaler", ("spec", "endpoints", 0), "honorlabels"),
        ("AlertmanagerConfig", "gpu-autoscaler", ("spec", "receivers", 0, "webhookConfigs", 0), "sendresolved"),
    ],
)
def test_a_misspelt_field_of_a_custom_object_is_a_mistake(
    kind: str, name: str, path: tuple[str | int, ...], key: str
) -> None:
    found = copy.deepcopy(the(overlay("kube-prometheus-stack"), kind, name))
    _at(found, path)[key] = "x"
    assert any(key in wrong for wrong in custom_mistakes(found))


def test_every_schema_says_where_it_is_from() -> None:
    for path in SCHEMAS.glob("*.json"):
        said = json.loads(path.read_text(encoding="utf-8"))["$comment"]
        assert "prometheus-operator 0.80.1" in said
        assert "Apache-2.0" in said


def _at(found: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        found = found[key]
    return found
