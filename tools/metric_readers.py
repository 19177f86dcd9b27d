"""Which of our files reads each metric, and which file has each recording."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.metric_names import metrics_in, queries_of

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "rules"
DASHBOARDS = ROOT / "dashboards"
BUCKETS = "_bucket"


@cache
def rules() -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Return every rule of ``rules/`` with the name of its file without the ending."""
    files = [(path.stem, path.read_text(encoding="utf-8")) for path in sorted(RULES.glob("*.yaml"))]
    groups = [(name, group) for name, text in files for group in yaml.load(text, Loader=yaml.CSafeLoader)["groups"]]
    return [(name, rule) for name, group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression of rules, of templates in alerts and of dashboards, with who reads it."""
    for file, rule in rules():
        yield file, rule["expr"]
        for text in rule.get("annotations", {}).values():
            yield from ((file, query) for query in queries_of(text))
    for path in sorted(DASHBOARDS.glob("*.json")):
        reader = path.stem.removeprefix("gpu-autoscaler-") + ".dashboard"
        yield from ((reader, query) for query in _asked(json.loads(path.read_text(encoding="utf-8"))))


def _asked(dashboard: Mapping[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        for shown in (panel, *panel.get("panels", ())):  # those of a folded row are inside
            yield from (target["expr"] for target in shown.get("targets", ()))
    yield from (note["expr"] for note in dashboard["annotations"]["list"] if "expr" in note)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            query = variable["query"]["query"]
            labels = re.fullmatch(r"label_values\((.+), \w+\)", query)
            inner = labels or re.fullmatch(r"query_result\((.+)\)", query)
            if inner is None:
                raise ValueError(f"a variable asks in a way that is not known here: {query}")
            yield inner[1]


@cache
def read() -> Mapping[str, list[str]]:
    """Return who reads each metric and recording, by name. Buckets are under the name of their histogram."""
    found: dict[str, set[str]] = {}
    ours = recordings().keys()
    for reader, expr in expressions():
        for name in metrics_in(re.sub(r"\$__\w+", "5m", expr), ours):
            found.setdefault(name.removesuffix(BUCKETS), set()).add(reader)
    return {name: sorted(readers) for name, readers in sorted(found.items())}


@cache
def recordings() -> Mapping[str, str]:
    """Return the file of every recording."""
    return {rule["record"]: file for file, rule in rules() if "record" in rule}
