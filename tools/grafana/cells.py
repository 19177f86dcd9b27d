"""Draws panels of many rows: status history, state timeline, heat map."""

import re
from collections.abc import Sequence

from tools.grafana.asking import Series, Span
from tools.grafana.drawing import Box, at_threshold, clocks, mapped, no_data, properties, rectangle, svg, text
from tools.grafana.files import JSON
from tools.grafana.units import shown

BOTTOM = 20
CHARACTER = 6.2  # pixels of a row's name


def _room(found: Sequence[Series], box: Box) -> float:
    return min(box.width * 0.42, 16 + CHARACTER * max(len(s.name) for s in found))


def _x(at: float, span: Span, left: float, width: float) -> float:
    return left + (at - span.start) / (span.end - span.start) * (width - left - 8)


def _times(span: Span, left: float, box: Box) -> list[str]:
    return [
        text(_x(at, span, left, box.width), box.height - 5, clock, anchor=anchor)
        for at, clock, anchor in clocks(span, box.width - left)
    ]


def _label(name: str, left: float, y: float) -> str:
    """A row's name, without its beginning where there is no room for all of it."""
    most = int((left - 12) / CHARACTER)
    words = name if len(name) <= most else f"…{name[1 - most :]}"
    return text(left - 6, y, words, anchor="end", size=10)


def bands(panel: JSON, found: Sequence[Series], span: Span, box: Box, step: float) -> str:
    """Return a row of cells per series in the colours of the thresholds."""
    found = sorted((s for s in found if s.points), key=lambda s: s.name)
    if not found:
        return no_data(box)
    left, height = _room(found, box), min(30.0, (box.height - BOTTOM) / len(found))
    width = _x(span.start + step, span, left, box.width) - left
    parts = _times(span, left, box)
    for place, series in enumerate(found):
        options, y = properties(panel, series.name), place * height
        parts.append(_label(series.name, left, y + height / 2 + 4))
        for at, value in series.points:
            hue = at_threshold(options["thresholds"]["steps"], value)
            hint = f"{series.name}: {shown(value, options['unit'])}"
            x = max(_x(at, span, left, box.width), left)
            parts.append(rectangle(x, y + 1, max(width - 0.6, 1), height - 2, hue, opacity=0.9, hint=hint))
    return svg(box, parts)


def states(panel: JSON, found: Sequence[Series], span: Span, box: Box, step: float) -> str:
    """Return a row per series with a bar for as long as a value lasted."""
    found = [s for s in found if s.points]
    if not found:
        return no_data(box)
    left, height = _room(found, box), min(34.0, (box.height - BOTTOM) / len(found))
    parts = _times(span, left, box)
    for place, series in enumerate(found):
        options, y = properties(panel, series.name), place * height
        parts.append(_label(series.name, left, y + height / 2 + 4))
        for start, end, value in _lasting(series.points, step):
            said = mapped(options["mappings"], value)
            words = said["text"] if said else shown(value, options["unit"])
            hue = at_threshold([{"value": None, "color": said["color"]}], 0) if said else "#ccc"
            x, until = max(_x(start, span, left, box.width), left), _x(min(end, span.end), span, left, box.width)
            parts.append(rectangle(x, y + 2, until - x, height - 4, hue, opacity=0.75, hint=words))
            if until - x > 7 * len(words):
                parts.append(text(x + 4, y + height / 2 + 4, words, size=10, fill="#222"))
    return svg(box, parts)


def _lasting(points: Sequence[tuple[float, float]], step: float) -> list[tuple[float, float, float]]:
    runs: list[tuple[float, float, float]] = []
    for at, value in points:
        if runs and runs[-1][2] == value and at - runs[-1][1] < step / 2:
            runs[-1] = (runs[-1][0], at + step, value)
        else:
            runs.append((at, at + step, value))
    return runs


def heatmap(panel: JSON, found: Sequence[Series], span: Span, box: Box, step: float) -> str:
    """Return how many observations fell into each bucket; the series are cumulative, as a histogram's are."""
    buckets = sorted(((float(s.labels["le"]), s) for s in found if "le" in s.labels), key=lambda b: b[0])
    counts: dict[tuple[float, float], float] = {}
    below: dict[float, float] = {}
    for bound, series in buckets:
        for at, value in series.points:
            counts[at, bound] = max(0.0, value - below.get(at, 0.0))
            below[at] = value
    if not any(counts.values()):
        return no_data(box)
    used = [bound for bound, _ in buckets if any(n for (_, b), n in counts.items() if b == bound)]
    shown_bounds = [b for b, _ in buckets if min(used) <= b <= max(used)]
    unit = panel["options"]["yAxis"]["unit"]
    left, height = 64.0, (box.height - BOTTOM) / len(shown_bounds)
    width, most = _x(span.start + step, span, left, box.width) - left, max(counts.values())
    parts = _times(span, left, box)
    for place, bound in enumerate(reversed(shown_bounds)):
        label = "more" if bound == float("inf") else f"≤ {shown(bound, unit)}"
        parts.append(text(left - 6, place * height + height / 2 + 4, label, anchor="end", size=10))
        for (at, of), number in counts.items():
            if of == bound and number > 1e-9:
                x = max(_x(at, span, left, box.width), left)
                hue = f"hsl(214 80% {88 - 55 * (number / most) ** 0.5:.0f}%)"
                parts.append(rectangle(x, place * height, max(width - 1, 1), height - 1, hue, hint=f"{number:.1f}"))
    return svg(box, parts)


def is_empty(drawn: str) -> bool:
    """True for what `no_data` draws."""
    return re.match(r'<div class="nodata"', drawn) is not None
