"""The programs that the checkout brings start on their own, with the rules and routes that it ships."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rules.files import EVERY_RULE, RULE_FILES, RULES
from tests.rules.servers import get, running


@pytest.mark.usefixtures("each_prometheus")
def test_prometheus_starts_and_loads_every_rule(tmp_path: Path, figure: Callable[[str], None]) -> None:
    config = tmp_path / "prometheus.yml"
    config.write_text(f"rule_files: {[str(file) for file in RULE_FILES]}\n")
    paths = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}")

    with running("prometheus", tmp_path / "log", *paths) as url:
        figure(f"rules tested with Prometheus {get(f'{url}/api/v1/status/buildinfo')['data']['version']}")
        groups = get(f"{url}/api/v1/rules")["data"]["groups"]

    assert sorted(r["name"] for g in groups for r in g["rules"]) == sorted(rule.name for rule in EVERY_RULE)


@pytest.mark.usefixtures("each_alertmanager")
def test_alertmanager_starts_with_the_routes_that_we_ship(tmp_path: Path, figure: Callable[[str], None]) -> None:
    paths = (f"--config.file={RULES / 'alertmanager.yml'}", f"--storage.path={tmp_path / 'data'}")

    with running("alertmanager", tmp_path / "log", *paths, "--cluster.listen-address=") as url:
        figure(f"routes tested with Alertmanager {get(f'{url}/api/v2/status')['versionInfo']['version']}")
        receivers = get(f"{url}/api/v2/receivers")

    assert {r["name"] for r in receivers} == {"gpu-autoscaler", "people", "people-page", "people-chat", "nobody"}
