"""The kinds of panel that show many series at once: cells in colours, states in words, histograms."""

from collections.abc import Sequence

from tools.dashboards.looks import JSON
from tools.dashboards.model import Panel, Target
from tools.dashboards.panels import fields


def bands(
    title: str,
    description: str,
    *targets: Target,
    empty: str,
    unit: str,
    thresholds: JSON,
    width: int = 24,
    height: int = 10,
    points: int = 60,
    most: float | None = 1,
) -> Panel:
    """Return a row of coloured cells per series: a heat map whose colours are thresholds."""
    return Panel(
        kind="status-history",
        title=title,
        description=description,
        targets=targets,
        empty=empty,
        width=width,
        height=height,
        points=points,
        defaults=fields(
            unit, thresholds, {"mode": "thresholds"}, {"fillOpacity": 85, "lineWidth": 0}, 0, most, None, ()
        ),
        options={
            "rowHeight": 0.9,
            "colWidth": 1,
            "showValue": "never",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "single", "sort": "none"},
        },
    )


def states(
    title: str,
    description: str,
    *targets: Target,
    empty: str,
    mappings: Sequence[JSON],
    width: int = 12,
    height: int = 8,
    thresholds: JSON | None = None,
) -> Panel:
    """Return a row of named states over time per series."""
    field = fields(
        "short", thresholds, {"mode": "thresholds"}, {"fillOpacity": 75, "lineWidth": 0}, None, None, None, ()
    )
    return Panel(
        kind="state-timeline",
        title=title,
        description=description,
        targets=targets,
        empty=empty,
        width=width,
        height=height,
        defaults={**field, "mappings": list(mappings)},
        options={
            "mergeValues": True,
            "rowHeight": 0.8,
            "showValue": "auto",
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
            "tooltip": {"mode": "single", "sort": "none"},
        },
    )


def heatmap(
    title: str, description: str, target: Target, *, empty: str, unit: str, width: int = 12, height: int = 8
) -> Panel:
    """Return how many observations fell into each bucket of a histogram over time; *unit* is that of the buckets."""
    return Panel(
        kind="heatmap",
        title=title,
        description=description,
        targets=[target],
        empty=empty,
        width=width,
        height=height,
        points=60,
        defaults={"unit": "short", "custom": {"scaleDistribution": {"type": "linear"}}},
        options={
            "calculate": False,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Blues", "steps": 64, "exponent": 0.5, "reverse": False},
            "yAxis": {"axisPlacement": "left", "unit": unit, "reverse": False},
            "rowsFrame": {"layout": "auto"},
            "filterValues": {"le": 1e-9},
            "legend": {"show": True},
            "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": False},
        },
    )
