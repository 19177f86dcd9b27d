"""Colours, thresholds and mappings of values to words, as Grafana's field configuration has them."""

from collections.abc import Mapping
from typing import Any

JSON = dict[str, Any]

GREEN, YELLOW, RED, BLUE, ORANGE, GREY, PURPLE = "green", "yellow", "red", "blue", "orange", "#8e8e8e", "purple"
AMBER = "dark-yellow"  # of thresholds, which colour text too: yellow cannot be read on white
CLEAR, TEXT = "transparent", "text"  # of no series: the palette has neither

STATES: Mapping[str, str] = {
    "required": PURPLE,
    "ready": BLUE,
    "building": YELLOW,
    "busy": GREEN,
    "idle": ORANGE,
    "unknown": RED,
    "sick": "dark-red",
}


def steps(base: str | None, *upward: tuple[float, str]) -> JSON:
    """Return thresholds: *base* is the colour below the first of *upward*, each from its value on."""
    begun = [{"color": base or GREEN, "value": None}]
    return {"mode": "absolute", "steps": [*begun, *({"color": c, "value": v} for v, c in upward)]}


PLAIN = steps(BLUE)
FILLED = {"type": "color-background", "mode": "basic"}  # a cell of a table, whose text Grafana makes black or white
# Utilization of one GPU or workload (ratio): too low and too high are both bad. A step begins at its value; 90 % is
# still green, 95 % not yet red.
BANDS = steps(RED, (0.4, AMBER), (0.7, GREEN), (0.90001, AMBER), (0.95001, RED))
# The target range of the whole fleet (ratio): above it headroom is missing, below it money is wasted.
FLEET_TARGET = steps(CLEAR, (0.65, GREEN), (0.85, CLEAR))
FLEET_VALUE = steps(RED, (0.4, AMBER), (0.65, GREEN), (0.85, AMBER), (0.95, RED))
# The defaults of budget.warn_at, hold_at and stop_at (ratio).
BUDGET = steps(GREEN, (0.5, AMBER), (0.8, ORANGE), (1.0, RED))
TEMPERATURE = steps(GREEN, (75, AMBER), (85, RED))
NONE_IS_GOOD = steps(GREEN, (1, RED))
ALL_IS_GOOD = steps(RED, (1, GREEN))


def words(**by_value: tuple[str, str]) -> list[JSON]:
    """Return value mappings: ``words(_1=("yes", "green"))`` shows 1 as a green "yes"."""
    options = {
        value.removeprefix("_"): {"text": text, "color": colour, "index": place}
        for place, (value, (text, colour)) in enumerate(by_value.items())
    }
    return [{"type": "value", "options": options}]


def coloured(name: str, colour: str) -> JSON:
    """Return the override that gives the series called *name* its colour."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
    }


def line(pattern: str, colour: str | None, *, dashed: bool = True) -> JSON:
    """Return the override that draws series whose names match *pattern* as lines that are not stacked.

    Several series match: *colour* None leaves each its own. Without slashes Grafana would match whole names only.
    """
    style = {"fill": "dash", "dash": [10, 6]} if dashed else {"fill": "solid"}
    values: JSON = {
        **({"color": {"mode": "fixed", "fixedColor": colour}} if colour else {}),
        "custom.lineStyle": style,
        "custom.fillOpacity": 0,
        "custom.lineWidth": 2,
        "custom.stacking": {"mode": "none", "group": "A"},
        "custom.drawStyle": "line",
    }
    return {
        "matcher": {"id": "byRegexp", "options": f"/{pattern}/"},
        "properties": [{"id": key, "value": value} for key, value in values.items()],
    }


def column(name: str, /, **properties: Any) -> JSON:
    """Return the override of one column of a table; a ``__`` in a property's name stands for a dot."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def every(**properties: Any) -> JSON:
    """Return the override of every series or column."""
    return {
        "matcher": {"id": "byRegexp", "options": "/.*/"},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }
