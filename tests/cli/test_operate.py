"""`gpu-autoscaler pause`, `override` and `budget`, asked of a server that really listens."""

import json
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Scope
from receiver.ports import StoredOverride, TryLater
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.clocks import FixedClock
from tests.web.builders import L40S, NOW, OPERATOR, TOKEN, Bench, a_picture, a_pool
from tests.web.stores import add_overrides, stored_overrides

FOR_TWO_HOURS = ("--for", "2h", "--why", "load test", "--who", "alice")


def override(url: str, *arguments: str, token: str | None = OPERATOR, **environment: str) -> Result:
    """Run the command as a person would, with the clock at NOW."""
    env = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": token, **environment}
    return CliRunner(env=env).invoke(main, ["override", *arguments], obj=FixedClock(NOW))


def pause(url: str, *arguments: str, token: str | None = OPERATOR, **environment: str) -> Result:
    """Run the command as a person would, with the clock at NOW."""
    env = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": token, **environment}
    return CliRunner(env=env).invoke(main, ["pause", *arguments], obj=FixedClock(NOW))


def operate(url: str, *arguments: str, token: str | None = OPERATOR) -> Result:
    env = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": token}
    return CliRunner(env=env).invoke(main, arguments, obj=FixedClock(NOW))


def only(store: MemoryStore) -> Override:
    """The one override that the server keeps."""
    [kept] = stored_overrides(store).values()
    return kept.override


def keep(store: MemoryStore, **changes: Any) -> None:
    values: dict[str, Any] = {"id": "pin-l40s-1", "kind": OverrideKind.PIN, "pool": L40S, "nodes": 4, "who": "alice"}
    times = {"why": "load test", "at": NOW - timedelta(hours=1), "until": NOW + timedelta(hours=1)}
    override = Override(**{**values, **times, **changes})
    add_overrides(store, StoredOverride(override=override))


# --- override: setting one


@pytest.mark.parametrize(("option", "kind"), [("--exactly", "pin"), ("--min", "floor"), ("--max", "ceiling")])
def test_a_size_is_set_with_pool_nodes_who_why_and_how_long(
    url: str, store: MemoryStore, option: str, kind: str
) -> None:
    done = override(url, "set", "l40s", option, "4", *FOR_TWO_HOURS)
    assert (done.exit_code, done.stderr) == (0, "")
    kept = only(store)
    assert (kept.kind, kept.pool, kept.nodes, kept.who, kept.why) == (kind, L40S, 4, "alice", "load test")
    assert kept.until == NOW + timedelta(hours=2)
    assert done.stdout.splitlines() == [
        f"{kept.id}: {kind} of 4 nodes of l40s by alice until 2026-03-10 16:30:00 UTC: load test",
        "the next step acts on it; see `gpu-autoscaler explain pool l40s`",
        f"to end it earlier: gpu-autoscaler override end {kept.id}",
    ]


@pytest.mark.parametrize("arguments", [("override", "set", "", "--max", "0"), ("pause", "")])
def test_a_variable_that_is_not_set_does_not_mean_every_pool(
    url: str, store: MemoryStore, arguments: tuple[str, ...]
) -> None:
    done = operate(url, *arguments, *FOR_TWO_HOURS)
    assert (done.exit_code, "POOL is empty" in done.stderr, stored_overrides(store)) == (2, True, {})


@pytest.mark.parametrize(
    ("arguments", "kind"), [(("pause", "l40s"), "pause"), (("override", "set", "l40s", "--keep"), "snooze")]
)
def test_one_pool_is_paused_or_its_nodes_are_kept(
    url: str, store: MemoryStore, arguments: tuple[str, ...], kind: str
) -> None:
    assert operate(url, *arguments, *FOR_TWO_HOURS).exit_code == 0
    assert (only(store).kind, only(store).pool, only(store).nodes) == (kind, L40S, None)


