"""The former names of commands work, and name the present ones on standard error."""

from datetime import timedelta

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.core.model.overrides import Answer
from simulator.store import MemoryStore
from tests.clocks import FixedClock
from tests.docs.commands import taken, words_of
from tests.web.builders import L40S, NOW, OPERATOR, a_question
from tests.web.stores import add_questions, stored_overrides, the_question

SET = ("--for", "2h", "--why", "load test", "--who", "alice")
GOES = "the former name goes with the next release"


def run(url: str, *arguments: str) -> Result:
    """Run the command as a person would, with the clock at NOW."""
    env = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR}
    return CliRunner(env=env).invoke(main, arguments, obj=FixedClock(NOW))


def present(done: Result, former: str) -> str:
    """The present command that the one line on standard error names."""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"`gpu-autoscaler {former}` is now `gpu-autoscaler ")
    assert line.endswith(f"`; {GOES}")
    return line.split("`")[3].removeprefix("gpu-autoscaler ")


@pytest.mark.parametrize(
    ("former", "now", "kind", "pool", "nodes"),
    [
        (("pin", "l40s", "4"), "override set l40s --exactly 4", "pin", L40S, 4),
        (("floor", "l40s", "4"), "override set l40s --min 4", "floor", L40S, 4),
        (("ceiling", "l40s", "4"), "override set l40s --max 4", "ceiling", L40S, 4),
        (("pause", "l40s"), "pause l40s", "pause", L40S, None),
        (("pause", "--all"), "pause", "pause", None, None),
        (("snooze", "l40s"), "override set l40s --keep", "snooze", L40S, None),
        (("snooze", "--all"), "override set --keep --all", "snooze", None, None),
    ],
)
def test_each_former_override_is_set_and_its_present_command_named(
    url: str, store: MemoryStore, former: tuple[str, ...], now: str, kind: str, pool: str | None, nodes: int | None
) -> None:
    done = run(url, "override", *former, *SET)
    assert (done.exit_code, present(done, f"override {former[0]}")) == (0, now)
    [stored] = stored_overrides(store).values()
    override = stored.override
    assert (override.kind, override.pool, override.nodes, override.until) == (
        kind,
        pool,
        nodes,
        NOW + timedelta(hours=2),
    )
    assert taken([*words_of(now), *SET], whole=True) is None


@pytest.mark.parametrize("arguments", [("l40s", "--all"), ()])
def test_a_former_pause_is_of_one_pool_or_of_every_pool(url: str, arguments: tuple[str, ...]) -> None:
    done = run(url, "override", "pause", *arguments, *SET)
    assert (done.exit_code, "name one pool, or give --all for every pool" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("answer", "now"),
    [
        ("approve", "approvals approve q1"),
        ("reject", "approvals reject q1"),
        ("snooze-1h", "approvals reject q1 --for 1h"),
        ("snooze-4h", "approvals reject q1 --for 4h"),
        ("snooze-today", "approvals reject q1 --for today"),
        ("snooze-tomorrow", "approvals reject q1 --for tomorrow"),
        ("pin", "approvals reject q1 --pin"),
    ],
)
def test_each_former_answer_is_given_and_its_present_command_named(
    url: str, store: MemoryStore, answer: str, now: str
) -> None:
    add_questions(store, a_question("gpu-1"))
    done = run(url, "answer", "q1", answer, "--who", "alice", "--why", "x")
    assert (done.exit_code, present(done, "answer")) == (0, now)
    assert the_question(store).answer is Answer(answer)
    assert taken([*words_of(now), "--who", "alice"], whole=True) is None


@pytest.mark.parametrize(
    ("former", "now"), [(("questions",), "approvals"), (("questions", "--all"), "approvals list --all")]
)
def test_the_former_list_of_requests_is_that_of_approvals(
    url: str, store: MemoryStore, former: tuple[str, ...], now: str
) -> None:
    add_questions(store, a_question("gpu-1"))
    done = run(url, *former)
    assert present(done, "questions") == now
    assert done.stdout == run(url, *words_of(now)).stdout
    assert done.stdout.startswith("q1: ")


def test_no_help_lists_a_former_name(url: str) -> None:
    for former in ("questions", "answer"):
        assert former not in run(url, "--help", "--all").stdout
    listed = run(url, "override", "--help").stdout.partition("Commands:")[2].split()
    assert not {"pin", "floor", "ceiling", "pause", "snooze"} & set(listed)
    assert "--smoke" not in run(url, "doctor", "--help").stdout
