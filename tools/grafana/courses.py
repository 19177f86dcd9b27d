"""Draws timeseries panels: lines, stacks, bars, thresholds and marks of what happened."""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.grafana.asking import Series, Span
from tools.grafana.drawing import PALETTE, Box, clocks, colour, no_data, properties, rectangle, svg, text, ticks
from tools.grafana.files import JSON
from tools.grafana.units import shown

LEFT, RIGHT, TOP, BOTTOM = 58, 10, 8, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An annotation: where, how long (Unix seconds), and in what colour."""

    start: float
    end: float
    colour: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series with its look; *below* is what it is stacked on, at each of its times."""

    series: Series
    colour: str
    options: JSON
    below: Sequence[float]

    @property
    def stacked(self) -> bool:
        """True when it adds to those before it."""
        return bool(self.options["custom.stacking"]["mode"] == "normal")


class Axes:
    """From times and values to pixels."""

    def __init__(self, box: Box, height: float, span: Span, low: float, high: float, *, right: bool) -> None:
        self.left, self.right = LEFT, box.width - (LEFT if right else RIGHT)
        self.top, self.bottom = TOP, height - BOTTOM
        self._span, self.low, self.high = span, low, high

    def x(self, at: float) -> float:
        """Pixels of a moment."""
        part = (at - self._span.start) / (self._span.end - self._span.start)
        return self.left + part * (self.right - self.left)

    def y(self, value: float) -> float:
        """Pixels of a value."""
        part = (value - self.low) / (self.high - self.low)
        return self.bottom - min(max(part, 0), 1) * (self.bottom - self.top)


def draw(panel: JSON, found: Sequence[Series], marks: Sequence[Mark], span: Span, box: Box, step: float) -> str:
    """Return the panel's inside."""
    found = [s for s in found if s.points]
    if not found:
        return no_data(box)
    lines = _lines(panel, found)
    defaults = panel["fieldConfig"]["defaults"]
    entries = min(len(lines), 6)
    height = box.height - 14 * entries - (12 if len(lines) > entries else 0) - 4
    second = [line for line in lines if line.options.get("custom.axisPlacement") == "right"]
    first = [line for line in lines if line not in second] or lines
    axes = Axes(box, height, span, *_bounds(first, defaults), right=bool(second))
    parts = [*_grid(axes, panel, span), *_thresholds(axes, defaults)]
    parts += [_mark(axes, mark) for mark in marks]
    parts += [p for line in first for p in _drawn(axes, line, step)]
    if second:
        other = Axes(box, height, span, *_bounds(second, {}), right=True)
        unit = second[0].options["unit"]
        parts += [text(other.right + 4, other.y(t) + 4, shown(t, unit)) for t in ticks(other.low, other.high)]
        parts += [p for line in second for p in _drawn(other, line, step)]
    parts += _legend(lines, height, entries)
    return svg(box, parts)


def _lines(panel: JSON, found: Sequence[Series]) -> list[Line]:
    lines: list[Line] = []
    sums: dict[float, float] = {}
    for place, series in enumerate(sorted(found, key=lambda s: s.ref)):
        options = properties(panel, series.name)
        chosen = options["color"]
        hue = colour(chosen["fixedColor"]) if chosen["mode"] == "fixed" else PALETTE[place % len(PALETTE)]
        below = [0.0] * len(series.points)
        if options["custom.stacking"]["mode"] == "normal":
            below = [sums.get(at, 0.0) for at, _ in series.points]
            sums |= {at: base + value for (at, value), base in zip(series.points, below, strict=True)}
        lines.append(Line(series=series, colour=hue, options=options, below=below))
    return lines


def _bounds(lines: Sequence[Line], defaults: JSON) -> tuple[float, float]:
    tops = [b + v for line in lines for (_, v), b in zip(line.series.points, line.below, strict=True)]
    low, high = min(0.0, *tops, 0.0), max(tops)
    low, high = defaults.get("min", low), defaults.get("max", high)
    if high <= low:
        high = low + 1
    return low, high if "max" in defaults else high + (high - low) * 0.06


def _grid(axes: Axes, panel: JSON, span: Span) -> list[str]:
    defaults = panel["fieldConfig"]["defaults"]
    parts = []
    for tick in ticks(axes.low, axes.high, 4):
        if defaults.get("decimals") == 0 and tick % 1:
            continue
        y = axes.y(tick)
        parts.append(f'<path d="M{axes.left} {y:.1f}H{axes.right}" stroke="#e4e7eb"/>')
        parts.append(text(axes.left - 5, y + 4, shown(tick, defaults["unit"], defaults.get("decimals")), anchor="end"))
    for at, clock, anchor in clocks(span, axes.right - axes.left):
        parts.append(text(axes.x(at), axes.bottom + 14, clock, anchor=anchor))
    return parts