@pytest.mark.parametrize(
    ("arguments", "kind"), [(("pause",), "pause"), (("override", "set", "--keep", "--all"), "snooze")]
)
def test_every_pool_is_paused_or_its_nodes_are_kept(
    url: str, store: MemoryStore, arguments: tuple[str, ...], kind: str
) -> None:
    done = operate(url, *arguments, *FOR_TWO_HOURS)
    assert only(store).pool is None
    assert f"{kind} of every pool by alice" in done.stdout


def test_a_pause_lasts_two_hours_unless_its_end_is_given(url: str, store: MemoryStore) -> None:
    assert pause(url, "--why", "x", "--who", "alice").exit_code == 0
    assert only(store).until == NOW + timedelta(hours=2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("l40s", "--keep", "--all"), "name one pool, or give --all with --keep for every pool"),
        (("--keep",), "name one pool, or give --all with --keep for every pool"),
        (("--all", "--exactly", "4"), "--all needs --keep: a size is of one pool"),
        (("l40s",), "give one of --min, --max, --exactly and --keep"),
        (("l40s", "--min", "1", "--max", "4"), "give one of --min, --max, --exactly and --keep"),
        (("l40s", "--min", "0", "--keep"), "give one of --min, --max, --exactly and --keep"),
    ],
)
def test_an_override_is_one_thing_of_one_pool_or_keeps_every_node(arguments: tuple[str, ...], problem: str) -> None:
    done = override(unused_url(), "set", *arguments, *FOR_TWO_HOURS)
    assert done.exit_code == 2
    assert problem in " ".join(done.stderr.split())


def test_until_may_be_given_instead_of_how_long(url: str, store: MemoryStore) -> None:
    pause(url, "l40s", "--until", "2026-03-10T15:00:00Z", "--why", "x", "--who", "alice")
    assert only(store).until == NOW + timedelta(minutes=30)


@pytest.mark.parametrize(("length", "minutes"), [("2 hours", 120), ("90 min", 90), ("until 15:00", 30)])
def test_how_long_is_taken_as_people_type_it(url: str, store: MemoryStore, length: str, minutes: int) -> None:
    pause(url, "l40s", "--for", length, "--why", "x", "--who", "alice")
    assert only(store).until == NOW + timedelta(minutes=minutes)


def test_who_is_the_login_name_unless_it_is_said(url: str, store: MemoryStore) -> None:
    pause(url, "l40s", "--for", "1h", "--why", "x", LOGNAME="bob")
    assert only(store).who == "bob"


def test_without_a_reason_nothing_is_asked() -> None:
    done = pause(unused_url(), "l40s", "--for", "1h")
    assert done.exit_code == 2
    assert "--why" in done.stderr


def test_what_the_server_refuses_is_status_2_with_its_remedy(url: str, store: MemoryStore) -> None:
    done = override(url, "set", "l4Os", "--exactly", "4", *FOR_TWO_HOURS)
    assert (done.exit_code, done.stdout, stored_overrides(store)) == (2, "", {})
    assert done.stderr.splitlines() == [
        "no pool has this id or name",
        "what to do: did you mean l40s? use one of: l40s, a100, or all for every pool",
    ]


def test_a_refusal_is_a_document_too(url: str) -> None:
    done = override(url, "set", "l40s", "--exactly", "99", *FOR_TWO_HOURS, "--json")
    assert (done.exit_code, json.loads(done.stdout)["field"]) == (2, "nodes")


def test_an_override_that_was_set_can_be_had_as_json(url: str, store: MemoryStore) -> None:
    document = json.loads(override(url, "set", "l40s", "--exactly", "4", *FOR_TWO_HOURS, "--json").stdout)
    assert document["id"] == only(store).id


# --- who may


def test_without_a_token_nothing_is_asked() -> None:
    done = override(unused_url(), "set", "l40s", "--exactly", "4", *FOR_TWO_HOURS, token=None)
    assert done.exit_code == 2
    assert "GPU_AUTOSCALER_OPERATOR_TOKEN: is not set; set it to the server's token" in done.stderr


