"""Draws panels of single values: stat, gauge, bargauge, table."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tools.grafana.asking import Series
from tools.grafana.drawing import Box, at_threshold, colour, mapped, no_data, properties, rectangle, svg, text
from tools.grafana.files import JSON
from tools.grafana.units import shown


def _said(options: Mapping[str, Any], value: float) -> tuple[str, str]:
    """The text and the colour of *value*."""
    found = mapped(options.get("mappings", ()), value)
    if found is not None:
        return found["text"], colour(found["color"])
    return shown(value, options["unit"], options.get("decimals")), at_threshold(options["thresholds"]["steps"], value)


def stat(panel: JSON, found: Sequence[Series], box: Box) -> str:
    """Return large last values side by side."""
    found = [s for s in found if s.points]
    if not found:
        return no_data(box)
    width = box.width / len(found)
    parts = []
    for place, series in enumerate(found):
        value = series.points[-1][1]
        words, hue = _said(properties(panel, series.name), value)
        if panel["options"]["textMode"] == "name":
            words = series.name
        size = min(34, int(box.height * 0.5), int(1.6 * width / max(len(words), 1)))
        middle = (place + 0.5) * width
        parts.append(text(middle, box.height * 0.55, words, size=max(size, 11), fill=hue, anchor="middle"))
        if len(found) > 1 and words != series.name:
            parts.append(text(middle, 13, series.name, anchor="middle"))
    return svg(box, parts)


def gauge(panel: JSON, found: Sequence[Series], box: Box) -> str:
    """Return dials."""
    found = [s for s in found if s.points]
    if not found:
        return no_data(box)
    columns = math.ceil(math.sqrt(len(found) * box.width / box.height / 1.2)) or 1
    columns = min(columns, len(found))
    rows = math.ceil(len(found) / columns)
    width, height = box.width / columns, box.height / rows
    radius = min(width / 2.4, height / 1.8)
    parts = []
    for place, series in enumerate(found):
        x, y = (place % columns + 0.5) * width, (place // columns) * height + radius + 8
        options = properties(panel, series.name)
        value = series.points[-1][1]
        most = options["max"]
        steps = options["thresholds"]["steps"]
        edges = [0, *(s["value"] for s in steps[1:] if s["value"] < most), most]
        for step, low, high in zip(steps, edges, edges[1:], strict=False):
            parts.append(_arc(x, y, radius, low / most, high / most, at_threshold([{**step, "value": None}], 0), 3))
        words, hue = _said(options, value)
        parts.append(_arc(x, y, radius - 8, 0, 1, "#e4e7eb", 14))
        parts.append(_arc(x, y, radius - 8, 0, min(max(value / most, 0.004), 1), hue, 14))
        parts.append(text(x, y, words, size=max(11, int(radius / 3.2)), fill=hue, anchor="middle"))
        parts.append(text(x, y + radius * 0.42, series.name, anchor="middle"))
    return svg(box, parts)


def _arc(x: float, y: float, radius: float, start: float, end: float, hue: str, width: int) -> str:
    """A part of three quarters of a circle; *start* and *end* are 0 to 1."""
    begin, stop = (math.radians(-210 + 240 * part) for part in (start, end))
    a, b = x + radius * math.cos(begin), y + radius * math.sin(begin)
    c, d = x + radius * math.cos(stop), y + radius * math.sin(stop)
    large = int(stop - begin > math.pi)
    path = f"M{a:.1f} {b:.1f}A{radius:.1f} {radius:.1f} 0 {large} 1 {c:.1f} {d:.1f}"
    return f'<path d="{path}" fill="none" stroke="{hue}" stroke-width="{width}"/>'


def bargauge(panel: JSON, found: Sequence[Series], box: Box) -> str:
    """Return horizontal bars."""
    found = [s for s in found if s.points]
    if not found:
        return no_data(box)
    height = min(34.0, box.height / len(found))
    room = min(box.width * 0.4, 14 + 6.3 * max(len(s.name) for s in found))
    most = max(s.points[-1][1] for s in found) or 1
    parts = []
    for place, series in enumerate(found):
        options, value, y = properties(panel, series.name), series.points[-1][1], place * height
        words, hue = _said(options, value)
        full = box.width - room - 80
        parts.append(text(room - 6, y + height * 0.62, series.name, anchor="end"))
        parts.append(rectangle(room, y + 3, full, height - 7, "#eef0f3"))
        parts.append(rectangle(room, y + 3, full * min(value / options.get("max", most), 1), height - 7, hue))
        parts.append(text(room + full + 6, y + height * 0.62, words, size=12, fill=hue))
    return svg(box, parts)


def table(panel: JSON, found: Sequence[Series], box: Box) -> str:
    """Return a table; rows of several queries that share their labels are one row."""
    letters = {t["refId"] for t in panel["targets"]}
    rows: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for series in found:
        labels = {k: v for k, v in series.labels.items() if k != "__name__"}
        row = rows.setdefault(tuple(sorted(labels.items())), dict(labels))
        row["Value" if len(letters) == 1 else f"Value #{series.ref}"] = series.last
    if not rows:
        return no_data(box)
    organized = next(t["options"] for t in panel["transformations"] if t["id"] == "organize")
    names = {k: title for k, title in organized["renameByName"].items() if any(k in row for row in rows.values())}
    order = list(rows.values())
    for sort in panel["options"]["sortBy"]:
        key = next((k for k, v in names.items() if v == sort["displayName"]), "")
        order.sort(key=lambda r: (r.get(key) is not None, r.get(key)), reverse=sort["desc"])
    head = "".join(f"<th>{escape(title)}</th>" for title in names.values())
    body = "".join(f"<tr>{''.join(_cell(panel, r.get(k), title) for k, title in names.items())}</tr>" for r in order)
    return f'<div style="height:{box.height}px;overflow:hidden"><table><tr>{head}</tr>{body}</table></div>'


def _cell(panel: JSON, value: object, title: str) -> str:
    if isinstance(value, float):
        options = properties(panel, title)
        words, hue = _said(options, value)
        kind = options.get("custom.cellOptions", {}).get("type")
        style = {"color-text": f"color:{hue}", "color-background": f"background:{hue}"}.get(kind, "")
        return f'<td class="number" style="{style}">{escape(words)}</td>'
    return f"<td>{escape(str(value or ''))}</td>"
