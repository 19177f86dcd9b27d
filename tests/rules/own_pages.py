"""What real servers say of themselves: Alertmanager after a refused delivery, Prometheus with the rules as shipped."""

import json
import re
import tempfile
import time
import urllib.request
from functools import cache
from pathlib import Path

import yaml

from simulator.server import Simulator
from tests.rules.files import RULES, binary
from tests.rules.servers import running

FAILURES = "alertmanager_notifications_|prometheus_rule_evaluation_fail"
MISSED = "prometheus_rule_group_iterations_missed"
FAILED = 'alertmanager_notifications_failed_total{integration="webhook"'


def alertmanagers_page() -> str:
    """Return /metrics of an Alertmanager whose webhook was refused: a refusal is final, and counted."""
    return _alertmanagers_page(binary("alertmanager"))


def prometheus_page() -> str:
    """Return /metrics of a Prometheus that has loaded the rules."""
    return _prometheus_page(binary("prometheus"))


@cache
def _alertmanagers_page(of: str) -> str:
    nowhere = Simulator({"pools": [{"id": "p", "size": "an.g1.l40s.kube.x1", "resources": {}}]})
    with tempfile.TemporaryDirectory() as name, nowhere:
        folder = Path(name)
        receiver = {"name": "r", "webhook_configs": [{"url": f"{nowhere.url}/webhook"}]}
        config = {"route": {"receiver": "r", "group_wait": "0s"}, "receivers": [receiver]}
        (folder / "config.yml").write_text(yaml.safe_dump(config))
        arguments = (f"--config.file={folder}/config.yml", f"--storage.path={folder}/data", "--cluster.listen-address=")
        with running("alertmanager", folder / "log", *arguments) as url:
            alerts = json.dumps([{"labels": {"alertname": "GpuAutoscalerHeartbeat"}}]).encode()
            headers = {"Content-Type": "application/json"}
            urllib.request.urlopen(urllib.request.Request(f"{url}/api/v2/alerts", alerts, headers), timeout=60).close()
            deadline = time.monotonic() + 60
            while not _counts(page := _page(url)):
                assert time.monotonic() < deadline, page
                time.sleep(0.1)
            return page


def _counts(page: str) -> bool:
    return any(line.startswith(FAILED) and not line.endswith(" 0") for line in page.splitlines())


@cache
def _prometheus_page(of: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.yml").write_text(
            yaml.safe_dump({"rule_files": [f"{RULES}/*.rules.yaml", f"{RULES}/*.alerts.yaml"]})
        )
        arguments = (f"--config.file={folder}/config.yml", f"--storage.tsdb.path={folder}/data")
        with running("prometheus", folder / "log", *arguments) as url:
            return _page(url)


def _page(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def counted(page: str, part: str, value: int, counters: str = FAILURES) -> str:
    """Return *page* with *value* for those of *counters*, by default of failures, whose line has *part*."""
    pattern = rf"^((?:{counters}).*{re.escape(part)}.*) \S+$"
    return re.sub(pattern, rf"\1 {value}", page, flags=re.MULTILINE)
