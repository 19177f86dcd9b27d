"""Commands that read, asked of a server that wants a token for it."""

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from tests.clocks import FixedClock
from tests.web.builders import NOW, OPERATOR, READER, TOKEN

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
