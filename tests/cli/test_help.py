"""The help of every command fits a terminal of 80 columns, each command and option on one line."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from receiver.cli.main import main

WIDTH = 80


def helps(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The help of *command* and of all below it, by name, as on a terminal of WIDTH columns."""
    asked = CliRunner().invoke(main, [*path, "--help"], prog_name="gpu-autoscaler", terminal_width=WIDTH - 2)
    said = asked.stdout  # click leaves two columns free on a terminal, and none in its own runner
    yield " ".join(["gpu-autoscaler", *path]), said
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from helps(below, (*path, name))


HELPS = dict(helps())


def part(said: str, title: str) -> list[str]:
    """The lines below *title* in a help."""
    return said.partition(f"\n{title}:\n")[2].partition("\n\n")[0].splitlines()


def test_every_command_is_looked_at() -> None:
    assert {"gpu-autoscaler replay", "gpu-autoscaler budget set", "gpu-autoscaler explain pod"} <= set(HELPS)


@pytest.mark.parametrize("name", HELPS)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    assert [line for line in HELPS[name].splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("name", HELPS)
def test_each_option_has_one_line(name: str) -> None:
    options = part(HELPS[name], "Options")
    assert "-h, --help" in options[-1]
    assert [line for line in options if not line.startswith("  -")] == []


@pytest.mark.parametrize("name", HELPS)
def test_what_a_command_does_is_one_line_there_and_uncut_in_the_list_above_it(name: str) -> None:
    does = HELPS[name].split("\n\n")[1]
    assert len(does.splitlines()) == 1
    assert [line for line in part(HELPS[name], "Commands") if line.endswith("...") or line.startswith("   ")] == []