def test_a_token_of_two_words_is_refused_without_repeating_it() -> None:
    done = override(unused_url(), "set", "l40s", "--exactly", "4", *FOR_TWO_HOURS, token="one secret")
    assert done.exit_code == 2
    assert "contains spaces" in done.stderr
    assert "secret" not in done.output


def test_the_token_may_be_in_a_file(url: str, store: MemoryStore, tmp_path: Any) -> None:
    (tmp_path / "token").write_text(f"{OPERATOR}\n")
    file = {"GPU_AUTOSCALER_OPERATOR_TOKEN_FILE": str(tmp_path / "token")}
    assert pause(url, "l40s", *FOR_TWO_HOURS, token=None, **file).exit_code == 0
    assert only(store).kind == "pause"


def test_another_token_is_status_2_and_says_which_one_is_meant(url: str, store: MemoryStore) -> None:
    done = pause(url, "l40s", *FOR_TWO_HOURS, token=TOKEN)
    assert (done.exit_code, stored_overrides(store)) == (2, {})
    assert "the server has in GPU_AUTOSCALER_OPERATOR_TOKEN" in done.stderr
    assert TOKEN not in done.output


def test_a_password_in_the_url_does_not_take_the_tokens_place(url: str, store: MemoryStore) -> None:
    assert pause(url.replace("//", "//oncall:pass-word@"), "l40s", *FOR_TWO_HOURS).exit_code == 0
    assert only(store).kind == "pause"


# --- listing and ending


def test_what_is_in_force_is_listed_with_how_long_it_lasts_without_a_token(url: str, store: MemoryStore) -> None:
    keep(store)
    keep(store, id="pause-all-1", kind=OverrideKind.PAUSE, pool=None, nodes=None, at=NOW - timedelta(hours=2))
    keep(store, id="later", at=NOW + timedelta(minutes=1), until=NOW + timedelta(hours=5))
    done = override(url, "list", token=None)
    assert done.stdout.splitlines() == [
        "later: pin of 4 nodes of l40s by alice until 2026-03-10 19:30:00 UTC: load test (in 5 h), not in force yet",
        "pin-l40s-1: pin of 4 nodes of l40s by alice until 2026-03-10 15:30:00 UTC: load test (in 1 h)",
        "pause-all-1: pause of every pool by alice until 2026-03-10 15:30:00 UTC: load test (in 1 h)",
    ]


def test_no_override_in_force_is_said_too(url: str) -> None:
    assert override(url, "list").stdout == "no override is in force\n"


def test_the_list_of_overrides_can_be_had_as_json(url: str, store: MemoryStore) -> None:
    keep(store)
    assert [d["id"] for d in json.loads(override(url, "list", "--json").stdout)] == ["pin-l40s-1"]


def test_a_list_of_overrides_of_another_server_is_status_3(url: str) -> None:
    done = override(f"{url}/static/style.css?", "list")
    assert done.exit_code in (1, 3)
    assert done.stdout == ""


def test_a_store_that_is_down_is_status_3(url: str, bench: Bench) -> None:
    bench.error = TryLater("disk full")
    done = override(url, "list")
    assert (done.exit_code, "disk full" in done.stderr) == (3, True)
    assert done.stderr.splitlines()[-1].startswith("what to do: read its log with `kubectl logs")


def test_an_override_is_ended_by_the_login_name(url: str, store: MemoryStore) -> None:
    keep(store)
    done = override(url, "end", "pin-l40s-1", LOGNAME="bob")
    assert done.exit_code == 0
    assert stored_overrides(store)["pin-l40s-1"].ended_by == "bob"
    assert done.stdout.splitlines()[1] == "ended by bob; the configured policy applies again from the next step"


