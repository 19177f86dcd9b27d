"""Write tests/manifests/schemas: JSON schemas of custom resources, out of models that are made of their CRDs.

The models are packages that are no dependency: run it in an environment of its own.

    python3 -m venv /tmp/crds
    /tmp/crds/bin/pip install cloudcoil-models-prometheus-operator==0.80.1.0 cloudcoil-models-keda==2.16.1.0
    /tmp/crds/bin/python -m tools.crd_schemas

What has no such package (Kueue, Volcano, the Vertical Pod Autoscaler) is written by hand, and says so.
"""

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "manifests" / "schemas"
WORKLOADS = FOLDER / "workloads"  # of k8s/workloads


@dataclass(frozen=True)
class Models:
    """A package of models, the project whose CRDs they are made of, and the kinds taken: (module, API) by name."""

    package: str
    distribution: str
    project: str
    folder: Path
    kinds: Mapping[str, tuple[str, str]]


MODELS = (
    Models(
        "cloudcoil.models.prometheus_operator",
        "cloudcoil-models-prometheus-operator",
        "prometheus-operator 0.80.1",
        FOLDER,
        {
            "PrometheusRule": ("v1", "monitoring.coreos.com/v1"),
            "ServiceMonitor": ("v1", "monitoring.coreos.com/v1"),
            "AlertmanagerConfig": ("v1alpha1", "monitoring.coreos.com/v1alpha1"),
        },
    ),
    Models(
        "cloudcoil.models.keda",
        "cloudcoil-models-keda",
        "KEDA 2.16.1",
        WORKLOADS,
        {"ScaledObject": ("v1alpha1", "keda.sh/v1alpha1")},
    ),
)
WORDS = frozenset({"title", "default", "description"})

JSON = dict[str, Any]


def strict(schema: Any, *, named: bool = False) -> Any:
    """Return *schema* without words for people, in which every key that it does not name is a mistake.

    *named*: its keys are names of properties or definitions, and stay whatever they are.
    """
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if named:
        return {key: strict(value) for key, value in schema.items()}
    kept = {k: strict(v, named=k in ("properties", "$defs")) for k, v in schema.items() if k not in WORDS}
    either = [one for one in kept.get("anyOf", ()) if one != {"type": "null"}]
    if len(either) == 1:  # the models let None stand for a key that is left out
        del kept["anyOf"]
        kept |= either[0]
    elif either:
        kept["anyOf"] = either
    if "properties" in kept:
        kept.setdefault("additionalProperties", False)
    if "pattern" in kept:  # Go takes the flag anywhere, Python at the head alone
        flagged = "(?i)" in kept["pattern"]
        kept["pattern"] = ("(?i)" if flagged else "") + kept["pattern"].replace("(?i)", "")
    return kept


def main() -> int:
    """Write one file for each kind."""
    for models in MODELS:
        models.folder.mkdir(parents=True, exist_ok=True)
        source = f"{models.distribution} {version(models.distribution)} (PyPI), made of the CRDs of {models.project}"
        for kind, (module, api) in models.kinds.items():
            model = getattr(importlib.import_module(f"{models.package}.{module}"), kind)
            head = {"$comment": f"{kind} {api}; {source}; Apache-2.0. Written by tools/crd_schemas.py."}
            schema = head | strict(model.model_json_schema(by_alias=True))
            text = json.dumps(schema, indent=1, sort_keys=True) + "\n"
            (models.folder / f"{kind}.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
