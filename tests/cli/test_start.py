"""What a command imports before it does anything: help and version must not wait for the server's libraries."""

import subprocess
import sys

import click
import pytest

from receiver.cli.main import COMMANDS, main

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
