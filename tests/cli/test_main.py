"""The help of every command fits a terminal of 80 columns; help and version import none of the server's libraries."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from receiver.cli.main import COMMANDS, DAILY, OTHERS, main

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
def test_no_line_of_help_is_wider_than_the_terminal(name: str) -> None:
    assert [line for line in HELPS[name].splitlines() if len(line) > WIDTH] == []


def listed(*words: str) -> list[str]:
    """The commands in the help that *words* ask for."""
    said = CliRunner().invoke(main, words, terminal_width=WIDTH).stdout
    return [line.split()[0] for title in ("Commands", "More commands") for line in part(said, title)]


def test_the_help_lists_the_seven_commands_of_each_day_and_says_how_to_list_the_rest() -> None:
    assert listed("--help") == ["status", "explain", "pause", "budget", "report", "doctor", "replay"]
    assert HELPS["gpu-autoscaler"].endswith("\n`gpu-autoscaler --help --all` lists the other commands.\n")


@pytest.mark.parametrize("words", [("--help", "--all"), ("--all", "--help")])
def test_the_help_of_all_lists_every_command(words: tuple[str, ...]) -> None:
    assert listed(*words) == [*DAILY, *OTHERS]


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


# --- what is imported


HEAVY = ("alembic", "apprise", "flask", "gunicorn", "jinja2", "kubernetes", "prometheus_client", "pydantic", "requests",
         "sqlalchemy", "structlog", "yaml", "receiver.config", "receiver.core", "receiver.web")  # fmt: skip
LOADED = """\
import sys
from receiver.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code, ended.code
print("loaded:", *sorted(sys.modules))
"""


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["-h"]])
def test_help_and_version_import_none_of_the_servers_libraries(words: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, timeout=120, check=True
    )
    loaded = set(ran.stdout.rpartition("loaded:")[2].split())
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_list_says_of_each_command_what_its_own_help_says() -> None:
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    own = {name: command.get_short_help_str(limit=300) for name, command in found.items() if command is not None}
    assert own == {name: says for name, (_, says) in COMMANDS.items()}
    assert {name: command.name for name, command in found.items() if command is not None} == {n: n for n in COMMANDS}


def test_an_unknown_command_is_refused_with_one_that_may_be_meant(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["docto"])
    assert ended.value.code == 2
    assert "doctor" in capsys.readouterr().err