def test_an_override_that_is_not_there_is_status_1(url: str) -> None:
    done = override(url, "end", "pin-l40s-9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "no override has this id"


def test_an_id_that_looks_like_a_path_stays_one_word(url: str) -> None:
    assert override(url, "end", "../pools").exit_code == 1


# --- shown by explain


def test_explain_pool_names_every_override_in_force_and_what_is_kept(url: str, store: MemoryStore) -> None:
    shown = {"kind": "pin", "nodes": 4, "who": "alice", "why": "load test", "until": "2026-03-10T15:30:00+00:00"}
    more = [{**shown, "id": "pin-l40s-1"}, {**shown, "id": "p", "kind": "pause", "nodes": None, "every_pool": True}]
    node = {"name": "l40s-2", "stage": "usable", "pods": [], "idle_since": "2026-03-10T14:18:00+00:00"}
    kept = {**node, "kept_until": "2026-03-10T15:00:00+00:00", "kept_for": "ml/train-0"}
    store.keep_snapshot(a_picture(pools=[a_pool(overrides=more, nodes=[kept])]), NOW)
    runner = CliRunner(env={"GPU_AUTOSCALER_URL": url})
    lines = runner.invoke(main, ["explain", "pool", "l40s"], obj=FixedClock(NOW)).stdout.splitlines()
    assert "override: pin of 4 nodes by alice until 2026-03-10 15:30:00 UTC: load test (pin-l40s-1)" in lines
    assert "override: pause of every pool by alice until 2026-03-10 15:30:00 UTC: load test (p)" in lines
    assert any(line.endswith("kept until 15:00:00 UTC for ml/train-0") for line in lines)


# --- budget


def budget(
    url: str | None, *arguments: str, token: str = OPERATOR, later: timedelta = timedelta(0), typed: str = ""
) -> Result:
    """Run the command as a person would, with the clock at NOW."""
    runner = CliRunner(env={"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": token})
    return runner.invoke(main, ["budget", *arguments], obj=FixedClock(NOW + later), input=typed)


def test_every_budget_is_shown_with_its_forecast_and_who_set_it(url: str) -> None:
    done = budget(url, "show")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "budgets of 2026-03",
        "BUDGET                       SPENT  RESERVED         OF  STAGE   FORECAST  AN HOUR",
        "cluster budget           $3,120.44   $412.80  $5,000.00  warn   $6,100.50    $7.25",
        "budget of team research     $80.50     $2.58    $100.00  hold     $140.00    $0.20",
        "Forecast: the average cost per hour since 2026-11-01 00:00 UTC continues.",
        "cluster budget: no growth until these have a price: an.g1.a100.kube.x8",
        "budget of team research: set for this month by ada: a deadline",
    ]


def test_the_command_alone_shows_every_budget(url: str) -> None:
    assert budget(url).stdout == budget(url, "show").stdout


def test_a_forecast_that_needs_more_time_says_so(url: str, store: MemoryStore) -> None:
    young = a_picture()["budget"] | {"forecast_usd": None, "burn_usd_per_hour": None}
    store.keep_snapshot(a_picture(budgets=[young]), NOW)
    lines = budget(url, "show").stdout.splitlines()
    assert lines[2].split()[-2:] == ["unknown", "unknown"]
    assert lines[3] == "Forecast: not known yet. It needs a day of costs, and has them since 2026-11-01 00:00 UTC."


def test_budgets_of_an_old_picture_are_told_as_old(url: str) -> None:
    assert "the loop may be stalled" in budget(url, "show", later=timedelta(hours=1)).stdout


def test_without_a_step_no_budget_is_made_up(url: str, store: MemoryStore) -> None:
    store.keep_snapshot(a_picture(budgets=None, budget=None), NOW)
    assert budget(url, "show").stdout == "no step has finished yet\n"


