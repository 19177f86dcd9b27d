"""The kinds of panel, each as a function of what differs between panels."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tools.dashboards import looks
from tools.dashboards.looks import JSON, PLAIN
from tools.dashboards.model import Panel, Target


def timeseries(
    title: str,
    description: str,
    *targets: Target,
    empty: str,
    unit: str,
    width: int = 12,
    height: int = 8,
    stacked: bool = False,
    bars: bool = False,
    steps: bool = False,
    spanned: bool = False,
    least: float | None = 0,
    most: float | None = None,
    thresholds: JSON | None = None,
    threshold_style: str = "off",
    decimals: int | None = None,
    overrides: Sequence[JSON] = (),
    links: Sequence[JSON] = (),
) -> Panel:
    """Return time series. *threshold_style* is off, line, dashed or area. *bars* count events per minute or more.
    *spanned* joins points over gaps in the data of up to an hour."""
    custom: JSON = {
        "drawStyle": "bars" if bars else "line",
        "lineInterpolation": "stepAfter" if steps else "linear",
        "lineWidth": 1,
        "fillOpacity": 60 if bars else 30 if stacked else 0,
        "showPoints": "never",
        "spanNulls": 3_600_000 if spanned else False,
        "axisSoftMin": 0,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": threshold_style},
    }
    return Panel(
        kind="timeseries",
        title=title,
        description=description,
        targets=targets,
        empty=empty,
        width=width,
        height=height,
        defaults=fields(unit, thresholds, {"mode": "palette-classic"}, custom, least, most, decimals, links),
        interval="1m" if bars else None,
        overrides=overrides,
        options={
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": True,
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    )


def _now(targets: Iterable[Target]) -> tuple[Target, ...]:
    return tuple(replace(target, instant=True) for target in targets)


def stat(
    title: str,
    description: str,
    *targets: Target,
    empty: str,
    unit: str,
    width: int = 4,
    height: int = 4,
    thresholds: JSON | None = None,
    mappings: Sequence[JSON] = (),
    decimals: int | None = None,
    names: bool = False,
    links: Sequence[JSON] = (),
) -> Panel:
    """Return the value at the end of the time range in large type; with *names* the series' name instead.

    Not the last value within the range, with a sparkline: of a source that is silent it would show the last hour's.
    """
    defaults = fields(unit, thresholds, {"mode": "thresholds"}, {}, None, None, decimals, links)
    return Panel(
        kind="stat",
        title=title,
        description=description,
        targets=_now(targets),
        empty=empty,
        width=width,
        height=height,
        defaults={**defaults, "mappings": list(mappings)},
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "textMode": "name" if names else "auto",
        },
    )


def gauge(
    title: str,
    description: str,
    *targets: Target,
    empty: str,
    unit: str,
    thresholds: JSON,
    width: int = 6,
    height: int = 6,
    most: float = 1,
) -> Panel:
    """Return the value of each series at the end of the time range on a dial from 0 to *most*."""
    return Panel(
        kind="gauge",
        title=title,
        description=description,
        targets=_now(targets),
        empty=empty,
        width=width,
        height=height,
        defaults=fields(unit, thresholds, {"mode": "thresholds"}, {}, 0, most, None, ()),
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "orientation": "auto",
            "showThresholdLabels": False,
            "showThresholdMarkers": True,
        },
    )


def bargauge(
    title: str,
    description: str,
    *targets: Target,
    empty: str,
    unit: str,
    width: int = 8,
    height: int = 8,
    thresholds: JSON | None = None,
    most: float | None = None,
    links: Sequence[JSON] = (),
) -> Panel:
    """Return the last value of each series as a bar."""
    return Panel(
        kind="bargauge",
        title=title,
        description=description,
        targets=targets,
        empty=empty,
        width=width,
        height=height,
        defaults=fields(unit, thresholds, {"mode": "thresholds"}, {}, 0, most, None, links),
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "orientation": "horizontal",
            "displayMode": "basic",
            "showUnfilled": True,
            "valueMode": "color",
        },
    )


def table(
    title: str,
    description: str,
    *targets: Target,
    empty: str,
    unit: str,
    columns: dict[str, str],
    width: int = 12,
    height: int = 8,
    sort: str | None = None,
    overrides: Sequence[JSON] = (),
    thresholds: JSON | None = None,
) -> Panel:
    """Return one row per series. *columns* maps labels and ``Value`` (``Value #A``... where there are several queries,
    whose rows are merged by the labels that they share) to headings, in their order; the rest is left out."""
    return Panel(
        kind="table",
        title=title,
        description=description,
        targets=targets,
        empty=empty,
        width=width,
        height=height,
        defaults=fields(
            unit, thresholds, {"mode": "thresholds"}, {"align": "auto", "filterable": False}, None, None, None, ()
        ),
        # A cell without a value would repeat what an empty table says.
        overrides=[looks.every(noValue="–"), *overrides] if len(targets) > 1 else overrides,
        transformations=[
            *([{"id": "merge", "options": {}}] if len(targets) > 1 else []),
            {"id": "filterFieldsByName", "options": {"include": {"names": list(columns)}}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {},
                    "indexByName": {name: place for place, name in enumerate(columns)},
                    "renameByName": columns,
                },
            },
        ],
        options={
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": sort, "desc": True}] if sort else [],
        },
    )


def values(titles: Iterable[str]) -> dict[str, str]:
    """Return the columns of a table's queries, in the order of the queries."""
    return {f"Value #{chr(ord('A') + place)}": title for place, title in enumerate(titles)}


def fields(
    unit: str,
    thresholds: JSON | None,
    colour: JSON,
    custom: JSON,
    least: float | None,
    most: float | None,
    decimals: int | None,
    links: Sequence[JSON],
) -> JSON:
    """Return the field configuration that all kinds of panel share."""
    given: dict[str, Any] = {"min": least, "max": most, "decimals": decimals}
    return {
        "unit": unit,
        "color": colour,
        "thresholds": thresholds or PLAIN,
        "custom": custom,
        "mappings": [],
        "links": list(links),
        **{key: value for key, value in given.items() if value is not None},
    }
