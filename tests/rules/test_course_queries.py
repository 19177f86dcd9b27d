"""What Prometheus makes of the queries that `PrometheusTelemetry.courses` sends, over hours that promtool makes up."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.adapters.monitoring.prometheus import ENGINE, HOLDERS, MEMORY, NVML, POWER, UNSEEN, course_queries
from tests.rules.files import run

pytestmark = pytest.mark.usefixtures("each_prometheus")

HOUR = timedelta(hours=1)
NAMES = ("engine", "memory", "power", "swing", "least_swing", "nvml", "seen")


def expect(
    folder: Path,
    values: Mapping[str, str],
    found: Mapping[str, float],
    *,
    window: timedelta = HOUR,
    at: str = "3h",
    interval: str = "1m",
) -> None:
    """Let promtool check that the queries find *found* for pod ml/p, and nothing under a name that is not there.

    *values* are recorded series by name, with or without labels beside the pod's, in promtool's notation.
    """
    checks = [
        {
            "expr": f"round({query}, 0.01)",
            "eval_time": at,
            "exp_samples": [{"labels": '{namespace="ml",pod="p"}', "value": found[name]}] if name in found else [],
        }
        for name, query in zip(NAMES, course_queries(window), strict=True)
    ]
    series = [{"series": name, "values": text} for name, text in values.items()]
    test = {"interval": interval, "input_series": series, "promql_expr_test": checks}
    file = folder / "course.test.yaml"
    file.write_text(json.dumps({"rule_files": [], "tests": [test]}))
    tested = run("promtool", "test", "rules", file)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def of(series: str, gpu: str = "0") -> str:
    return f'{series}{{namespace="ml",pod="p",node="n",gpu="{gpu}",UUID="g{gpu}"}}'


def test_a_pod_whose_work_ended_before_the_window_shows_none(tmp_path: Path) -> None:
    values = {
        of(ENGINE): "0.9x100 0x100",
        of(MEMORY): "0.8x100 0.5x100",
        of(POWER): "600x100 120 122x100",
        of(HOLDERS): "1x200",
    }
    expect(
        tmp_path,
        values,
        {"engine": 0, "memory": 0, "power": 122, "swing": 2, "least_swing": 2, "seen": 1},
        at="160m30s",
    )


def test_a_single_minute_of_work_shows_for_the_whole_window(tmp_path: Path) -> None:
    values = {of(ENGINE): "0x130 0.9 0x70", of(POWER): "120x130 300 120x70"}
    expect(tmp_path, values, {"engine": 0.9, "power": 300, "swing": 180, "least_swing": 180, "seen": 1})


def test_memory_that_grows_on_the_emptier_of_two_gpus_shows(tmp_path: Path) -> None:
    values = {
        of(ENGINE): "0x200",
        of(ENGINE, "1"): "0x200",
        of(MEMORY): "0.9x200",
        of(MEMORY, "1"): "0.1x140 0.4x60",
    }
    expect(tmp_path, values, {"engine": 0, "memory": 0.3, "seen": 1})


def test_two_gpus_that_rest_at_different_watts_do_not_look_like_a_swing(tmp_path: Path) -> None:
    values = {of(ENGINE): "0x200", of(POWER): "72x200", of(POWER, "1"): "122x200"}
    expect(tmp_path, values, {"engine": 0, "power": 122, "swing": 0, "least_swing": 0, "seen": 1})


def test_one_gpu_of_two_whose_power_never_changes_shows(tmp_path: Path) -> None:
    values = {of(ENGINE): "0x200", of(POWER): "72.31x200", of(POWER, "1"): "70+1x200"}
    found = {"engine": 0, "power": 249, "swing": 59, "least_swing": 0, "seen": 1}
    expect(tmp_path, values, found, at="179m30s")


def test_power_that_stood_still_for_the_last_hour_shows_in_a_longer_window(tmp_path: Path) -> None:
    values = {of(ENGINE): "0x300", of(POWER): "80x200 72.31x100"}
    found = {"engine": 0, "power": 80, "swing": 7.69, "least_swing": 0, "seen": 1}
    expect(tmp_path, values, found, window=2 * HOUR, at="270m30s")


def test_nvml_of_a_gpu_that_the_pod_holds_shows_beside_the_engine(tmp_path: Path) -> None:
    values = {
        of(ENGINE): "0x200",
        of(HOLDERS): "1x200",
        f'{NVML}{{node="n",gpu="0",UUID="g0"}}': "0x150 0.99 0x50",
        f'{NVML}{{node="n",gpu="1",UUID="g1"}}': "1x200",  # another's GPU
    }
    expect(tmp_path, values, {"engine": 0, "nvml": 0.99, "seen": 1})


def test_a_gpu_that_shows_no_engine_now_was_not_seen(tmp_path: Path) -> None:
    values = {of(ENGINE): "0x170 stale", of(HOLDERS): "1x200"}
    expect(tmp_path, values, {"engine": 0, "seen": 0})


def test_a_pod_that_is_younger_than_the_window_was_seen_for_its_age(tmp_path: Path) -> None:
    expect(tmp_path, {of(ENGINE): "_x150 0x100"}, {"engine": 0, "seen": 0.5}, at="179m30s")


def test_what_one_witness_did_not_show_was_not_seen(tmp_path: Path) -> None:
    values = {of(ENGINE): "0x200", of(MEMORY): "0.5x100 stale _x64 0.5x30"}
    expect(tmp_path, values, {"engine": 0, "memory": 0, "seen": 0.25})


def test_a_gpu_that_is_held_but_shows_no_engine_was_not_seen(tmp_path: Path) -> None:
    values = {of(ENGINE): "0x200", of(HOLDERS): "1x200", of(HOLDERS, "1"): "1x200"}
    expect(tmp_path, values, {"engine": 0, "seen": 0})


def test_a_gpu_that_was_requested_and_is_silent_was_not_seen(tmp_path: Path) -> None:
    values = {of(ENGINE): "0x200", of(HOLDERS): "1x200", f'{UNSEEN}{{namespace="ml",pod="p"}}': "1x200"}
    expect(tmp_path, values, {"engine": 0, "seen": 0})


def test_the_last_value_before_prometheus_stopped_does_not_count_for_the_time_it_was_down(tmp_path: Path) -> None:
    # it ran for one minute in five: every value is younger than the five minutes that Prometheus looks back
    down = " ".join(["0 _x4"] * 50)
    expect(tmp_path, {of(ENGINE): down}, {"engine": 0, "seen": 0.6}, at="150m30s")


@pytest.mark.parametrize("interval, samples", [("1s", 11000), ("15s", 800), ("2m", 100)])
def test_how_often_the_rules_are_evaluated_does_not_matter(tmp_path: Path, interval: str, samples: int) -> None:
    expect(tmp_path, {of(ENGINE): f"0x{samples}"}, {"engine": 0, "seen": 1}, interval=interval, at="179m30s")


@pytest.mark.parametrize("seconds", [30, 60, 600, 86400])
def test_windows_of_seconds_and_of_days_are_seen_alike(tmp_path: Path, seconds: int) -> None:
    values = {of(ENGINE): "0.1x6000"}
    window = timedelta(seconds=seconds)
    expect(tmp_path, values, {"engine": 0.1, "seen": 1}, window=window, interval="15s", at="24h")


def test_a_pod_that_dcgm_never_showed_is_absent(tmp_path: Path) -> None:
    expect(tmp_path, {'up{pod="p"}': "1x200"}, {})
