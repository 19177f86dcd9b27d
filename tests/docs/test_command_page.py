"""docs/command-line.md names every command with its arguments and options, and every exit status there is."""

import re

import click

from receiver.cli import client
from receiver.cli.main import main as program
from receiver.cli.status import COLUMNS
from tests.docs.pages import section, table, text_of
from tests.lint import none_of
from tools.command_page import ELSEWHERE, commands, filled

PAGE = text_of("docs/command-line.md")
NAMED = dict(commands())


def test_the_tables_are_those_of_the_command_line() -> None:
    assert filled(PAGE) == PAGE, "run python -m tools.command_page"


def test_every_command_of_every_group_is_in_the_table() -> None:
    told = " ".join(row[0] for row in table(section(PAGE, "Commands")))
    context = click.Context(program)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        for leaf in command.commands if isinstance(command, click.Group) else [""]:
            assert f"`{name} {leaf}".rstrip() in told


def test_every_option_of_a_command_is_in_its_row_or_on_the_pages_to_which_it_leads() -> None:
    rows = table(section(PAGE, "Commands"))
    told = {name: [row[-1] for row in rows if re.match(rf"`{re.escape(name)}(`| [^a-z])", row[0])] for name in NAMED}
    led = {name: [text_of(f"docs/{page}.md") for page in pages] for name, pages in ELSEWHERE.items()}
    options = [
        (name, option)
        for name, command in NAMED.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    ]
    assert [name for name in NAMED if len(told[name]) != 1] == []
    none_of(f"{name} {option}" for name, option in options if option not in " ".join(led.get(name, told[name])))


def test_the_exit_statuses_are_those_that_commands_end_with() -> None:
    told = {int(row[0]) for row in table(section(PAGE, "Exit statuses"))}
    assert told == {0, client.NOT_FOUND, client.UNUSABLE, client.UNREACHABLE, 4}


def test_every_column_of_status_is_explained() -> None:
    told = " ".join(row[0] for row in table(section(PAGE, "Reading status")))
    assert set(re.findall(r"`([^`]+)`", told)) == {*(title for title, _ in COLUMNS), "UTIL"}
