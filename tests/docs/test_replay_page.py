"""docs/replay.md tells the columns, keys, peers and defaults that there are."""

import os
import re
import subprocess
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.replay_run import OBJECTIVES, USD_PER_GPU_HOUR, WITHOUT_CONFIG, ReplayRequest
from receiver.config import load_text
from receiver.replay.document import _setting
from receiver.replay.figures import BOUNDS
from receiver.replay.peers import PEERS
from receiver.replay.play import Setting
from receiver.replay.traces import load_jobs
from tests.cli.replay_runs import ENTRY_KEYS, OFFICE_TRACE, replay_json, run_replay
from tests.docs.pages import section, table, text_of

PAGE = text_of("docs/replay.md")


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """What --json prints."""
    return replay_json("--trace", OFFICE_TRACE, "--max-gpus", "32")


def keys_of(part: str) -> list[str]:
    """The keys that a table of the page names."""
    return [key for row in table(part) for key in re.findall(r"`([^`]+)`", row[0])]


def test_the_stable_keys_are_those_that_are_printed_first(printed: dict[str, Any]) -> None:
    told = keys_of(section(PAGE, "JSON"))
    assert told == [*list(printed)[:1], "policies[]", *(f"policies[].{key}" for key in ENTRY_KEYS)]


def test_the_head_of_the_table_is_the_one_that_is_printed() -> None:
    lines = run_replay(
        "--trace", OFFICE_TRACE, "--max-gpus", "32", "--compare", "cluster-autoscaler"
    ).stdout.splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("policy "))
    shown = re.findall(r"^```text\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)[0]
    assert shown.splitlines() == lines[head - 1 : head + 1]


def test_every_peer_is_told_and_no_other() -> None:
    assert keys_of(section(PAGE, "Baselines")) == [OBJECTIVES, *PEERS, *BOUNDS]


def test_every_circumstance_is_told_with_its_default() -> None:
    told = {row[0].strip("`"): row[1] for row in table(section(PAGE, "Timing assumptions"))}
    assert set(told) <= {field.name for field in fields(Setting)}
    known = _setting(Setting())
    for name, default in told.items():
        value = known.get(f"{name}_s", known.get(name))
        assert default == (f"{value:g} s" if f"{name}_s" in known else f"{value:g}" if name != "packing" else value)


def test_the_pool_without_a_configuration_is_the_one_that_is_used() -> None:
    asked = ReplayRequest()
    given = {"gpus": asked.gpus_per_node, "nodes": asked.max_gpus // asked.gpus_per_node}
    used = load_text(WITHOUT_CONFIG.format(price=asked.gpus_per_node * USD_PER_GPU_HOUR, **given))
    shown = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    assert load_text(shown).policy == used.policy


def test_the_exit_statuses_are_told() -> None:
    assert [row[0] for row in table(section(PAGE, "What is checked"))] == ["0", "1", "2"]


def test_the_line_of_shell_turns_what_sacct_prints_into_a_trace(tmp_path: Path) -> None:
    [line] = re.findall(r"^\$ (SLURM_TIME_FORMAT.*)", text_of("docs/replay-traces.md"), re.MULTILINE)
    start = datetime(2026, 10, 1, tzinfo=UTC)
    held = "billing=16,gres/gpu:a100=16,gres/gpu=16,node=2"
    rows = [f"7|{start.timestamp() + 90:.0f}|3600|2|vision|{held}", "8|1790899999|60|1|vision|cpu=4,node=1"]
    sacct = tmp_path / "sacct"
    sacct.write_text("#!/bin/sh\ncat <<END\n" + "\n".join(rows) + "\nEND\n", encoding="utf-8")
    sacct.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", line], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)
    [job] = load_jobs(tmp_path / "jobs.csv", start)
    assert (job.id, job.submit_at, job.duration) == ("7", start + timedelta(seconds=90), timedelta(hours=1))
    assert (job.pods, job.gpus_per_pod, job.team) == (2, 8, "vision")
