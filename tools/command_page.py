"""The list of commands in docs/command-line.md, from the command line itself. The rest is written by hand."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from receiver.cli.main import main as program

PAGE = Path(__file__).resolve().parents[1] / "docs" / "command-line.md"
WRITTEN = re.compile(r"(?<=<!-- commands -->\n).*?(?=<!-- end of commands -->)", re.DOTALL)
EVERYWHERE = frozenset({"as_json", "who", "all"})  # options that the text above the table explains
ELSEWHERE = {"replay": ("replay", "replay-traces")}  # commands whose options are on other pages of docs/, by name


def commands(group: click.Group = program, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below *group* with how it is called, in the order of the help; a group that does something
    by itself goes before its commands, other groups and former names are left out."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        if not isinstance(command, click.Group) or command.params:
            yield " ".join([*path, name]), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def called(name: str, command: click.Command) -> str:
    """Return how *command* is called: its name and its arguments."""
    return " ".join([name, *(_argument(p, command) for p in command.params if isinstance(p, click.Argument))])


def _argument(argument: click.Argument, command: click.Command) -> str:
    return argument.make_metavar(click.Context(command)).replace("|", ",")  # a table has no room for bars


def options(name: str, command: click.Command) -> str:
    """Return the options of *command*, or the pages that have them."""
    if name in ELSEWHERE:
        return " and ".join(f"[{page}]({page}.md)" for page in ELSEWHERE[name])
    found = []
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden and parameter.name not in EVERYWHERE:
            names = "/".join([max(parameter.opts, key=len), *parameter.secondary_opts])
            found.append(f"`{names}`{' (required)' if parameter.required else ''}")
    return ", ".join(found)


def filled(page: str) -> str:
    """Return *page* with the list as the command line is now."""
    lines = []
    for name, command in commands():
        says = command.get_short_help_str(limit=300)
        taken = options(name, command)
        lines.append(f"- `{called(name, command)}`: {says}{f' {taken}' if taken else ''}")
    return WRITTEN.sub(lambda _: "\n".join(["", *lines, "", ""]), page)


def generated() -> dict[Path, str]:
    """Return the page as it should be."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
