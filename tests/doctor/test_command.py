"""`gpu-autoscaler doctor` as a person calls it."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from receiver.cli.main import main
from tests.doctor.builders import document, environ


def doctor(env: dict[str, str], *arguments: str) -> Result:
    return CliRunner(env=env).invoke(main, ["doctor", *arguments])


def test_a_healthy_area_is_all_passes_and_exits_with_zero(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path), "--only", "configuration")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1] == "6 passed, 0 warnings, 0 failed, 0 skipped"
    assert all(line.startswith("pass  configuration.") for line in lines[:-1])


def test_a_warning_has_its_remedy_below_it_and_does_not_fail(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path, document(mode="observe")), "--only", "configuration")
    assert done.exit_code == 0
    (told,) = [n for n, line in enumerate(done.stdout.splitlines()) if line.startswith("WARN")]
    assert "what to do: once its decisions are what you want" in done.stdout.splitlines()[told + 1]


def test_problems_leaves_out_what_is_good_news_but_counts_it(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path, document(mode="observe")), "--only", "configuration", "--problems")
    verdict, remedy, summary = done.stdout.splitlines()
    assert verdict.startswith("WARN  configuration.mode")
    assert "what to do:" in remedy
    assert summary == "5 passed, 1 warning, 0 failed, 0 skipped"


def test_json_has_the_promised_keys(tmp_path: Path) -> None:
    told = json.loads(doctor(environ(tmp_path), "--json", "--only", "configuration").stdout)
    assert list(told) == ["version", "at", "mode", "summary", "findings"]
    assert told["summary"] == {"pass": 6, "warn": 0, "fail": 0, "skip": 0}
    assert list(told["findings"][0]) == ["area", "check", "verdict", "said", "remedy"]


def test_a_configuration_that_cannot_be_used_is_a_finding_each_and_two(tmp_path: Path) -> None:
    env = environ(tmp_path, document(mode="sometimes", pools=[]))
    del env["CIVO_API_KEY"]
    done = doctor({**env, "CIVO_API_KEY": ""}, "--json")
    assert done.exit_code == 2
    told = json.loads(done.stdout)
    assert told["mode"] is None
    assert {f["check"] for f in told["findings"]} == {"configuration.loads"}
    assert any("CIVO_API_KEY" in f["said"] for f in told["findings"])
    assert any("mode" in f["said"] for f in told["findings"])


def test_an_area_that_is_not_there_is_a_wrong_command_line(tmp_path: Path) -> None:
    done = doctor(environ(tmp_path), "--only", "moon")
    assert done.exit_code == 2
    assert "unknown area moon; use one of: configuration" in done.stderr
