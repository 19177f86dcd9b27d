"""What rules/alertmanager.yml says for the Prometheus Operator.

Two ways, of which one is taken (docs/operations.md says which):

- ``k8s/chart/files/route.yaml``: the routes to the autoscaler alone, for the chart's AlertmanagerConfig
  (monitoring.coreos.com/v1alpha1). The operator lets such an object see only alerts with its own namespace as label,
  which all of ours have, and puts `continue: true` on its first route, so people's routes stay where they are.
- ``k8s/alertmanager/secret.yaml``: the whole configuration as the Secret that `Alertmanager.spec.configSecret` names
  (in kube-prometheus-stack `alertmanager.alertmanagerSpec.useExistingSecret` and `configSecret`). It alone carries the
  inhibition, whose sources are alerts of other namespaces.

Field names: https://prometheus-operator.dev/docs/api-reference/api/ (AlertmanagerConfig v1alpha1).
"""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "rules" / "alertmanager.yml"
ROUTE = ROOT / "k8s" / "chart" / "files" / "route.yaml"
WHOLE = ROOT / "k8s" / "alertmanager" / "secret.yaml"
RECEIVER = "gpu-autoscaler"
WRITTEN = "# Written by `make generate` from rules/alertmanager.yml: change that.\n"

JSON = dict[str, Any]

_MATCHER = re.compile(r'(?P<name>\w+)(?P<type>=~|!~|!=|=)"(?P<value>.*)"')
_TIMES = {
    "group_by": "groupBy",
    "group_wait": "groupWait",
    "group_interval": "groupInterval",
    "repeat_interval": "repeatInterval",
}


def operator_route(whole: JSON) -> JSON:
    """Return those routes of *whole* that lead to the autoscaler, as one route of an AlertmanagerConfig."""
    heartbeat, scaling = (r for r in whole["route"]["routes"] if r["receiver"] == RECEIVER)
    return {**_route(scaling), "routes": [_route(heartbeat)]}


def secret(text: str) -> JSON:
    """Return the Secret with the configuration *text* as Alertmanager reads it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "gpu-autoscaler-alertmanager", "namespace": "monitoring"},
        "stringData": {"alertmanager.yaml": text},
    }


def generated() -> dict[Path, str]:
    """Return the files by where they are."""
    text = SOURCE.read_text(encoding="utf-8")
    objects = {ROUTE: operator_route(yaml.safe_load(text)), WHOLE: secret(text)}
    return {path: WRITTEN + _yaml(found) for path, found in objects.items()}


def _route(route: JSON) -> JSON:
    matchers = [_MATCHER.fullmatch(m) for m in route["matchers"]]
    told = [{"name": m["name"], "matchType": m["type"], "value": m["value"]} for m in matchers if m is not None]
    assert len(told) == len(matchers), f"matchers that are not understood: {route['matchers']}"
    return {
        "receiver": route["receiver"],
        "matchers": told,
        **{ours: route[theirs] for theirs, ours in _TIMES.items()},
    }


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks, so that a person can read a Secret."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)


def _yaml(found: JSON) -> str:
    return yaml.dump(found, Dumper=_Dumper, sort_keys=False, width=120)
