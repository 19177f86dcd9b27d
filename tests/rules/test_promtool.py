"""promtool's own checks and tests of rules/."""

from pathlib import Path

import pytest
import yaml

from tests.rules.files import RULE_FILES, RULES, TEST_FILES, run
from tests.rules.needed import lean

pytestmark = pytest.mark.usefixtures("each_prometheus")


def test_promtool_finds_no_fault_in_the_rules() -> None:
    checked = run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("file", TEST_FILES, ids=lambda file: file.name)
def test_the_rules_do_what_their_promtool_tests_say(file: Path, tmp_path: Path) -> None:
    tested = run("promtool", "test", "rules", *lean(file, tmp_path))

    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_example_prometheus_loads_every_rule_file() -> None:
    checked = run("promtool", "check", "config", RULES / "prometheus.yml")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULE_FILES)} rule files found" in checked.stdout + checked.stderr


@pytest.mark.parametrize(("job", "honored"), [("kube-state-metrics", True), ("dcgm-exporter", False)])
def test_the_example_prometheus_keeps_the_labels_that_the_rules_read(job: str, honored: bool) -> None:
    scrapes = yaml.safe_load((RULES / "prometheus.yml").read_text())["scrape_configs"]

    [scrape] = [scrape for scrape in scrapes if scrape["job_name"] == job]

    assert scrape["honor_labels"] is honored
