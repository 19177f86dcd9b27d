"""What docs/metrics.md says of Prometheus' and Alertmanager's own metrics is what real ones export."""

import re

import pytest

from tests.docs.metrics_page import exporter_rows, told_type
from tests.rules.own_pages import FAILED, alertmanagers_page, counted, prometheus_page

MADE = {"up", "ALERTS"}  # by Prometheus; test_faults.py sees the one, test_every_query.py the other


pytestmark = pytest.mark.usefixtures("each_pair")


def told(title: str) -> dict[str, str]:
    return {name: told_type(says) for name, says in exporter_rows(title).items()}


def types(page: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\S+) (\w+)$", page, re.MULTILINE))


def test_alertmanager_exports_what_the_page_says() -> None:
    wanted = told("Alertmanager")
    assert {name: types(alertmanagers_page()).get(name) for name in wanted} == wanted


def test_prometheus_exports_what_the_page_says() -> None:
    wanted = {name: kind for name, kind in told("Prometheus itself").items() if name not in MADE}
    assert {name: types(prometheus_page()).get(name) for name in wanted} == wanted


def test_a_refused_delivery_is_counted_and_can_be_counted_on() -> None:
    page = alertmanagers_page()
    # since Alertmanager 0.26 each reason has a line of its own, most with 0
    [line] = [line for line in page.splitlines() if line.startswith(FAILED) and not line.endswith(" 0")]
    assert line.endswith(" 1")
    part = line.removesuffix(" 1").removeprefix("alertmanager_notifications_")
    assert counted(page, part, 7) == page.replace(line, line[:-1] + "7")


def test_the_failures_of_one_group_of_rules_can_be_counted_on() -> None:
    page = counted(prometheus_page(), "gpu-autoscaler.demand", 36)
    counts = re.findall(
        r"^prometheus_rule_evaluation_failures_total\{rule_group=\".*;(\S+)\"\} (\d+)$", page, re.MULTILINE
    )
    assert {group for group, count in counts if count == "36"} == {"gpu-autoscaler.demand"}
    assert len(counts) > 1
