"""The dashboards as they are committed, and their queries as Prometheus gets them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dashboards"
PATHS = sorted(FOLDER.glob("*.json"))

JSON = dict[str, Any]

EVERYTHING: Mapping[str, str] = {"cluster": ".*", "pool": ".*", "namespace": ".*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query with where it stands: *field* is ``targets.A``, or ``annotation``."""

    dashboard: str
    panel: str
    field: str
    expr: str


def load(path: Path) -> JSON:
    """Read one dashboard."""
    found: JSON = json.loads(path.read_text(encoding="utf-8"))
    return found


DASHBOARDS = {path.stem: load(path) for path in PATHS}


def panels(dashboard: JSON) -> list[JSON]:
    """Return a dashboard's panels without the headings of rows, also those of folded rows."""
    return [p for p in unfolded(dashboard) if p["type"] != "row"]


def unfolded(dashboard: JSON) -> list[JSON]:
    """Return headings and panels where they are once every row is opened."""
    found, down = [], 0
    for part in dashboard["panels"]:
        for panel in (part, *part.get("panels", ())):
            place = panel["gridPos"]
            found.append({**panel, "gridPos": {**place, "y": place["y"] + down}})
        inside = [p["gridPos"]["y"] + p["gridPos"]["h"] for p in part.get("panels", ())]
        down += max(inside) - part["gridPos"]["y"] - 1 if inside else 0
    return found


def queries() -> Iterator[Query]:
    """Yield every query of every dashboard."""
    for uid, dashboard in DASHBOARDS.items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield Query(dashboard=uid, panel=panel["title"], field=target["refId"], expr=target["expr"])
        for note in dashboard["annotations"]["list"]:
            yield Query(dashboard=uid, panel=note["name"], field="annotation", expr=note["expr"])


def filled(expr: str, chosen: Mapping[str, str] = EVERYTHING, window: str = "5m", span: str = "1h") -> str:
    """Return *expr* as Grafana sends it: its own variables and those that people choose are replaced.

    *window* is the interval of a rate, *span* the dashboard's time range.
    """
    text = re.sub(r"\$__(rate_interval|interval)\b", window, expr).replace("$__range", span)
    for name, value in chosen.items():
        text = re.sub(rf"\$\{{{name}\}}|\${name}\b", value.replace("\\", r"\\"), text)
    return text
