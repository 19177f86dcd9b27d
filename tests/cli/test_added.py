"""Commands with what capabilities add to them."""

import click
import pytest
from click.testing import CliRunner, Result

from receiver.capabilities import registry
from receiver.cli import added
from receiver.cli.added import behind, with_additions
from receiver.terminal.additions import AddedCommand, AddedOptions


@click.group()
def ask() -> None:
    """Ask."""


@ask.command()
@click.argument("name")
@click.option("--loud", is_flag=True)
def one(name: str, loud: bool) -> None:
    """Ask one."""
    click.echo(f"asked {name}{'!' if loud else ''}")


@click.command("many")
def many() -> None:
    """Ask many."""
    click.echo("asked many")


def write(copy: str | None, additions: object) -> None:
    click.echo(f"wrote {click.get_current_context().params['name']} to {copy}")


PLACES = {
    "many": many,
    "copy": AddedOptions(options=(click.Option(["--copy"]),), after="name", says="--copy writes it.", run=write),
}


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> click.Command:
    """The group with a command and an option that capabilities add."""
    monkeypatch.setattr(registry, "commands", lambda: {"ask many": AddedCommand("many", "Ask many.")})
    monkeypatch.setattr(registry, "options", lambda: {"ask one": ["copy"]})
    monkeypatch.setattr(added, "value_at", PLACES.__getitem__)
    return with_additions(ask, "ask")


def run(command: click.Command, *words: str) -> Result:
    return CliRunner().invoke(command, words)


def test_a_command_is_added_below_a_group(grown: click.Command) -> None:
    assert run(grown, "many").output == "asked many\n"
    assert run(grown, "one", "ada").output == "asked ada\n"


def test_a_command_stands_behind_the_one_that_it_names_or_at_the_end() -> None:
    assert list(behind("one", {"one": 1, "two": 2}, "new", 3)) == ["one", "new", "two"]
    assert list(behind("", {"one": 1, "two": 2}, "new", 3)) == ["one", "two", "new"]


def test_an_added_option_runs_before_the_command_and_only_when_it_is_given(grown: click.Command) -> None:
    assert run(grown, "one", "ada", "--loud", "--copy", "x").output == "wrote ada to x\nasked ada!\n"
    assert run(grown, "one", "ada", "--loud").output == "asked ada!\n"


def test_an_added_option_stands_behind_the_parameter_that_it_names(grown: click.Command) -> None:
    assert isinstance(grown, click.Group)
    assert [parameter.name for parameter in grown.commands["one"].params] == ["name", "copy", "loud"]
    assert "--copy writes it." in run(grown, "one", "--help").output


def test_the_command_itself_stays_as_it_was(grown: click.Command) -> None:
    assert run(ask, "many").exit_code == 2
    assert run(ask, "one", "ada", "--copy", "x").exit_code == 2
