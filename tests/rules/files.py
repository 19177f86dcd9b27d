"""The rule files, their promtool tests and the programs that check them, as the tests of this folder see them."""

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from demo import stack
from tests.lint import load_yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "rules"
RULE_FILES = sorted(RULES.glob("*.yaml"))
TEST_FILES = sorted((ROOT / "tests" / "rules").glob("*.test.yaml"))

HEARTBEAT = "GpuAutoscalerHeartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One recording or alert rule with the group it stands in and its place there."""

    name: str
    group: str
    place: int
    body: dict[str, Any]

    @property
    def is_alert(self) -> bool:
        """True for an alert, False for a recording."""
        return "alert" in self.body


_GROUPS = [group for file in RULE_FILES for group in load_yaml(file.read_text(encoding="utf-8"))["groups"]]
EVERY_RULE = [
    Rule(name=body.get("alert") or body["record"], group=group["name"], place=place, body=body)
    for group in _GROUPS
    for place, body in enumerate(group["rules"])
]
GROUPS: dict[str, str] = {group["name"]: group["interval"] for group in _GROUPS}  # the interval of each group
ALERTS = [rule for rule in EVERY_RULE if rule.is_alert]
RECORDINGS = [rule for rule in EVERY_RULE if not rule.is_alert]


def binary(name: str) -> str:
    """Where *name* is, by the rules of demo.stack. Fails the test, and never skips it, when it is nowhere."""
    try:
        return stack.binary(name)
    except FileNotFoundError as error:
        pytest.fail(str(error))


def sparing() -> dict[str, str]:
    """The environment for programs in Go that run for seconds: they collect garbage seldom, and on one processor.

    Otherwise a fifth of promtool's time goes there.
    """
    return {**os.environ, "GOGC": "400", "GOMAXPROCS": "1"}


def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program from :func:`binary` and return what it said; the exit code is the caller's to judge."""
    command = [binary(name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, env=sparing())


@cache
def promtool_tests() -> list[dict[str, Any]]:
    """Every promtool test of the rules."""
    return [test for file in TEST_FILES for test in load_yaml(file.read_text())["tests"]]


def expected_alerts(name: str) -> list[dict[str, Any]]:
    """The alerts *name* that promtool tests expect to fire."""
    checks = [
        check for test in promtool_tests() for check in test.get("alert_rule_test", []) if check["alertname"] == name
    ]
    return [one for check in checks for one in check.get("exp_alerts") or []]
