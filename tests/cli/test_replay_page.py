"""The page that `gpu-autoscaler replay --html` writes: complete, by itself, and safe to open."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from receiver.cli.main import main
from tests.cli.replay_runs import BUDGET, CONFIGURATION, TRACE_HEADER

TRACES = Path(__file__).parents[1] / "replay" / "traces"
PEERS = ("--compare", "cluster-autoscaler", "--compare", "karpenter-when-empty", "--compare", "always-on")


def written(folder: Path, *words: str) -> str:
    """Type the command with --html, and read the page."""
    path = folder / "page.html"
    found = CliRunner().invoke(main, ["replay", *words, "--max-gpus", "32", "--html", str(path)])
    assert found.exit_code == 0, found.output
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the small trace with three peers."""
    return written(tmp_path_factory.mktemp("page"), "--trace", str(TRACES / "office.csv"), *PEERS)


def test_the_page_runs_nothing_and_asks_nobody(page: str) -> None:
    assert "<script" not in page
    assert re.findall(r'(?:src|href|action)\s*=\s*"(?!#)', page) == []
    assert "url(" not in page.replace("url(#hatch)", "").replace("url(#cross)", "")
    assert re.search(r"default-src &#39;none&#39;; style-src &#39;sha256-[\w+/=]{44}&#39;", page)
    assert re.findall(r'\sstyle="', page) == []


def test_the_page_names_every_policy_in_table_and_picture(page: str) -> None:
    for name in ("gpu-autoscaler", "cluster-autoscaler", "karpenter-when-empty", "always-on"):
        assert f'<span class="name">{name}</span>' in page
        assert re.search(rf"<strong>{name}</strong> [\d,.]+ GPU-hours, mean wait \w+<", page)


def test_bars_are_in_percent_of_the_longest(page: str) -> None:
    paid = [float(width) for width in re.findall(r'<rect class="held" width="([\d.]+)%"', page)]
    waits = [float(width) for width in re.findall(r'<rect class="waiting" y="9" width="([\d.]+)%"', page)]
    assert len(paid) == len(waits) == 4
    assert (max(paid), max(waits)) == (100, 100)
    assert waits[3] == 0  # always on


def test_the_page_has_the_waits_of_every_hour_beside_those_of_the_first_peer(page: str) -> None:
    assert "Mean wait and p95 of gpu-autoscaler, mean of cluster-autoscaler" in page
    assert re.findall(r'<th scope="row">(\d\d):00', page) == [f"{hour:02}" for hour in range(24)]


def test_the_page_says_how_the_world_went_and_what_was_checked(page: str) -> None:
    for said in ("scrape 15s, evaluation 5s, group_wait 0s", "started hour", "everything adds up", "usable GPUs"):
        assert said in page


def test_what_a_peer_killed_stands_out(tmp_path: Path, kill_by: Callable[[str], None]) -> None:
    kill_by("peer")
    page = written(tmp_path, "--trace", str(TRACES / "office.csv"), *PEERS)
    assert "<strong>always-on</strong> removed nodes under 1 running pod" in page


def test_a_trace_cannot_write_into_the_page(tmp_path: Path) -> None:
    path = tmp_path / "<img src=x>.csv"
    path.write_bytes((TRACES / "halves.csv").read_bytes())
    assert "<img" not in written(tmp_path, "--trace", str(path))


def test_several_traces_are_on_one_page_with_the_means_before_them(tmp_path: Path) -> None:
    words = [word for name in ("office", "halves") for word in ("--trace", str(TRACES / f"{name}.csv"))]
    page = written(tmp_path, *words, *PEERS[:2])
    titles = re.findall(r"<h1>(.*?)</h1>", page)
    assert titles == ["Replay of 2 traces", "office.csv", "halves.csv"]
    assert page.index("Over all traces") < page.index("<h1>office.csv")


def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "none" / "page.html"
    found = CliRunner().invoke(main, ["replay", "--trace", str(TRACES / "office.csv"), "--html", str(path)])
    assert (found.exit_code, "does not exist" in found.stderr, found.stdout) == (2, True, "")


def test_what_a_budget_held_up_is_on_the_page(tmp_path: Path) -> None:
    trace, config = tmp_path / "trace.csv", tmp_path / "config.yaml"
    config.write_text(CONFIGURATION.format(gpus=8, price="1.29") + BUDGET, encoding="utf-8")
    lines = [f"job-{n},{n * 7200},7000,8,1,8,,," for n in range(12)]
    trace.write_text("\n".join([TRACE_HEADER, *lines]), encoding="utf-8")
    page = written(tmp_path, "--trace", str(trace), "--config", str(config), "--start", "2026-01-31")
    assert "Delayed by the budget" in page
    assert re.search(r"<summary>The delayed jobs</summary>.*?job-\d+", page, re.DOTALL)
