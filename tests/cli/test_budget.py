"""`gpu-autoscaler budget`, asked of a server that really listens."""

from datetime import timedelta
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.core.model.policy import Scope
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.clocks import FixedClock
from tests.web.builders import NOW, OPERATOR, a_picture


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


def test_a_forecast_that_needs_more_time_says_so(url: str, store: MemoryStore) -> None:
    young = a_picture()["budget"] | {"forecast_usd": None, "burn_usd_per_hour": None}
    store.keep_snapshot(a_picture(budgets=[young]), NOW)
    lines = budget(url, "show").stdout.splitlines()
    assert lines[2].split()[-2:] == ["unknown", "unknown"]
    assert lines[3] == "Forecast: not known yet. It needs a day of costs, and has them since 2026-11-01 00:00 UTC."


def test_an_old_picture_is_told_as_old(url: str) -> None:
    assert "the loop may be stalled" in budget(url, "show", later=timedelta(hours=1)).stdout


def test_without_a_step_nothing_is_made_up(url: str, store: MemoryStore) -> None:
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


def test_without_a_terminal_it_is_refused_and_yes_is_named(url: str, store: MemoryStore) -> None:
    done = budget(url, *BELOW)
    assert (done.exit_code, done.stdout, store.allowances_set("2026-03")) == (2, "", ())
    assert done.stderr.startswith(f"{SAID}\nwhat to do: add --yes")


def test_yes_sets_it_without_a_question(url: str, store: MemoryStore) -> None:
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


def test_what_the_server_refuses_is_said_with_the_remedy(url: str) -> None:
    done = budget(url, "set", "--why", "x", "--", "-5")
    assert done.exit_code == 2
    assert "is too low" in done.stderr


def test_a_wrong_token_ends_with_2_and_no_server_with_3(url: str) -> None:
    assert budget(url, "set", "5", "--why", "x", token="another-long-word-here").exit_code == 2
    assert budget(unused_url(), "show").exit_code == 3
