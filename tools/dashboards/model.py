"""The parts of a dashboard, and its classic JSON, which Grafana 10 to 13 load from a file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.dashboards.variables import DATASOURCE, cluster, datasource

JSON = dict[str, Any]

SCHEMA = 39  # Grafana 10.4 and 11 write it; later ones migrate it when they load it
COLUMNS = 24
STEP_SECONDS = 60  # of annotations
TAGS = ("civo", "gpu", "gpu-autoscaler", "kubernetes")
GRAFANA = "10.4.0"  # the oldest one whose schema tests/dashboards checks
KINDS = {
    "timeseries": "Time series",
    "stat": "Stat",
    "gauge": "Gauge",
    "bargauge": "Bar gauge",
    "table": "Table",
    "status-history": "Status history",
    "state-timeline": "State timeline",
    "heatmap": "Heatmap",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One query. *legend* names its series; *table* queries one row per series, now, instead of a time series."""

    expr: str
    legend: str = "__auto"
    table: bool = False
    instant: bool = False
    heatmap: bool = False

    def json(self, ref: str) -> JSON:
        """Return it under the letter *ref*."""
        instant = self.table or self.instant
        return {
            "refId": ref,
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": self.expr,
            "legendFormat": self.legend,
            "format": "table" if self.table else "heatmap" if self.heatmap else "time_series",
            "instant": instant,
            "range": not instant,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel without its place. *width* is in columns of 24, *height* in rows of 30 pixels.

    *empty* is shown where no query answers: what is missing, or what there is none of.
    *defaults* and *overrides* are Grafana's field configuration; *points* bounds how many values a series has,
    *interval* is the least time between two of them.
    """

    kind: str
    title: str
    description: str
    targets: Sequence[Target]
    empty: str
    width: int
    height: int = 8
    defaults: JSON = field(default_factory=dict)
    overrides: Sequence[JSON] = ()
    options: JSON = field(default_factory=dict)
    transformations: Sequence[JSON] = ()
    links: Sequence[JSON] = ()
    points: int | None = None
    interval: str | None = None

    def json(self, number: int, x: int, y: int) -> JSON:
        """Return it at its place."""
        found: JSON = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "fieldConfig": {"defaults": {**self.defaults, "noValue": self.empty}, "overrides": list(self.overrides)},
            "options": self.options,
            "targets": [t.json(chr(ord("A") + place)) for place, t in enumerate(self.targets)],
            "transformations": list(self.transformations),
            "links": list(self.links),
        }
        if self.points is not None:
            found["maxDataPoints"] = self.points
        if self.interval is not None:
            found["interval"] = self.interval
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A heading and the panels below it, from left to right and from top to bottom. *folded*: only the heading is
    shown, until someone opens it."""

    title: str
    panels: Sequence[Panel]
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Marks on every time axis where *expr* has a value of 1 or more."""

    name: str
    expr: str
    colour: str
    title: str
    text: str
    shown: bool = True

    def json(self) -> JSON:
        """Return Grafana's JSON for it."""
        return {
            "name": self.name,
            "datasource": DATASOURCE,
            "enable": self.shown,
            "hide": False,
            "expr": self.expr,
            "step": f"{STEP_SECONDS}s",
            "iconColor": self.colour,
            "titleFormat": self.title,
            "textFormat": self.text,
            "tagKeys": "",
            "useValueForTime": False,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A dashboard. *uid* never changes: links and bookmarks hold it."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    annotations: Sequence[Annotation] = ()
    variables: Sequence[JSON] = ()
    links: Sequence[JSON] = ()
    span: str = "now-6h"
    refresh: str = "30s"

    def json(self) -> JSON:
        """Return the file's content. Without the fields of an export, ``__...``, grafana.com refuses it; there are no
        inputs, because only an import by hand fills them in."""
        return {
            "__inputs": [],
            "__elements": {},
            "__requires": list(self._requires()),
            "id": None,
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": list(TAGS),
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "fiscalYearStartMonth": 0,
            "liveNow": False,
            "weekStart": "",
            "timezone": "browser",
            "time": {"from": self.span, "to": "now"},
            "timepicker": {},
            "refresh": self.refresh,
            "annotations": {"list": [a.json() for a in self.annotations]},
            "links": list(self.links),
            "templating": {"list": [datasource(), cluster(), *self.variables]},
            "panels": list(self._panels()),
        }

    def _requires(self) -> Iterator[JSON]:
        yield {"type": "grafana", "id": "grafana", "name": "Grafana", "version": GRAFANA}
        yield {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"}
        for kind in sorted({panel.kind for row in self.rows for panel in row.panels}):
            yield {"type": "panel", "id": kind, "name": KINDS[kind], "version": ""}

    def _panels(self) -> Iterator[JSON]:
        number, y = 1, 0
        for row in self.rows:
            inside, height = _placed(row.panels, number + 1, y + 1)
            yield _heading(row, number, y, inside if row.folded else [])
            if not row.folded:
                yield from inside
            number += 1 + len(inside)
            y += 1 if row.folded else 1 + height


def _placed(panels: Sequence[Panel], number: int, top: int) -> tuple[list[JSON], int]:
    """Return *panels* at their places from *top* on, numbered from *number* on, and the height of all."""
    placed = []
    x, y, highest = 0, top, 0
    for place, panel in enumerate(panels):
        if x + panel.width > COLUMNS:
            x, y, highest = 0, y + highest, 0
        placed.append(panel.json(number + place, x, y))
        x, highest = x + panel.width, max(highest, panel.height)
    return placed, y + highest - top


def _heading(row: Row, number: int, y: int, inside: list[JSON]) -> JSON:
    place = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
    return {
        "id": number,
        "type": "row",
        "title": row.title,
        "collapsed": row.folded,
        "gridPos": place,
        "panels": inside,
    }
