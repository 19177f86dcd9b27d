"""Small pieces of SVG and HTML, and what a panel's field configuration says of a series."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tools.grafana.asking import Span
from tools.grafana.files import JSON

PALETTE = ("#73BF69", "#F2CC0C", "#5794F2", "#FF780A", "#F2495C", "#B877D9", "#37872D", "#E0B400", "#3274D9", "#FA6400")
CLOCK = 64  # pixels that a time of day needs
COLOURS: Mapping[str, str] = {
    "green": "#73BF69",
    "yellow": "#FADE2A",
    "light-yellow": "#FFF3A0",
    "dark-yellow": "#E0B400",
    "red": "#F2495C",
    "dark-red": "#A1122B",
    "blue": "#5794F2",
    "light-blue": "#A9CBFA",
    "orange": "#FF9830",
    "purple": "#B877D9",
    "light-purple": "#DEB6F2",
    "transparent": "none",
    "text": "#333",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A panel's inside in pixels, without its title."""

    width: int
    height: int


def colour(name: str) -> str:
    """Return a colour of Grafana's as CSS."""
    return COLOURS.get(name, name)


def text(x: float, y: float, words: str, *, size: int = 11, fill: str = "#555", anchor: str = "start") -> str:
    """Return a line of text; *y* is its base line."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def rectangle(x: float, y: float, width: float, height: float, fill: str, *, opacity: float = 1, hint: str = "") -> str:
    """Return a filled rectangle."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {place} fill="{fill}" fill-opacity="{opacity:g}"><title>{escape(hint)}</title></rect>'


def clocks(span: Span, width: float) -> Iterator[tuple[float, str, str]]:
    """Yield moments of *span* to write below an axis of *width* pixels: Unix seconds, text and where it is anchored."""
    form = "%H:%M:%S" if span.end - span.start < 1800 else "%H:%M"
    gaps = min(4, max(1, int(width / CLOCK) - 1))
    for place in range(gaps + 1):
        at = span.start + (span.end - span.start) * place / gaps
        anchor = "start" if place == 0 else "end" if place == gaps else "middle"
        yield at, time.strftime(form, time.gmtime(at)), anchor


def svg(box: Box, parts: Sequence[str]) -> str:
    """Return a picture of the size of *box*."""
    return f'<svg width="{box.width}" height="{box.height}">{"".join(parts)}</svg>'


def no_data(box: Box) -> str:
    """Return what a panel without any value shows."""
    return f'<div class="nodata" style="height:{box.height}px">no data</div>'


def properties(panel: JSON, name: str) -> dict[str, Any]:
    """Return the field configuration of the series or column called *name*, keys as in overrides."""
    defaults = panel["fieldConfig"]["defaults"]
    found = {k: v for k, v in defaults.items() if k != "custom"}
    found |= {f"custom.{k}": v for k, v in defaults.get("custom", {}).items()}
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        by_name = matcher["id"] == "byName" and matcher["options"] == name
        if by_name or (matcher["id"] == "byRegexp" and re.search(matcher["options"].strip("/"), name)):
            found |= {p["id"]: p["value"] for p in override["properties"]}
    return found


def at_threshold(steps: Sequence[JSON], value: float) -> str:
    """Return the colour that thresholds give to *value*."""
    reached = [s for s in steps if s["value"] is None or value >= s["value"]]
    return colour(reached[-1]["color"])


def mapped(mappings: Sequence[JSON], value: float) -> JSON | None:
    """Return the text and colour that value mappings give to *value*."""
    for mapping in mappings:
        found: JSON | None = mapping["options"].get(f"{value:g}")
        if found is not None:
            return found
    return None


def ticks(low: float, high: float, most: int = 5) -> Iterator[float]:
    """Yield round values between *low* and *high*."""
    raw = (high - low) / most
    power = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 1.0
    while raw < power / 10 or (raw < 1 and power > raw):
        power /= 10
    step = next(m * power for m in (1, 2, 2.5, 5, 10, 20) if m * power >= raw)
    tick = low - low % step
    while tick <= high + step / 1e6:
        if tick >= low - step / 1e6:
            yield round(tick, 12)
        tick += step
