"""Every name of the first command line works, or names what takes its place: `first_names.txt` lists them."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from receiver.cli.main import main

LISTED = (Path(__file__).parent / "first_names.txt").read_text(encoding="utf-8").splitlines()
NAMES = {command: words.split() for command, _, words in (line.partition(":") for line in LISTED if line[0] != "#")}
NEEDS_SMOKE = {"--pool": "x", "--namespace": "y", "--timeout": "5m"}  # options of doctor that did nothing alone
VALUES = {"duration": "1s", "integer": "1", "integer range": "1", "float range": "0.1", "datetime": "2026-01-01"}


def command_of(words: str) -> click.Command:
    """The command that is typed as *words*."""
    command: click.Command | None = main
    for word in words.split():
        assert isinstance(command, click.Group), words
        command = command.get_command(click.Context(command), word)
    assert command is not None, f"there is no command {words}"
    return command


def options_of(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from ((name, parameter) for name in (*parameter.opts, *parameter.secondary_opts))


FORMER = [(words, name) for words in NAMES for name, option in options_of(command_of(words)) if option.hidden]


def value_of(option: click.Option) -> list[str]:
    """Something that *option* takes."""
    if option.is_flag:
        return []
    return [option.type.choices[0] if isinstance(option.type, click.Choice) else VALUES.get(option.type.name, "x")]


def test_the_list_is_that_of_24_commands() -> None:
    assert (len(NAMES), sum(map(len, NAMES.values()))) == (24, 111)  # two options have two names each


@pytest.mark.parametrize("words", NAMES)
def test_each_first_command_takes_each_of_its_options(words: str) -> None:
    known = dict(options_of(command_of(words)))
    assert not [name for name in NAMES[words] if name not in known]


@pytest.mark.parametrize("words", [words for words in NAMES if command_of(words).hidden])
def test_the_help_of_a_former_command_names_the_present_one(words: str) -> None:
    assert "; now `" in " ".join((command_of(words).help or "").split())


@pytest.mark.parametrize(("words", "name"), FORMER)
def test_a_former_option_names_what_takes_its_place(words: str, name: str) -> None:
    option = dict(options_of(command_of(words)))[name]
    typed = [*words.split(), name, *value_of(option)]
    if name == "--yes":
        typed.append("--smoke")
    elif name in NEEDS_SMOKE and words == "doctor":
        typed[-1] = NEEDS_SMOKE[name]
    stderr = CliRunner(env={"GPU_AUTOSCALER_CONFIG": "", "CIVO_API_KEY": ""}).invoke(main, typed).stderr
    assert "` is now `gpu-autoscaler " in stderr or "would have no effect without `doctor smoke`" in stderr


def test_the_former_options_are_those_of_a_purchase_an_undo_and_of_assumptions() -> None:
    by_command = {words: {name for command, name in FORMER if command == words} for words, _ in FORMER}
    assert by_command["doctor"] == {"--smoke", "--pool", "--namespace", "--timeout", "--release", "--yes"}
    listed = "trace decision config compare billing prometheus since json html"
    assert set(NAMES["replay"]) - by_command["replay"] == {f"--{name}" for name in listed.split()}
    assert set(by_command) == {"doctor", "replay"}
