"""The rule files, their promtool tests and the programs that check them, as the tests of this folder see them."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def _load() -> list[Rule]:
    return [
        Rule(name=body.get("alert") or body["record"], group=group["name"], place=place, body=body)
        for file in RULE_FILES
        for group in yaml.safe_load(file.read_text())["groups"]
        for place, body in enumerate(group["rules"])
    ]


EVERY_RULE = _load()
# The interval of each group by its name.
GROUPS = {g["name"]: g["interval"] for file in RULE_FILES for g in yaml.safe_load(file.read_text())["groups"]}
ALERTS = [rule for rule in EVERY_RULE if rule.is_alert]
RECORDINGS = [rule for rule in EVERY_RULE if not rule.is_alert]


def binary(name: str) -> str:
    """Where *name* is: the folder of the variable PROMETHEUS_BIN (to test with another version), else .build/bin, else
    PATH. Fails the test, and never skips it, when it is in none of them."""
    ours = Path(os.environ.get("PROMETHEUS_BIN", ROOT / ".build" / "bin")) / name
    found = str(ours) if ours.exists() else shutil.which(name)
    if found is None:
        pytest.fail(f"{name} was not found: run `make binaries`, or put it on PATH")
    return found


def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program from :func:`binary` and return what it said; the exit code is the caller's to judge."""
    return subprocess.run([binary(name), *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=ROOT)
