"""`gpu-autoscaler replay` on small traces and on jobs from elsewhere: what it prints, what it refuses, and its page.

The page that `--html` writes is complete, by itself, and safe to open.
"""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from receiver.cli import replay_run
from receiver.cli.main import main
from receiver.cli.replay import NAMES, replay
from receiver.cli.replay_run import OBJECTIVES, ReplayRequest
from receiver.replay import contest
from receiver.replay.document import conclusion
from receiver.replay.figures import BOUNDS
from receiver.replay.peers import PEERS
from receiver.replay.play import Setting
from tests.adapters.wire import unused_url
from tests.cli.replay_runs import (
    BUDGET,
    CONFIGURATION,
    ENTRY_KEYS,
    OFFICE_TRACE,
    TRACE_HEADER,
    replay_json,
    run_replay,
)
from tests.replay.traces.exports import a_pod

SMALL = ("--timing", OFFICE_TRACE.with_name("small.yaml"))


@pytest.fixture(scope="module")
def office() -> dict[str, Any]:
    """The small trace under the product and two peers."""
    return replay_json("--trace", OFFICE_TRACE, *SMALL, "--compare", "always-on", "--compare", "cluster-autoscaler")


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Path]:
    """Write a trace of the given lines."""

    def write(*lines: str) -> Path:
        path = tmp_path / "trace.csv"
        path.write_text("\n".join([TRACE_HEADER, *lines]) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Write a configuration with one pool of nodes with so many GPUs."""

    def write(gpus: int, name: str = "config.yaml", more: str = "", price: str = "1.29") -> Path:
        path = tmp_path / name
        path.write_text(CONFIGURATION.format(gpus=gpus, price=price) + more, encoding="utf-8")
        return path

    return write


def test_the_table_has_a_line_for_each_policy_and_says_what_was_checked() -> None:
    found = run_replay("--trace", OFFICE_TRACE, *SMALL, "--compare", "cluster-autoscaler")
    begins = [line.split()[0] for line in found.stdout.splitlines() if line]
    assert begins.count("gpu-autoscaler") == begins.count("cluster-autoscaler") + 1  # once more, by the other
    assert "checked: no job lost" in found.stdout
    assert (found.exit_code, found.stderr) == (0, "")


def test_json_has_the_documented_keys_in_their_order(office: dict[str, Any]) -> None:
    assert list(office)[:2] == ["trace", "policies"]
    assert [policy["name"] for policy in office["policies"]] == ["gpu-autoscaler", "always-on", "cluster-autoscaler"]
    for policy in office["policies"]:
        assert list(policy)[: len(ENTRY_KEYS)] == ENTRY_KEYS


def test_what_is_paid_follows_from_the_hours_and_the_price(office: dict[str, Any]) -> None:
    price = float(office["pools"][0]["usd_per_node_hour"])
    for policy in office["policies"]:
        assert float(policy["usd"]) == float(policy["usd_started"]) == round(policy["node_hours_started"] * price, 2)
        assert float(policy["usd_second"]) == pytest.approx(policy["node_hours_second"] * price, abs=0.02)


def test_policies_are_compared_with_the_first_peer(office: dict[str, Any]) -> None:
    assert office["against"] == "always-on"
    first, second, _ = office["policies"]
    assert second["against"] == {"cost": 1.0, "wait": 1.0, "starts": 1.0}
    assert first["against"]["cost"] == round(first["gpu_hours_started"] / second["gpu_hours_started"], 4)
    assert first["against"]["wait"] == round((first["wait_mean_s"] + 1) / (second["wait_mean_s"] + 1), 4)


def test_the_same_seed_prints_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    words = ["--trace", str(OFFICE_TRACE), *map(str, SMALL), "--jitter", "0.3", "--compare", "cluster-autoscaler"]
    words += ["--seed", "7", "--html", str(tmp_path / "page.html")]
    first = run_replay(*words, "--json").stdout
    page = (tmp_path / "page.html").read_bytes()
    again = subprocess.run(  # another process, where sets are ordered otherwise
        [sys.executable, "-m", "receiver.cli.main", "replay", *words, "--json"],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stdout == first == run_replay(*words, "--json").stdout
    assert (tmp_path / "page.html").read_bytes() == page


def test_another_seed_draws_another_jitter() -> None:
    one, other = (
        replay_json("--trace", OFFICE_TRACE, *SMALL, "--jitter", "0.3", "--seed", seed) for seed in ("1", "2")
    )
    assert one["policies"][0]["wait_mean_s"] != other["policies"][0]["wait_mean_s"]


def test_billing_by_the_second_is_told_to_the_policy() -> None:
    found = replay_json("--trace", OFFICE_TRACE, *SMALL, "--billing", "second")["policies"][0]
    assert found["usd"] == found["usd_second"]
    by_hour = replay_json("--trace", OFFICE_TRACE, *SMALL)["policies"][0]
    assert found["gpu_hours_second"] < by_hour["gpu_hours_second"]  # it keeps no node to the end of an hour


def test_a_node_takes_as_long_as_it_is_said_to(trace: Callable[..., Path]) -> None:
    words = ("--build", "200s", "--boot", "30s", "--driver", "1m", "--scrape", "none", "--watch", "none")
    found = replay_json("--trace", trace("a,0,600,1,1,1,,,"), *words)["policies"][0]
    assert 290 <= found["wait_max_s"] <= 301


def conclusions(*words: str | Path) -> list[str]:
    """The lines that conclude, in the order in which they are printed."""
    return [line for line in run_replay(*words).stdout.splitlines() if "policy would have cost" in line]


def test_a_replay_opens_with_what_it_would_have_cost_and_the_longest_wait_beside_the_baseline() -> None:
    first, *_ = run_replay("--trace", OFFICE_TRACE, *SMALL, "--compare", "cluster-autoscaler").stdout.splitlines()
    assert first == (
        "This policy would have cost $51.60 instead of $72.24 under cluster-autoscaler (-29%), "
        "with the longest wait 5m01s instead of 5m30s."
    )


def test_without_a_baseline_the_conclusion_compares_nothing() -> None:
    assert conclusions("--trace", OFFICE_TRACE, *SMALL) == [
        "This policy would have cost $51.60, with the longest wait 5m01s."
    ]


def test_the_wait_of_a_bound_is_not_compared() -> None:
    [said] = conclusions("--trace", OFFICE_TRACE, *SMALL, "--compare", "fluid")
    assert said.endswith(" instead of $20.64 under fluid (+150%), with the longest wait 5m01s.")


def test_several_traces_open_with_their_sum() -> None:
    other = OFFICE_TRACE.parent / "halves.csv"
    found = conclusions("--trace", OFFICE_TRACE, "--trace", other, *SMALL, "--compare", "always-on")
    assert found[0].startswith("Over 2 traces this policy would have cost $82.56 instead of $103.20 under always-on")
    assert [line.split()[5].rstrip(",") for line in found[1:]] == ["$51.60", "$30.96"]


def test_objectives_are_compared_under_the_same_configuration() -> None:
    found = replay_json("--trace", OFFICE_TRACE, *SMALL, "--compare", "objectives")
    objectives = {policy["name"]: policy["objective"] for policy in found["policies"]}
    assert objectives == {"gpu-autoscaler": "balanced", "objective-cost": "cost", "objective-wait": "wait"}
    assert found["against"] == "objective-cost"


def test_policies_that_differ_in_more_than_their_objective_are_not_compared_by_it(office: dict[str, Any]) -> None:
    assert {policy["objective"] for policy in office["policies"]} == {None}


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        (
            {"cost": ("100", 60.0), "balanced": ("100", 60.0), "wait": ("100.9", 45.0)},
            "Objective wait costs the same as cost, and jobs wait 25 % less.",
        ),
        (
            {"cost": ("100", 60.0), "balanced": ("100", 54.0), "wait": ("110", 30.0)},
            "Objective balanced costs least; under wait jobs wait 44 % less for 10 % more.",
        ),
        (
            {"cost": ("100", 60.0), "balanced": ("105", 60.0), "wait": ("110", 60.0)},
            "Objective cost costs least, and under no other do jobs wait less.",
        ),
        (
            {"cost": ("100", 0.0), "balanced": ("105", 0.0), "wait": ("110", 0.0)},
            "Objective cost costs least, and under no other do jobs wait less.",
        ),
    ],
)
def test_a_conclusion_names_the_objective_that_waits_less_for_the_same_cost_or_what_less_waiting_costs(
    results: dict[str, tuple[str, float]], sentence: str, office: dict[str, Any]
) -> None:
    ours, *_ = office["policies"]
    played = [
        {**ours, "name": name, "objective": name, "usd": usd, "wait_mean_s": wait}
        for name, (usd, wait) in results.items()
    ]
    assert conclusion([{**office, "policies": played, "against": "cost"}]).endswith(f". {sentence}")


def test_objectives_of_which_one_has_no_price_are_not_compared(office: dict[str, Any]) -> None:
    ours, *_ = office["policies"]
    played = [{**ours, "objective": "cost", "usd": None}, {**ours, "objective": "wait"}]
    assert "Objective" not in conclusion([{**office, "policies": played, "against": None}])


@pytest.mark.parametrize(
    ("usd", "said"),
    [
        ("99.90", "would have cost $99.90 instead of $100.00 under fluid (+0%),"),
        (None, "would have cost an unknown amount instead of $100.00 under fluid,"),
    ],
)
def test_a_conclusion_about_hardly_a_difference_or_without_a_price_reads_well(
    usd: str | None, said: str, office: dict[str, Any]
) -> None:
    policy = office["policies"][0]
    played = [{**policy, "usd": usd}, {**policy, "usd": "100.00", "name": "fluid"}]
    assert said in conclusion([{**office, "policies": played, "against": "fluid"}])


def test_a_conclusion_says_how_many_jobs_did_not_finish_and_what_does_not_add_up(office: dict[str, Any]) -> None:
    ours, *others = office["policies"]
    assert conclusion([{**office, "policies": [{**ours, "jobs_lost": 2}, *others]}]).endswith(
        "; 2 jobs did not finish."
    )
    wrong = {**ours, "violations": ["a GPU was held twice"]}
    assert "DOES NOT ADD UP" in conclusion([{**office, "policies": [wrong, *others]}])


A_JOB = "a,0,600,1,1,1,,,"
SHORT = "    provision_timeout: {}\n"


def test_a_timeout_below_what_a_node_needs_is_refused(trace: Callable[..., Path], config: Callable[..., Path]) -> None:
    found = run_replay("--trace", trace(A_JOB), "--config", config(1, more=SHORT.format("4m59s")))
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(
        "gpu-autoscaler: pool l40s: provision_timeout 4m59s is shorter than the 5m that a new node needs here "
        "(build 1m40s, boot 20s, driver 3m)"
    )


def test_a_timeout_of_a_compared_policy_is_judged_too(trace: Callable[..., Path], config: Callable[..., Path]) -> None:
    hasty = config(1, "hasty.yaml", SHORT.format("2m"))
    found = run_replay("--trace", trace(A_JOB), "--config", config(1), "--compare", hasty)
    assert found.exit_code == 2
    assert "hasty.yaml: pool l40s: provision_timeout 2m is shorter" in found.stderr


@pytest.mark.parametrize(("timeout", "options"), [("5m", ()), ("2m", ("--build", "30s", "--driver", "1m"))])
def test_a_timeout_that_lets_a_node_become_usable_is_replayed(
    trace: Callable[..., Path], config: Callable[..., Path], timeout: str, options: tuple[str, ...]
) -> None:
    found = run_replay("--trace", trace(A_JOB), "--config", config(1, more=SHORT.format(timeout)), *options)
    assert found.exit_code == 0
    assert "checked: no job lost, no GPU held twice" in found.stdout


def test_jobs_that_never_start_wait_until_the_end_and_fail_the_replay(
    trace: Callable[..., Path], config: Callable[..., Path]
) -> None:
    given = "--trace", trace(A_JOB, "b,60,600,2,1,2,,,"), "--config", config(2, more="limits: {max_gpus: 1}\n")
    found = run_replay(*given)
    assert found.exit_code == 1
    assert "; 2 jobs did not finish, all of which never started." in found.stdout
    assert "NOT FINISHED: gpu-autoscaler: 2 jobs did not finish, all of which never started" in found.stdout
    assert "checked: no GPU held twice" in found.stdout
    assert "no job lost" not in found.stdout
    [policy] = replay_json(*given)["policies"]
    assert (policy["jobs"], policy["jobs_lost"], policy["jobs_unstarted"]) == (2, 2, 2)
    assert policy["wait_max_s"] == 60.501  # the last step, after which nothing would change any more
    assert "with the longest wait more than 1m01s" in found.stdout


def test_a_job_that_its_budget_never_pays_for_is_no_fault_of_the_policy(
    trace: Callable[..., Path], config: Callable[..., Path]
) -> None:
    found = run_replay("--trace", trace(A_JOB), "--config", config(1, more="budget: {monthly_usd: 1}\n"))
    assert "never ran: a" in found.stdout
    assert "1 job did not finish, all of which never started" in found.stdout
    assert found.exit_code == 0


def test_lost_jobs_of_a_peer_do_not_fail_the_replay(office: dict[str, Any]) -> None:
    ours = office["policies"][0]
    assert replay_run._is_wrong({**ours, "jobs_lost": 1})
    assert not replay_run._is_wrong({**ours, "jobs_lost": 1, "kind": "peer"})


@pytest.mark.parametrize(("billing", "hours", "usd"), [((), 0.25, "0.32"), (("--billing", "hour"), 1, "1.29")])
def test_the_granularity_of_the_configuration_is_billed_unless_told_otherwise(
    trace: Callable[..., Path], config: Callable[..., Path], billing: tuple[str, ...], hours: float, usd: str
) -> None:
    given = "--trace", trace(A_JOB), "--config", config(1, more="billing: {granularity: 5m, removal_margin: 30s}\n")
    [policy] = replay_json(*given, *billing)["policies"]
    assert (policy["node_hours_started"], policy["usd"]) == (hours, usd)
    assert ("billed by the started 5m;" in run_replay(*given, *billing).stdout) is not bool(billing)


def test_what_of_the_billing_is_not_replayed_is_said(trace: Callable[..., Path], config: Callable[..., Path]) -> None:
    first = config(1, more="billing: {anchor: clock, rounding: floor_min_one}\n")
    other = config(1, "other.yaml", "billing: {granularity: 1s}\n")
    found = run_replay("--trace", trace(A_JOB), "--config", first, "--compare", other)
    assert "config.yaml: billing.anchor clock is replayed as instance" in found.stderr
    assert "config.yaml: billing.rounding floor_min_one is replayed as ceil" in found.stderr
    assert "other.yaml: billing.granularity 1s is replayed as 1h" in found.stderr


def test_a_watch_is_sooner_than_a_slow_tick(trace: Callable[..., Path]) -> None:
    path = trace("a,61,600,1,1,1,,,")
    seconds = [
        replay_json("--trace", path, "--tick", "2m", "--scrape", "none", "--watch", watch)["policies"][0]["wait_max_s"]
        for watch in ("none", "2s")
    ]
    assert seconds == [359.0, 302.001]  # the scheduler takes a millisecond to say that there is no room


def test_jobs_that_no_pool_can_hold_are_refused_by_name(trace: Callable[..., Path]) -> None:
    path = trace("a,0,60,1,1,1,,,", "wide,0,60,16,2,8,,,", "deep,0,60,9,1,9,,,")
    found = run_replay("--trace", path, "--gpus-per-node", "8", "--max-gpus", "8")
    assert found.exit_code == 2
    assert "job wide" in found.stderr
    assert "job deep" in found.stderr
    assert found.stdout == ""


def test_jobs_that_no_pool_can_hold_are_left_out_when_asked_and_named(trace: Callable[..., Path]) -> None:
    path = trace("a,0,60,1,1,1,,,", "wide,0,60,16,2,8,,,")
    found = run_replay("--trace", path, "--max-gpus", "8", "--skip-misfits", "--json")
    shown = json.loads(found.stdout)
    assert (found.exit_code, shown["jobs"], len(shown["left_out"])) == (0, 1, 1)
    assert "job wide" in found.stderr
    assert "job wide" in shown["left_out"][0]


def test_pods_are_split_into_pods_of_one_gpu(trace: Callable[..., Path]) -> None:
    path = trace("a,0,60,4,1,4,,,")
    assert run_replay("--trace", path, "--gpus-per-node", "1").exit_code == 2
    assert replay_json("--trace", path, "--gpus-per-node", "1", "--split-pods")["policies"][0]["node_starts"] == 4


def test_every_wrong_line_of_a_trace_is_named(trace: Callable[..., Path]) -> None:
    found = run_replay("--trace", trace("a,0,-5,1,1,1,,,", "b,x,60,1,1,1,,,"))
    assert found.exit_code == 2
    assert [line.split(": ")[1].split(",")[0] for line in found.stderr.splitlines()[:-1]] == ["line 2", "line 3"]


def test_of_several_traces_all_that_are_wrong_are_told(trace: Callable[..., Path], tmp_path: Path) -> None:
    found = run_replay("--trace", trace("a,0,-5,1,1,1,,,"), "--trace", OFFICE_TRACE, "--trace", tmp_path / "none.csv")
    assert [line.rpartition("/")[2].split(":")[0] for line in found.stderr.splitlines()[:-1]] == [
        "trace.csv",
        "none.csv",
    ]
    assert found.stderr.splitlines()[-1] == "what to do: see docs/replay.md, or gpu-autoscaler replay --help"


def test_a_trace_that_is_not_there_is_said(tmp_path: Path) -> None:
    found = run_replay("--trace", tmp_path / "none.csv")
    assert (found.exit_code, "No such file" in found.stderr) == (2, True)


def test_of_a_peer_that_is_not_known_the_nearest_is_named() -> None:
    found = run_replay("--trace", OFFICE_TRACE, "--compare", "cluster-autoscaller")
    assert found.exit_code == 2
    assert "cluster-autoscaler" in found.stderr


def test_a_policy_is_named_once() -> None:
    found = run_replay("--trace", OFFICE_TRACE, "--compare", "always-on", "--compare", "always-on")
    assert (found.exit_code, "name each policy once" in found.stderr) == (2, True)


def test_a_configuration_brings_its_pools_and_its_tick(config: Callable[..., Path]) -> None:
    found = replay_json("--trace", OFFICE_TRACE, "--config", config(8))
    assert [pool["name"] for pool in found["pools"]] == ["l40s"]
    assert found["setting"]["tick_s"] == 20
    assert found["policies"][0]["jobs_lost"] == 0  # the pods of a trace tolerate the taint


def test_another_configuration_runs_on_its_own_pools(config: Callable[..., Path]) -> None:
    smaller = config(4, "smaller.yaml", price="0.645")
    path = OFFICE_TRACE.parent / "halves.csv"
    found = replay_json("--trace", path, "--config", config(8), "--compare", smaller)
    ours, other = found["policies"]
    assert other["name"] == str(smaller)
    assert ours["gpu_hours_started"] / ours["node_hours_started"] == 8
    assert other["gpu_hours_started"] / other["node_hours_started"] == 4


def test_without_a_watch_in_the_configuration_none_wakes_the_product(config: Callable[..., Path]) -> None:
    path = config(8, more="kubernetes: {watch: false}\n")
    assert replay_json("--trace", OFFICE_TRACE, "--config", path)["setting"]["watch_s"] is None
    assert replay_json("--trace", OFFICE_TRACE, "--config", path, "--watch", "2s")["setting"]["watch_s"] == 2
    assert replay_json("--trace", OFFICE_TRACE, "--config", config(8))["setting"]["watch_s"] == 0.5


def test_every_mistake_of_a_configuration_is_listed(config: Callable[..., Path]) -> None:
    found = run_replay("--trace", OFFICE_TRACE, "--config", config(8, more="tock: 5s\nmode: acting\n"))
    assert found.exit_code == 2
    assert "tock" in found.stderr
    assert "mode" in found.stderr


def test_a_pool_without_a_price_is_refused_because_it_could_not_grow(config: Callable[..., Path]) -> None:
    path = config(8)
    path.write_text(path.read_text().replace("    price_usd_per_hour: 1.29\n", "").replace("l40s.kube.x8", "none"))
    found = run_replay("--trace", OFFICE_TRACE, "--config", path)
    assert (found.exit_code, "pool l40s has no price" in found.stderr) == (2, True)


def test_budgets_of_teams_are_refused_before_anything_runs(config: Callable[..., Path]) -> None:
    budget = "budget: {monthly_usd: 100, teams: {vision: 5}}\n"
    found = run_replay("--trace", OFFICE_TRACE, "--config", config(8, more=budget))
    assert (found.exit_code, "budget.teams" in found.stderr) == (2, True)


def test_what_a_budget_held_up_is_told_below_the_table(config: Callable[..., Path], trace: Callable[..., Path]) -> None:
    lines = [f"job-{n},{n * 7200},7000,8,1,8,,," for n in range(12)]
    words = ("--trace", trace(*lines), "--start", "2026-01-31", "--config", config(8, more=BUDGET))
    found = run_replay(*words, "--compare", "cluster-autoscaler").stdout.splitlines()
    head = next(line for line in found if line.startswith("policy "))
    ours, peer = (line for line in found[found.index(head) + 1 :][:2])
    assert head.split()[-1] == "pauses"
    assert (int(ours.split()[-1]) > 0, peer.split()[-1]) == (True, "-")
    below = found[found.index("delayed by the budget under gpu-autoscaler:") + 1 :]
    assert "cluster budget hold in 2026-01: 2026-01-31" in below[0]
    assert any("delayed jobs:" in line for line in below)


def test_a_budget_that_held_up_nothing_says_so(config: Callable[..., Path]) -> None:
    found = run_replay("--trace", OFFICE_TRACE, "--config", config(8, more="budget: {monthly_usd: 5000}\n"))
    assert "delayed by the budget under gpu-autoscaler: nothing" in found.stdout


def test_what_does_not_add_up_ends_in_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "violations", lambda *_: ["a GPU was held twice"])
    found = run_replay("--trace", OFFICE_TRACE, *SMALL)
    assert found.exit_code == 1
    assert "DOES NOT ADD UP: gpu-autoscaler: a GPU was held twice" in found.stdout


def test_a_pod_that_lost_its_node_to_us_ends_in_failure(kill_by: Callable[[str], None]) -> None:
    kill_by("policy")
    assert run_replay("--trace", OFFICE_TRACE, *SMALL).exit_code == 1


def test_what_a_peer_kills_is_told_and_is_no_failure(kill_by: Callable[[str], None]) -> None:
    kill_by("peer")
    found = run_replay("--trace", OFFICE_TRACE, *SMALL, "--compare", "always-on", "--json")
    assert (json.loads(found.stdout)["policies"][1]["kills"], found.exit_code) == (1, 0)


def test_several_traces_are_replayed_one_by_one_and_compared_over_all() -> None:
    other = OFFICE_TRACE.parent / "halves.csv"
    found = replay_json("--trace", OFFICE_TRACE, "--trace", other, *SMALL, "--compare", "cluster-autoscaler")
    assert [each["trace"] for each in found["traces"]] == ["office.csv", "halves.csv"]
    costs = [each["policies"][0]["against"]["cost"] for each in found["traces"]]
    assert found["ratios"]["gpu-autoscaler"]["cost"] == pytest.approx((costs[0] * costs[1]) ** 0.5, abs=0.001)


def test_the_options_have_the_defaults_of_a_setting() -> None:
    context = click.Context(replay)
    known = {parameter.name: parameter for parameter in replay.params}
    for field in fields(Setting):
        if field.name not in ("start", "billing", "granularity"):
            parameter = known[field.name]
            default = parameter.type_cast_value(context, parameter.get_default(context))
            assert default == getattr(Setting(), field.name), field.name


def test_the_help_lists_ten_options() -> None:
    said = run_replay("--help").stdout.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in said.splitlines() if line.startswith("  -")] == [
        "--trace", "--decision", "--config", "--compare", "--billing", "--prometheus", "--since", "--timing", "--json",
        "--html", "-h,",
    ]  # fmt: skip


TIMING = "build: 200s\nboot: 30s\ndriver: 1m\nscrape: none\nwatch: none\nmax_gpus: 8\nskip_misfits: true\n"


def test_the_file_of_timing_has_what_options_had(tmp_path: Path, trace: Callable[..., Path]) -> None:
    file = tmp_path / "timing.yaml"
    file.write_text(TIMING)
    jobs = trace("a,0,600,1,1,1,,,", "large,0,600,64,1,64,,,")
    found = run_replay("--trace", jobs, "--timing", file, "--json")
    assert (found.exit_code, "is now" in found.stderr) == (0, False)
    document = json.loads(found.stdout)
    setting = {name: document["setting"][name] for name in ("build_s", "boot_s", "driver_s", "watch_s", "scrape_s")}
    assert setting == {"build_s": 200, "boot_s": 30, "driver_s": 60, "watch_s": None, "scrape_s": None}
    assert len(document["left_out"]) == 1
    former = ["--build", "200s", "--boot", "30s", "--driver", "1m", "--scrape", "none", "--watch", "none"]
    typed = run_replay("--trace", jobs, *former, "--max-gpus", "8", "--skip-misfits", "--json")
    assert json.loads(typed.stdout)["policies"] == document["policies"]


def test_an_option_on_the_command_line_goes_before_the_file(tmp_path: Path, trace: Callable[..., Path]) -> None:
    file = tmp_path / "timing.yaml"
    file.write_text("build: 200s\nboot: 30s\n")
    setting = replay_json("--trace", trace("a,0,600,1,1,1,,,"), "--timing", file, "--build", "50s")["setting"]
    assert (setting["build_s"], setting["boot_s"]) == (50, 30)


def test_every_mistake_in_the_file_of_timing_is_listed(tmp_path: Path, trace: Callable[..., Path]) -> None:
    file = tmp_path / "timing.yaml"
    file.write_text("biuld: 200s\nboot: 30\njitter: 2\nskip_bad: perhaps\nseed: [1]\nscrape:\n")
    found = run_replay("--trace", trace("a,0,600,1,1,1,,,"), "--timing", file)
    assert (found.exit_code, found.stdout) == (2, "")
    lines = [line.strip() for line in found.stderr.splitlines()[1:-1]]
    assert [line.partition(":")[0] for line in lines] == ["scrape", "biuld", "boot", "jitter", "skip_bad", "seed"]
    assert "biuld: unknown key; did you mean build?" in lines
    assert lines[2].startswith('boot: "30" has no unit; write 30s for seconds')


def test_the_line_about_former_options_names_their_keys(trace: Callable[..., Path]) -> None:
    found = run_replay("--trace", trace("a,0,600,1,1,1,,,"), "--group-wait", "1s", "--seed", "3")
    assert found.stderr == (
        "`gpu-autoscaler replay --group-wait, --seed` is now `gpu-autoscaler replay --timing FILE`, "
        "with group_wait, seed in FILE; the former name goes with the next release\n"
    )


def test_the_help_names_every_peer_and_bound() -> None:
    assert [OBJECTIVES, *PEERS, *BOUNDS] == list(NAMES)
    said = " ".join(run_replay("--help").stdout.split())
    assert all(name in said for name in NAMES)


class Terminal(io.StringIO):
    """Where somebody looks on."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_which_policy_runs_and_how_many_jobs_have_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    asked = ReplayRequest(max_gpus=32, compare=("always-on", "fluid"))
    assert replay_run.run([OFFICE_TRACE], asked, as_json=True, html=None, bar=True) == 0
    said = [name for name in ("gpu-autoscaler", "always-on", "fluid") if name in shown.getvalue()]
    assert said == ["gpu-autoscaler", "always-on", "fluid"]
    assert "15/15" in shown.getvalue()


# --- jobs from elsewhere


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


# --- the page


TRACES = Path(__file__).parents[1] / "replay" / "traces"
COMPARED = ("--compare", "cluster-autoscaler", "--compare", "karpenter-when-empty", "--compare", "always-on")


def written(folder: Path, *words: str) -> str:
    """Type the command with --html, and read the page."""
    path = folder / "page.html"
    found = CliRunner().invoke(main, ["replay", *words, "--max-gpus", "32", "--html", str(path)])
    assert found.exit_code == 0, found.output
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the small trace with three peers."""
    return written(tmp_path_factory.mktemp("page"), "--trace", str(TRACES / "office.csv"), *COMPARED)


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
    page = written(tmp_path, "--trace", str(TRACES / "office.csv"), *COMPARED)
    assert "<strong>always-on</strong> removed nodes under 1 running pod" in page


def test_a_trace_cannot_write_into_the_page(tmp_path: Path) -> None:
    path = tmp_path / "<img src=x>.csv"
    path.write_bytes((TRACES / "halves.csv").read_bytes())
    assert "<img" not in written(tmp_path, "--trace", str(path))


def test_several_traces_are_on_one_page_with_the_means_before_them(tmp_path: Path) -> None:
    words = [word for name in ("office", "halves") for word in ("--trace", str(TRACES / f"{name}.csv"))]
    page = written(tmp_path, *words, *COMPARED[:2])
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
