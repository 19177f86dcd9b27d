"""Write the tables of commands in docs/command-line.md from the command line itself.

The rest of the page is written by hand. With ``--check`` nothing is written, and the exit status is 1 when the page
would change.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from receiver.cli.main import main as program
from tools.written_page import keep

PAGE = Path(__file__).resolve().parents[1] / "docs" / "command-line.md"
WRITTEN = re.compile(r"(?<=<!-- commands -->\n).*?(?=<!-- end of commands -->)", re.DOTALL)


def commands(group: click.Group = program, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below *group* with how it is called, groups left out, in the order of the help."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        elif command is not None:
            yield " ".join([*path, name]), command


def taken(parameter: click.Parameter, command: click.Command) -> str:
    """Return what *parameter* takes; a table has no room for bars."""
    return parameter.make_metavar(click.Context(command)).replace("|", ",")


def called(name: str, command: click.Command) -> str:
    """Return how *command* is called: its name and its arguments."""
    return " ".join([name, *(taken(p, command) for p in command.params if isinstance(p, click.Argument))])


def options(command: click.Command) -> str:
    """Return the options of *command*, each with what it takes."""
    found = []
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            names = "/".join([max(parameter.opts, key=len), *parameter.secondary_opts])
            takes = "" if parameter.is_flag else f" {taken(parameter, command)}"
            needed = "" if not parameter.required else " (needed)"
            found.append(f"`{names}{takes}`{needed}")
    return ", ".join(found) or "none"


def filled(page: str) -> str:
    """Return *page* with the table as the command line is now."""
    rows = ["", "| behind `gpu-autoscaler` | what it does | options |", "|---|---|---|"]
    for name, command in commands():
        rows.append(f"| `{called(name, command)}` | {command.get_short_help_str(limit=300)} | {options(command)} |")
    return WRITTEN.sub(lambda _: "\n".join([*rows, "", ""]), page)


if __name__ == "__main__":
    sys.exit(keep(PAGE, filled, "the command line"))
