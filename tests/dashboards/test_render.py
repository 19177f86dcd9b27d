"""Every panel of every dashboard is drawn, also where there is nothing yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.servers import running
from tools.grafana.asking import Span
from tools.grafana.files import DASHBOARDS, panels
from tools.grafana.render import render

SPAN = Span(start=0, end=600, scrape=15)


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