def _thresholds(axes: Axes, defaults: JSON) -> list[str]:
    style = defaults["custom"]["thresholdsStyle"]["mode"]
    steps = defaults["thresholds"]["steps"]
    if style == "off":
        return []
    if style == "dashed":
        return [
            f'<path d="M{axes.left} {axes.y(s["value"]):.1f}H{axes.right}" stroke="{colour(s["color"])}" '
            'stroke-dasharray="8 5"/>'
            for s in steps[1:]
            if axes.low <= s["value"] <= axes.high
        ]
    parts = []
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        low = axes.low if step["value"] is None else max(step["value"], axes.low)
        high = axes.high if after is None else min(after["value"], axes.high)
        if step["color"] != "transparent" and high > low:
            top, base = axes.y(high), axes.y(low)
            parts.append(
                rectangle(axes.left, top, axes.right - axes.left, base - top, colour(step["color"]), opacity=0.18)
            )
    return parts


def _mark(axes: Axes, mark: Mark) -> str:
    x, until = axes.x(mark.start), axes.x(mark.end)
    line = f'<path d="M{x:.1f} {axes.top}V{axes.bottom}" stroke="{colour(mark.colour)}" stroke-dasharray="3 3"/>'
    triangle = f'<path d="M{x - 4:.1f} {axes.bottom + 5}h8l-4 -5z" fill="{colour(mark.colour)}"/>'
    shade = rectangle(
        x, axes.top, until - x, axes.bottom - axes.top, colour(mark.colour), opacity=0.08, hint=mark.title
    )
    return shade + line + triangle


def _drawn(axes: Axes, line: Line, step: float) -> list[str]:
    points = [
        (axes.x(at), axes.y(base + value), axes.y(base))
        for (at, value), base in zip(line.series.points, line.below, strict=True)
    ]
    if line.options["custom.drawStyle"] == "bars":
        width = max(2.0, (axes.x(step) - axes.x(0)) * 0.8)
        return [rectangle(x - width / 2, top, width, base - top, line.colour, opacity=0.7) for x, top, base in points]
    dash = ' stroke-dasharray="8 5"' if line.options.get("custom.lineStyle", {}).get("fill") == "dash" else ""
    fill = line.options["custom.fillOpacity"] / 100
    parts = []
    gap = line.options["custom.spanNulls"] / 1000 or 1.5 * step
    for run in _runs(line.series.points, points, gap):
        path = _path([(x, y) for x, y, _ in run], stepped=line.options["custom.lineInterpolation"] == "stepAfter")
        if fill and len(run) > 1:
            reverse = "".join(f"L{x:.1f} {b:.1f}" for x, _, b in reversed(run))
            parts.append(f'<path d="{path}{reverse}Z" fill="{line.colour}" fill-opacity="{fill:g}"/>')
        width = line.options["custom.lineWidth"] + 0.5
        parts.append(f'<path d="{path}" fill="none" stroke="{line.colour}" stroke-width="{width}"{dash}/>')
        if len(run) == 1:
            parts.append(f'<circle cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="2.5" fill="{line.colour}"/>')
    return parts


def _runs(
    times: Sequence[tuple[float, float]], points: Sequence[tuple[float, float, float]], gap: float
) -> list[list[tuple[float, float, float]]]:
    """Split *points* where more than *gap* seconds lie between two of the *times*."""
    runs: list[list[tuple[float, float, float]]] = []
    before = None
    for (at, _), point in zip(times, points, strict=True):
        if before is None or at - before > gap:
            runs.append([])
        runs[-1].append(point)
        before = at
    return runs


def _path(points: Sequence[tuple[float, float]], *, stepped: bool) -> str:
    (x, y), *rest = points
    if stepped:
        return f"M{x:.1f} {y:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in rest)
    return f"M{x:.1f} {y:.1f}" + "".join(f"L{a:.1f} {b:.1f}" for a, b in rest)


def _legend(lines: Sequence[Line], y: float, entries: int) -> list[str]:
    parts = []
    for place, line in enumerate(lines[:entries]):
        base = y + 14 * (place + 1)
        unit, decimals = line.options["unit"], line.options.get("decimals")
        last = shown(line.series.points[-1][1], unit, decimals)
        most = shown(max(v for _, v in line.series.points), unit, decimals)
        parts.append(rectangle(8, base - 6, 12, 4, line.colour))
        parts.append(text(25, base, f"{line.series.name}   last {last}   max {most}"))
    if len(lines) > entries:
        parts.append(text(25, y + 14 * entries + 12, f"... {len(lines) - entries} more", fill="#888"))
    return parts
