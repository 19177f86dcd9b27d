"""`gpu-autoscaler replay` on jobs from elsewhere: what is said of them, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.adapters.wire import unused_url
from tests.cli.replay_runs import run_replay
from tests.replay.traces.exports import a_pod


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export with a GPU pod, one without GPUs, and one that is wrong."""
    file = tmp_path / "month.json"
    wrong = a_pod("wrong", status__startTime="at nine")
    file.write_text(json.dumps({"items": [a_pod(), a_pod("web", gpus=0), wrong]}), encoding="utf-8")
    return file


def test_a_wrong_object_refuses_the_trace_and_says_how_it_may_be_left_out(export: Path) -> None:
    found = run_replay("--trace", export)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "Pod ml/wrong, startTime: 'at nine' is no time" in found.stderr


def test_what_was_left_out_and_what_does_not_count_is_told_beside_the_figures(export: Path) -> None:
    found = run_replay("--trace", export, "--skip-bad", "--json")
    shown = json.loads(found.stdout)
    assert (found.exit_code, shown["jobs"]) == (0, 1)
    assert shown["not_counted"] == {"pods without a GPU": 1}
    assert [line.split(",")[0] for line in shown["left_out"]] == ["Pod ml/wrong"]
    assert "Pod ml/wrong, startTime" in found.stderr


def test_times_of_an_export_are_those_of_the_replay(export: Path) -> None:
    found = json.loads(run_replay("--trace", export, "--skip-bad", "--json").stdout)
    assert found["begins"].startswith("2026-03-02T09:00:00")


def test_an_export_of_kubernetes_is_recognised_and_replayed(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    selecting = a_pod("b", spec__nodeSelector={"gpu": "elsewhere"})
    file.write_text(json.dumps({"items": [a_pod(), selecting]}), encoding="utf-8")
    refused = run_replay("--trace", file)
    assert refused.exit_code == 2
    assert "job ml.b, node_selector" in refused.stderr
    taken = json.loads(run_replay("--trace", file, "--ignore-placement", "--json").stdout)
    assert (taken["jobs"], taken["policies"][0]["jobs_lost"]) == (2, 0)


def test_a_format_that_is_named_goes_before_what_a_file_looks_like(export: Path) -> None:
    found = run_replay("--trace", export, "--format", "csv")
    assert (found.exit_code, "line 1, job_id: the column is missing" in found.stderr) == (2, True)


def test_jobs_must_come_from_somewhere() -> None:
    found = run_replay()
    assert (found.exit_code, "Missing option '--trace' or '--prometheus'" in found.stderr) == (2, True)


def test_a_prometheus_that_does_not_answer_is_told() -> None:
    url = unused_url()
    found = run_replay("--prometheus", url)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"Prometheus at {url} did not answer" in found.stderr
    assert "no connection" in found.stderr


@pytest.mark.parametrize("option", ["--since", "--step", "--query-timeout"])
def test_a_length_of_nothing_is_refused(option: str) -> None:
    found = run_replay("--prometheus", "http://127.0.0.1:1", option, "0s")
    assert (found.exit_code, "must be at least 1s" in found.stderr) == (2, True)