def test_where_new_work_is_kept_out_is_shown_with_since_when(url: str, store: MemoryStore) -> None:
    kept = [{"place": "ClusterQueue gpus", "since": "2026-03-14T15:00:00+00:00"}]
    store.keep_snapshot(a_picture(kept_out=kept), NOW)
    line = "new GPU pods have been blocked in ClusterQueue gpus since 2026-03-14 15:00:00 UTC"
    assert line in budget(url, "show").stdout.splitlines()


def test_a_budget_is_set_and_reset(url: str, store: MemoryStore) -> None:
    done = budget(url, "set", "750.50", "--team", "research", "--who", "ada", "--why", "a deadline")
    assert done.stdout == "budget of the team research: $750.50 in 2026-03; by ada: a deadline\n"
    done = budget(url, "reset", "--team", "research", "--who", "ada", "--why", "done")
    assert done.stdout == "budget of the team research: as configured again; by ada: done\n"
    [change] = store.allowances_set("2026-03")
    assert (change.scope, change.name, change.monthly_usd) == (Scope.TEAM, "research", None)


BELOW = ("set", "600", "--who", "ada", "--why", "a typo")
SAID = "This is below the $3,120.44 spent: no pool grows and all nodes are cordoned"


@pytest.mark.parametrize(("typed", "kept", "status"), [("y\n", 1, 0), ("n\n", 0, 2), ("\n", 0, 2)])
def test_at_a_terminal_an_amount_below_the_spend_is_asked_about(
    url: str, store: MemoryStore, typed: str, kept: int, status: int
) -> None:
    with patch("receiver.cli.operate.at_a_terminal", return_value=True):
        done = budget(url, *BELOW, typed=typed)
    assert (done.exit_code, len(store.allowances_set("2026-03"))) == (status, kept)
    assert f"{SAID}. Continue? [y/N]:" in done.stderr
    assert ("nothing was changed" in done.stderr) is not bool(kept)


def test_without_a_terminal_an_amount_below_the_spend_is_refused_and_yes_is_named(url: str, store: MemoryStore) -> None:
    done = budget(url, *BELOW)
    assert (done.exit_code, done.stdout, store.allowances_set("2026-03")) == (2, "", ())
    assert done.stderr.startswith(f"{SAID}\nwhat to do: add --yes")


def test_yes_sets_an_amount_below_the_spend_without_a_question(url: str, store: MemoryStore) -> None:
    done = budget(url, *BELOW, "--yes")
    assert done.stdout == "budget of the cluster: $600.00 in 2026-03; by ada: a typo\n"
    assert len(store.allowances_set("2026-03")) == 1


def test_two_budgets_at_once_are_a_wrong_command_line(url: str) -> None:
    done = budget(url, "set", "1", "--team", "a", "--account", "--why", "x")
    assert (done.exit_code, "name one budget" in done.stderr) == (2, True)


def test_a_variable_that_is_not_set_does_not_mean_the_clusters_budget(url: str, store: MemoryStore) -> None:
    done = budget(url, "set", "900", "--team", "", "--why", "x")
    assert (done.exit_code, "--team is empty" in done.stderr, store.allowances_set("2026-03")) == (2, True, ())


def test_a_login_without_a_name_is_told_how_to_give_one(url: str, store: MemoryStore) -> None:
    with patch("getpass.getuser", side_effect=KeyError("uid not found: 10001")):
        done = budget(url, "set", "6000", "--why", "a deadline")
    assert (done.exit_code, store.allowances_set("2026-03")) == (2, ())
    assert "add --who and your name, such as --who alice" in done.stderr


def test_a_budget_that_the_server_refuses_is_said_with_the_remedy(url: str) -> None:
    done = budget(url, "set", "--why", "x", "--", "-5")
    assert done.exit_code == 2
    assert "is too low" in done.stderr


def test_a_budget_with_a_wrong_token_ends_with_2_and_with_no_server_with_3(url: str) -> None:
    assert budget(url, "set", "5", "--why", "x", token="another-long-word-here").exit_code == 2
    assert budget(unused_url(), "show").exit_code == 3
