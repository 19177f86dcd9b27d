"""What is drawn without Grafana can be read: words that fit, in colours that there are."""

import re
from typing import Any

import pytest

from tools.grafana import cells, values
from tools.grafana.asking import Series, Span
from tools.grafana.drawing import Box, clocks

SPAN = Span(start=0, end=320, scrape=1)
MAPPED = [{"type": "value", "options": {"1": {"text": "down", "color": "dark-red", "index": 0}}}]


def panel(**defaults: Any) -> dict[str, Any]:
    """A panel with one column of numbers."""
    thresholds = {"steps": [{"value": None, "color": "dark-yellow"}]}
    rename = {"id": "organize", "options": {"renameByName": {"Value": "Utilization"}}}
    return {
        "fieldConfig": {
            "defaults": {"unit": "short", "thresholds": thresholds, "mappings": [], **defaults},
            "overrides": [],
        },
        "options": {"textMode": "value", "graphMode": "none", "sortBy": []},
        "targets": [{"refId": "A"}],
        "transformations": [rename],
    }


def series(name: str, value: float = 1.0) -> Series:
    """A series with one point."""
    return Series(name=name, ref="A", points=[(300.0, value)])


def test_a_long_name_of_a_row_is_shortened_at_its_beginning_to_the_room_that_there_is() -> None:
    name = "a100 / k3s-demo-52e6-f2a74d-node-pool-3d9c-d3ac9 / 0"
    drawn = cells.bands(panel(), [series(name)], SPAN, Box(width=300, height=100), 5)
    [shown] = re.findall(r">(\u2026[^<]*)<", drawn)
    assert name.endswith(shown[1:])
    assert cells.CHARACTER * len(shown) < 0.42 * 300
    assert f">{name}<" in cells.bands(panel(), [series(name)], SPAN, Box(width=900, height=100), 5)


@pytest.mark.parametrize("width, count", [(100, 2), (260, 4), (330, 5), (900, 5)])
def test_a_narrow_axis_has_fewer_times(width: float, count: int) -> None:
    found = list(clocks(SPAN, width))
    assert len(found) == count
    assert [found[0], found[-1]] == [(0, "00:00:00", "start"), (320, "00:05:20", "end")]


def test_a_word_has_grafanas_colour_of_its_name() -> None:
    assert 'fill="#A1122B"' in values.stat(panel(mappings=MAPPED), [series("up")], Box(width=200, height=100))


def test_a_filled_cell_has_the_colour_behind_its_number() -> None:
    filled = panel(custom={"cellOptions": {"type": "color-background"}})
    assert 'style="background:#E0B400">1<' in values.table(filled, [series("a")], Box(width=200, height=100))
