"""Every dashboard against Grafana's own types, the oldest and the newest that we support (grafana_schema.mjs)."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match

from tests.lint import none_of
from tools.grafana.files import DASHBOARDS, JSON

SCHEMAS = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in Path(__file__).parent.glob("grafana-*.json")
}


def wrong(schema: JSON, dashboard: JSON) -> Iterator[str]:
    """Yield what Grafana does not know of *dashboard* and of each of its panels."""
    parts = [("dashboard", dashboard), *((panel["type"].replace("-", ""), panel) for panel in dashboard["panels"])]
    for name, part in parts:
        if name not in schema["definitions"]:
            yield f"{part['title']}: no kind of panel called {part['type']}"
            continue
        found = best_match(Draft7Validator({**schema, "$ref": f"#/definitions/{name}"}).iter_errors(part))
        if found:
            yield f"{part['title']}: {found.json_path}: {found.message}"


@pytest.mark.parametrize("grafana", ["grafana-10", "grafana-13"])
def test_grafana_knows_every_field_and_takes_every_value(grafana: str) -> None:
    none_of(f"{uid}: {fault}" for uid, dashboard in DASHBOARDS.items() for fault in wrong(SCHEMAS[grafana], dashboard))


def first(dashboard: JSON, kind: str) -> JSON:
    """Return the first panel of a kind."""
    panel: JSON = next(p for p in dashboard["panels"] if p["type"] == kind)
    return panel


def override(panel: JSON, field: str, value: object) -> None:
    """Add an override of every series to a panel."""
    matcher = {"id": "byRegexp", "options": "/./"}
    panel["fieldConfig"]["overrides"].append({"matcher": matcher, "properties": [{"id": field, "value": value}]})


FAULTS: dict[str, Callable[[JSON], object]] = {
    "a field of a dashboard": lambda d: d.update(editabel=True),
    "the type of a dashboard's field": lambda d: d.update(refresh=30),
    "a kind of panel": lambda d: first(d, "stat").update(type="singlestat"),
    "a field of a panel": lambda d: first(d, "timeseries").update(yaxes=[]),
    "an option": lambda d: first(d, "timeseries")["options"]["legend"].update(values=True),
    "an option's value": lambda d: first(d, "stat")["options"].update(graphMode="sparkline"),
    "a field of a query": lambda d: first(d, "table")["targets"][0].update(expression="up"),
    "the format of a query": lambda d: first(d, "table")["targets"][0].update(format="rows"),
    "a field's default": lambda d: first(d, "stat")["fieldConfig"]["defaults"].update(units="s"),
    "a custom field": lambda d: first(d, "timeseries")["fieldConfig"]["defaults"]["custom"].update(lineStyles={}),
    "a custom field's value": lambda d: first(d, "table")["fieldConfig"]["defaults"]["custom"].update(align="middle"),
    "an overridden property": lambda d: override(first(d, "timeseries"), "custom.colour", "red"),
    "the value of an override": lambda d: override(first(d, "timeseries"), "custom.lineWidth", "2"),
    "a threshold": lambda d: first(d, "stat")["fieldConfig"]["defaults"]["thresholds"]["steps"][0].update(colour="red"),
    "a variable": lambda d: d["templating"]["list"][0].update(type="prometheus"),
    "an annotation": lambda d: d["annotations"]["list"][0].update(colour="red"),
}


@pytest.mark.parametrize("grafana", ["grafana-10", "grafana-13"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_mistake_is_found(fault: str, grafana: str) -> None:
    dashboard = copy.deepcopy(DASHBOARDS["gpu-autoscaler-pools"])
    FAULTS[fault](dashboard)

    assert len(list(wrong(SCHEMAS[grafana], dashboard))) == 1
