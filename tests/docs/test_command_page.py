"""docs/command-line.md names every command with its arguments and options, and every exit status there is."""

import re

import click
import pytest

from receiver.cli.replay import TimingOption
from receiver.cli.status import COLUMNS
from receiver.terminal import client
from tests.docs.pages import section, table, text_of
from tests.lint import none_of
from tools.command_page import ELSEWHERE, commands

PAGE = text_of("docs/command-line.md")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_pages_to_which_a_row_leads_have_every_option_of_its_command(name: str) -> None:
    pages = "".join(text_of(f"docs/{page}.md") for page in ELSEWHERE[name])
    parameters = [parameter for parameter in dict(commands())[name].params if isinstance(parameter, click.Option)]
    words = {f"`{p.key}" if isinstance(p, TimingOption) else p.opts[0] for p in parameters}
    none_of(word for word in words if word not in pages)


def test_the_exit_statuses_are_those_that_commands_end_with() -> None:
    told = {int(row[0]) for row in table(section(PAGE, "Exit statuses"))}
    assert told == {0, client.NOT_FOUND, client.UNUSABLE, client.UNREACHABLE, 4}


def test_every_column_of_status_is_explained() -> None:
    told = " ".join(row[0] for row in table(section(PAGE, "Reading status")))
    assert set(re.findall(r"`([^`]+)`", told)) == {*(title for title, _ in COLUMNS), "UTIL"}
