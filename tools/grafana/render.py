"""Draw dashboards without Grafana: its grid, every panel's data from a Prometheus, "no data" where there is none.

    python -m tools.grafana.render --prometheus http://127.0.0.1:9090 --out DIR [--minutes 60] [--scrape 15]

It writes DIR/UID.html for each dashboard, and names every panel without data. Exit status 1 when there is one.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tools.grafana import cells, courses, values
from tools.grafana.asking import Prometheus, Series, Span
from tools.grafana.drawing import Box
from tools.grafana.files import DASHBOARDS, JSON, unfolded

WIDTH, UNIT, GAP, TITLE = 1384, 30, 8, 26  # pixels: Grafana's page, grid row, gap and panel title

STYLE = """
body { margin: 8px; width: 1384px; font: 12px Helvetica, Arial, sans-serif; background: #f4f5f5; color: #333 }
h1 { font-size: 18px; margin: 4px 0 } .bar { margin: 4px 0 8px; color: #555 } .bar b { color: #222 }
.grid { position: relative } .panel, .row { position: absolute; box-sizing: border-box; overflow: hidden }
.panel { background: #fff; border: 1px solid #dfe2e6; border-radius: 2px }
.panel h2 { font-size: 12px; margin: 5px 8px 3px; height: 16px; color: #222 }
.row { font-weight: bold; padding: 7px 2px; font-size: 14px }
.nodata { display: flex; align-items: center; justify-content: center; color: #777; font-size: 15px }
table { width: 100%; border-collapse: collapse; font-size: 11px } th { text-align: left; color: #3871dc }
th, td { padding: 4px 8px; border-bottom: 1px solid #eee; white-space: nowrap }
td { max-width: 190px; overflow: hidden; text-overflow: ellipsis } svg { display: block }
"""


def draw(panel: JSON, prometheus: Prometheus, marks: Sequence[courses.Mark], span: Span, box: Box) -> str:
    """Return one panel's inside. Raises Refused when a query of it is not taken."""
    step = span.step(panel)
    found = [s for target in panel["targets"] for s in prometheus.course(target, span, step)]
    match panel["type"]:
        case "timeseries":
            return courses.draw(panel, found, marks, span, box, step)
        case "stat":
            return values.stat(panel, found, box)
        case "gauge":
            return values.gauge(panel, found, box)
        case "bargauge":
            return values.bargauge(panel, found, box)
        case "table":
            return values.table(panel, found, box)
        case "status-history":
            return cells.bands(panel, found, span, box, step)
        case "state-timeline":
            return cells.states(panel, found, span, box, step)
        case "heatmap":
            return cells.heatmap(panel, found, span, box, step)
    raise ValueError(f"no idea how to draw a {panel['type']}")


def marks_of(dashboard: JSON, prometheus: Prometheus, span: Span) -> list[courses.Mark]:
    """Return the annotations that are shown from the beginning: one mark for each run of steps with a value >= 1."""
    found: list[courses.Mark] = []
    for note in dashboard["annotations"]["list"]:
        if not note["enable"]:
            continue
        step = span.step({"interval": "1m"})  # as its `step` says; its window shrinks with it
        expr = note["expr"].replace("[120s]", f"[{2 * step * 1000:.0f}ms]")
        target = {"expr": expr, "instant": False, "legendFormat": note["titleFormat"], "refId": "A"}
        for series in prometheus.course(target, span, step):
            for start, end in _runs(series, step):
                found.append(courses.Mark(start=start, end=end, colour=note["iconColor"], title=series.name))
    return found


def _runs(series: Series, step: float) -> list[tuple[float, float]]:
    runs: list[tuple[float, float]] = []
    for at, value in series.points:
        if value < 1:
            continue
        if runs and at - runs[-1][1] <= 1.5 * step:
            runs[-1] = (runs[-1][0], at)
        else:
            runs.append((at, at))
    return runs


def page(dashboard: JSON, prometheus: Prometheus, span: Span) -> tuple[str, list[str]]:
    """Return a dashboard as HTML, and the titles of the panels without data."""
    marks = marks_of(dashboard, prometheus, span)
    column, parts, empty, lowest = (WIDTH + GAP) / 24, [], [], 0
    for panel in unfolded(dashboard):
        place = panel["gridPos"]
        x, y = place["x"] * column, place["y"] * (UNIT + GAP)
        width, height = round(place["w"] * column - GAP), place["h"] * (UNIT + GAP) - GAP
        lowest = max(lowest, y + height)
        at = f'style="left:{x:.0f}px;top:{y}px;width:{width}px;height:{height}px"'
        if panel["type"] == "row":
            folded = " (folded at first)" if panel["collapsed"] else ""
            parts.append(f'<div class="row" {at}>{escape(panel["title"])}{folded}</div>')
            continue
        drawn = draw(panel, prometheus, marks, span, Box(width=width - 2, height=height - TITLE - 4))
        if cells.is_empty(drawn):
            empty.append(panel["title"])
            drawn = drawn.replace("no data", escape(panel["fieldConfig"]["defaults"]["noValue"]))
        title = f'<h2 title="{escape(panel["description"])}">{escape(panel["title"])}</h2>'
        parts.append(f'<div class="panel" {at}>{title}{drawn}</div>')
    head = f"<h1>{escape(dashboard['title'])}</h1>{_bar(dashboard, prometheus)}"
    grid = f'<div class="grid" style="height:{lowest}px">{"".join(parts)}</div>'
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{head}{grid}', empty


def _bar(dashboard: JSON, prometheus: Prometheus) -> str:
    shown = []
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            offered = ", ".join(prometheus.choices(variable)) or "nothing else"
            shown.append(f"<b>{escape(variable['label'])}</b> All of: {escape(offered)}")
        elif variable["type"] == "textbox":
            shown.append(f"<b>{escape(variable['label'])}</b> {escape(variable['query'])}")
    linked = " | ".join(escape(link["title"]) for link in dashboard["links"])
    return f'<div class="bar">{" &nbsp; ".join(shown)}<br><b>Links</b> {linked}</div>'


def render(url: str, folder: Path, span: Span) -> dict[str, list[str]]:
    """Write every dashboard into *folder*; return the titles of panels without data by dashboard."""
    folder.mkdir(parents=True, exist_ok=True)
    prometheus, empty = Prometheus(url), {}
    for uid, dashboard in DASHBOARDS.items():
        html, empty[uid] = page(dashboard, prometheus, span)
        (folder / f"{uid}.html").write_text(html, encoding="utf-8")
    return empty


def main() -> int:
    """Draw, and say which panels have nothing to show."""
    parser = argparse.ArgumentParser(description="Draw the dashboards without Grafana.")
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--scrape", type=float, default=15, metavar="SECONDS")
    told = parser.parse_args()
    end = time.time()
    empty = render(told.prometheus, told.out, Span(start=end - 60 * told.minutes, end=end, scrape=told.scrape))
    for uid, titles in empty.items():
        sys.stdout.write(f"{told.out / uid}.html\n" + "".join(f"  no data: {title}\n" for title in titles))
    return 1 if any(empty.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
