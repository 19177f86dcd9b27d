"""Commands that read, asked of a server that wants a token for it; and what the shell offers behind TAB."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from receiver.cli.completion import VARIABLE
from receiver.cli.main import main
from receiver.ports import TryLater
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.clocks import FixedClock
from tests.web.builders import NOW, OPERATOR, READER, TOKEN, Bench
from tests.web.override_form import a_stored_override
from tests.web.stores import add_overrides

COMMANDS = [
    ("override", "list"),
    ("budget", "show"),
    ("explain", "pool", "l40s"),
    ("explain", "pod", "research/train-llm-2"),
]


def asked(url: str, *arguments: str, **tokens: str) -> Result:
    none = {"GPU_AUTOSCALER_READER_TOKEN": None, "GPU_AUTOSCALER_OPERATOR_TOKEN": None}
    env = {"GPU_AUTOSCALER_URL": url, **none, **{f"GPU_AUTOSCALER_{k}_TOKEN": v for k, v in tokens.items()}}
    return CliRunner(env=env).invoke(main, arguments, obj=FixedClock(NOW))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "tokens", [{"READER": READER}, {"OPERATOR": OPERATOR}, {"READER": READER, "OPERATOR": "x" * 20}]
)
def test_what_reads_sends_the_readers_token_else_the_operators(
    closed_url: str, command: tuple[str, ...], tokens: dict[str, str]
) -> None:
    done = asked(closed_url, *command, **tokens)
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_token_the_command_says_which_variable_to_set(closed_url: str, command: tuple[str, ...]) -> None:
    done = asked(closed_url, *command)
    assert done.exit_code == 2
    assert "the Authorization header is missing" in done.stderr
    assert "GPU_AUTOSCALER_READER_TOKEN or GPU_AUTOSCALER_OPERATOR_TOKEN" in done.stderr


def test_a_wrong_token_is_refused_and_not_repeated(closed_url: str) -> None:
    done = asked(closed_url, "override", "list", READER=TOKEN)
    assert done.exit_code == 2
    assert "the bearer token is not the one this server knows" in done.stderr
    assert TOKEN not in done.output + done.stderr


def test_a_token_of_two_words_is_refused_before_anybody_is_asked(closed_url: str) -> None:
    done = asked(closed_url, "override", "list", READER="two words")
    assert (done.exit_code, "GPU_AUTOSCALER_READER_TOKEN: contains spaces" in done.stderr) == (2, True)
    assert done.stderr.splitlines()[-1].startswith("to check again: gpu-autoscaler ")


def test_an_open_server_is_read_without_a_token(url: str) -> None:
    assert asked(url, "override", "list").exit_code == 0


# --- completion in a shell


def offered(url: str | None, *words: str) -> list[str]:
    """What bash would offer for the last of *words*."""
    line = " ".join(["gpu-autoscaler", *words])
    env = {"GPU_AUTOSCALER_URL": url, VARIABLE: "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    done = CliRunner(env=env).invoke(main, prog_name="gpu-autoscaler")
    assert done.stderr == ""
    return [reply.partition(",")[2] for reply in done.stdout.splitlines() if reply]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"{VARIABLE}={shell}_complete" in done.stdout


def test_another_shell_is_refused_with_those_there_are() -> None:
    done = CliRunner().invoke(main, ["completion", "tcsh"])
    assert done.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr


def test_bash_takes_the_script_and_calls_the_program_with_it(tmp_path: Path, url: str) -> None:
    program = tmp_path / "gpu-autoscaler"
    call = "from receiver.cli.main import main; main(prog_name='gpu-autoscaler')"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{call}" "$@"\n')
    program.chmod(0o755)
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout
    asks = "COMP_WORDS=(gpu-autoscaler explain l4); COMP_CWORD=2; _gpu_autoscaler_completion gpu-autoscaler"
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f'{script}\n{asks}; echo "${{COMPREPLY[@]}}"'],
        env={**os.environ, "PATH": path, "GPU_AUTOSCALER_URL": url, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["l40s"]


def test_explain_offers_its_commands_and_the_pools(url: str) -> None:
    assert set(offered(url, "explain", "")) == {"decision", "node", "pod", "pool", "l40s", "a100"}
    assert offered(url, "explain", "a1") == ["a100"]


def test_pools_pods_and_decisions_are_offered_where_they_are_named(url: str) -> None:
    assert offered(url, "explain", "pool", "l") == ["l40s"]
    assert offered(url, "override", "set", "a") == ["a100"]
    assert offered(url, "budget", "set", "--pool", "l") == ["l40s"]
    assert offered(url, "explain", "pod", "research/tr") == ["research/train-llm-2"]
    assert offered(url, "explain", "decision", "4") == ["42", "41"]
    assert offered(url, "pause", "a") == ["a100"]


def test_overrides_that_may_be_ended_are_offered(url: str, store: MemoryStore) -> None:
    found = a_stored_override()
    add_overrides(store, found)
    assert found.override.until > NOW - timedelta(days=1)
    assert offered(url, "override", "end", found.override.id[:3]) == [found.override.id]


def test_a_server_that_does_not_answer_offers_nothing_and_says_nothing() -> None:
    assert offered(unused_url(), "override", "set", "") == []


def test_a_server_that_fails_offers_nothing_and_says_nothing(url: str, bench: Bench) -> None:
    bench.error = TryLater("disk full")
    assert offered(url, "override", "set", "") == []


def test_a_url_that_is_none_offers_nothing_and_says_nothing() -> None:
    assert offered("ftp://autoscaler", "explain", "pool", "") == []
