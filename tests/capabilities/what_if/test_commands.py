"""`gpu-autoscaler what-if` and `explain node`, asked of a server with a last step."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.wire import unused_url
from tests.cli.asked import ask, serving
from tests.core.builders import NOW, a_node, a_pod, a_state, facts
from tests.web.last_step import CONFIGURATION, SPEND, a_bench_after_a_step, a_last_step


@pytest.fixture
def url() -> Iterator[str]:
    with serving(a_bench_after_a_step().parts()) as address:
        yield address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration with a lower maximum."""
    found = tmp_path / "new.yaml"
    found.write_text(CONFIGURATION.replace("max_nodes: 4", "max_nodes: 3").replace("max_nodes: 2", "max_nodes: 0"))
    return found


def test_both_sides_stand_beside_each_other(url: str, file: Path) -> None:
    done = ask(url, "what-if", "--config", str(file), at=NOW)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:3] == [
        "nothing was changed; as of 12:00:00 UTC",
        "differs: pools.l40s.max_nodes 4 -> 3",
        "         pools.spare.max_nodes 2 -> 0",
    ]
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["l40s", "3", "4", "3", "$5.16", "$3.87"] in rows
    assert ["total", "$7.74", "$3.87"] in rows
    assert "3 workloads waiting, of which 3 would have a different outcome" in done.stdout
    document = json.loads(ask(url, "what-if", "--config", str(file), "--json", at=NOW).stdout)
    fate = document["waiting"][0]["other"]
    assert (fate["state"], fate["rule"]) == ("held", "within_maximum")
    assert f"  other: blocked - {fate['detail']}" in done.stdout


def test_only_pools_that_differ_are_listed(url: str) -> None:
    few = ("what-if", "--set", "pools.l40s.max_nodes=3")
    pools = json.loads(ask(url, *few, "--json", at=NOW).stdout)["pools"]
    listed = {line.split(",")[0].split()[0] for line in ask(url, *few, at=NOW).stdout.splitlines() if line}
    assert {pool["name"] for pool in pools if pool["in_force"] != pool["other"]} == {"l40s", "spare"} & listed


def test_where_no_pool_differs_that_is_all_that_is_said_of_them(url: str) -> None:
    lines = ask(url, "what-if", "--set", "overrides.longest=2h", at=NOW).stdout.splitlines()
    assert "the same for all pools" in lines
    assert not [line for line in lines if line.startswith(("l40s", "spare"))]


def test_a_few_keys_do_without_a_file(url: str, file: Path) -> None:
    few = ("--set", "pools.l40s.max_nodes=3", "--set", "pools.spare.max_nodes=0")
    assert ask(url, "what-if", *few, at=NOW).stdout == ask(url, "what-if", "--config", str(file), at=NOW).stdout


def test_a_program_gets_the_servers_document(url: str) -> None:
    done = ask(url, "what-if", "--set", "objective=cost", "--json", at=NOW)
    assert json.loads(done.stdout)["changes"] == ["objective balanced -> cost"]


def test_a_refused_file_ends_as_check_config_does(url: str, file: Path) -> None:
    file.write_text(CONFIGURATION.replace("max_nodes: 4", "max_node: 4"))
    done = ask(url, "what-if", "--config", str(file), at=NOW)
    checked = ask(url, "check-config", str(file), at=NOW)
    assert done.exit_code == checked.exit_code == 2
    assert done.stderr.splitlines() == checked.stderr.splitlines()[:-1]
    assert len(json.loads(ask(url, "what-if", "--config", str(file), "--json", at=NOW).stdout)["mistakes"]) == 2


@pytest.mark.parametrize("arguments", [(), ("--set", "mode"), ("--config", "/no/such/file"), ("--set", "=3")])
def test_a_wrong_command_line_ends_with_2(url: str, arguments: tuple[str, ...]) -> None:
    assert ask(url, "what-if", *arguments, at=NOW).exit_code == 2


def test_a_file_that_is_no_text_ends_with_2(url: str, file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    done = ask(url, "what-if", "--config", str(file), at=NOW)
    assert (done.exit_code, "as UTF-8" in done.stderr) == (2, True)


def test_without_a_server_or_a_step_it_ends_with_3() -> None:
    assert ask(unused_url(), "what-if", "--set", "objective=cost", at=NOW).exit_code == 3
    with serving(a_bench_after_a_step(last_step=None).parts()) as address:
        done = ask(address, "what-if", "--set", "objective=cost", at=NOW)
    assert (done.exit_code, "this replica takes no steps" in done.stderr) == (3, True)


def test_a_node_that_goes_is_told_in_lines() -> None:
    train = a_pod("train", node="n1", owner="Job/train", phase="running")
    busy = a_node("n1", pods=(train,), idle_since=None)
    last = a_last_step(facts(a_state(busy, a_node("n2")), a_state(pool="spare-id"), spend=SPEND))
    with serving(a_bench_after_a_step(last_step=last).parts()) as address:
        done = ask(address, "explain", "node", "n1", at=NOW)
        missing = ask(address, "explain", "node", "n9", at=NOW)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "if node n1 of GPU pool l40s (usable) were removed now:",
        "  ml/train would move to n2 (l40s)",
        "saves $1.29 an hour from 12:40:00 UTC on; $0.86 is already paid for the time until then",
        "blocks its removal now: it runs pods without consent to be moved: ml/train",
        "as of 12:00:00 UTC",
    ]
    assert missing.exit_code == 1


def test_an_idle_node_moves_no_gpu_work_and_stays_until_its_moment() -> None:
    last = a_last_step(facts(a_state(a_node("n1")), a_state(pool="spare-id"), spend=SPEND))
    with serving(a_bench_after_a_step(last_step=last).parts()) as address:
        lines = ask(address, "explain", "node", "n1", at=NOW).stdout.splitlines()
    assert lines[1] == "  no running GPU work would move"
    assert lines[-2] == "no removal before 12:38:30 UTC, unless something changes"
