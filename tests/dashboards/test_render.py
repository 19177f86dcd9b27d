"""The renderer shows what there is, in the colours and words of the panel, and says where there is nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboards import cells, courses, values
from tests.dashboards.asking import Prometheus, Refused, Series, Span, legend
from tests.dashboards.drawing import Box, ticks
from tests.dashboards.files import DASHBOARDS, JSON, panels
from tests.dashboards.render import render
from tests.dashboards.units import shown
from tests.rules.servers import running

BOX = Box(width=600, height=240)
SPAN = Span(start=0, end=600, scrape=15)


def panel(dashboard: str, title: str) -> JSON:
    return next(p for p in panels(DASHBOARDS[f"gpu-autoscaler-{dashboard}"]) if p["title"] == title)


def series(name: str, *numbers: float, ref: str = "A", **labels: str) -> Series:
    points = [(60.0 * n, value) for n, value in enumerate(numbers)]
    return Series(name=name, ref=ref, labels=labels, points=points)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "p.yml").write_text("{}")
    flags = (f"--config.file={folder / 'p.yml'}", f"--storage.tsdb.path={folder / 'data'}")
    with running("prometheus", folder / "log", *flags) as url:
        yield url


def test_no_query_errs_where_there_is_nothing_and_every_panel_is_drawn(empty: str, tmp_path: Path) -> None:
    found = render(empty, tmp_path, SPAN)
    assert set(found) == set(DASHBOARDS)
    assert "Nodes by state" in found["gpu-autoscaler-pools"]
    assert "GPUs requested" in found["gpu-autoscaler-queues"]  # whether any waits is unknown: that is not 0
    for uid, dashboard in DASHBOARDS.items():
        html = (tmp_path / f"{uid}.html").read_text()
        assert html.count('class="panel"') == len(panels(dashboard))
        assert html.count('class="nodata"') == len(found[uid])
        assert "no data</div>" not in html  # each says what is missing


def test_a_query_that_is_refused_is_not_taken_for_no_data(empty: str) -> None:
    target = {"expr": "sum(", "instant": True, "legendFormat": "", "refId": "A"}
    with pytest.raises(Refused, match="parse error"):
        Prometheus(empty).course(target, SPAN, 15)


def test_a_band_has_the_colour_of_its_threshold() -> None:
    numbers = (0.39, 0.4, 0.9, 0.95, 0.96)
    drawn = cells.bands(panel("utilization", "Utilization by GPU"), [series("gpu 0", *numbers)], SPAN, BOX, 60)
    red, yellow, green = "#F2495C", "#FADE2A", "#73BF69"
    assert [part.split('"')[0] for part in drawn.split('fill="')[1:] if part[0] == "#"][-5:] == [
        red,
        yellow,
        green,
        yellow,
        red,
    ]


def test_a_state_lasts_until_it_changes_and_says_its_word() -> None:
    drawn = cells.states(panel("receiver", "Sources"), [series("civo", 1, 1, 0, 1)], SPAN, BOX, 60)
    assert drawn.count("<title>up</title>") == 2
    assert drawn.count("<title>down</title>") == 1


def test_a_histogram_shows_each_bucket_without_the_one_below() -> None:
    found = [series("0.1", 2, 2, le="0.1"), series("0.5", 2, 5, le="0.5"), series("+Inf", 2, 5, le="+Inf")]
    drawn = cells.heatmap(panel("receiver", "Steps by duration"), found, SPAN, BOX, 60)
    assert drawn.count("<title>2.0</title>") == 2
    assert drawn.count("<title>3.0</title>") == 1
    assert "more" not in drawn


def test_what_is_stacked_stands_on_what_came_before_and_a_line_beside_it_does_not() -> None:
    found = [series("busy", 2, ref="A"), series("idle", 3, ref="B"), series("required", 5, ref="E")]
    lines = {line.series.name: line for line in courses._lines(panel("pools", "Nodes by state"), found)}
    assert [list(lines[name].below) for name in ("busy", "idle", "required")] == [[0], [2], [0]]


def test_rows_of_several_queries_with_the_same_labels_are_one_row() -> None:
    labels = {"pool": "5f3c", "pool_name": "l40s"}
    found = [series("", 4, ref="A", **labels), series("", 3, ref="B", **labels)]
    drawn = values.table(panel("pools", "Pools now"), found, BOX)
    assert drawn.count("<tr>") == 2
    assert "<td>l40s</td><td>4</td><td>3</td>" in drawn


@pytest.mark.parametrize("kind", ["timeseries", "stat", "gauge", "bargauge", "table", "status-history", "heatmap"])
def test_nothing_is_said_to_be_nothing(kind: str) -> None:
    which = next(p for d in DASHBOARDS.values() for p in panels(d) if p["type"] == kind)
    drawn = {
        "timeseries": lambda: courses.draw(which, [], [], SPAN, BOX, 60),
        "stat": lambda: values.stat(which, [], BOX),
        "gauge": lambda: values.gauge(which, [], BOX),
        "bargauge": lambda: values.bargauge(which, [], BOX),
        "table": lambda: values.table(which, [], BOX),
        "status-history": lambda: cells.bands(which, [], SPAN, BOX, 60),
        "heatmap": lambda: cells.heatmap(which, [], SPAN, BOX, 60),
    }[kind]()
    assert cells.is_empty(drawn)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.714, "percentunit", "71.4%"),
        (1.29, "currencyUSD", "$1.29"),
        (6500.0, "currencyUSD", "$6.50K"),
        (90.0, "s", "1.5 min"),
        (0.04, "s", "40 ms"),
        (1840.0, "watt", "1.84 kW"),
        (61.0, "celsius", "61 °C"),
        (2.5e9, "Bps", "2.5 GB/s"),
        (800.0, "Bps", "800 B/s"),
        (250_000.0, "short", "250 K"),
        (-1e-12, "s", "0 s"),
    ],
)
def test_values_are_written_as_grafana_writes_them(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_a_legend_takes_the_labels_that_it_names() -> None:
    assert legend("{{pool_name}} {{ stage }}", {"pool_name": "l40s", "stage": "boot"}) == "l40s boot"
    assert legend("{{node}} / {{GPU_I_ID}}", {"node": "a"}) == "a /"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.004), (0, 17), (0, 123_456), (-5, 5)])
def test_an_axis_has_a_few_round_values_within_it(low: float, high: float) -> None:
    found = list(ticks(low, high))
    assert 2 <= len(found) <= 8
    assert all(low - 1e-9 <= t <= high + 1e-9 for t in found)


def test_an_interval_is_as_grafana_reckons_it() -> None:
    assert Span(start=0, end=21_600, scrape=15).step({}) == pytest.approx(21_600 / 700)
    assert SPAN.step({}) == 15
    assert SPAN.step({"interval": "1m"}) == 60
    assert Span(start=0, end=600, scrape=1).step({"interval": "1m"}) == 4
    assert (SPAN.rate_interval(15), SPAN.rate_interval(60)) == (60, 75)
