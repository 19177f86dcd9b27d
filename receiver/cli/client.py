"""What the commands share: asking the server, where what goes wrong ends a command with its exit status and a remedy;
printing; durations."""

import getpass
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn

import click

from receiver.adapters.http.own_api import NotThereError, RefusedError, ServerApi
from receiver.config import ConfigError, operator_token, reading_token, server_url
from receiver.config.document import parse
from receiver.config.values import Duration, Wrong
from receiver.core.model.text import OBEYED
from receiver.ports import TryLater
from receiver.reports.screen import listed, printable

NOT_FOUND = 1
UNUSABLE = 2  # the exit status for a configuration that cannot be used, as for a wrong command line
UNREACHABLE = 3
PORT_FORWARD = "kubectl port-forward -n gpu-autoscaler svc/gpu-autoscaler 8080:8080"

NEVER = "none"

as_json = click.option("--json", "as_json", is_flag=True, help="Print what the server answered, as JSON.")


def refuse(error: ConfigError) -> NoReturn:
    """List every mistake on standard error and exit."""
    count = len(error.mistakes)
    click.echo(f"cannot be used: {count} mistake{'s' if count != 1 else ''}", err=True)
    for mistake in error.mistakes:
        click.echo(f"  {mistake}", err=True)
    sys.exit(UNUSABLE)


@contextmanager
def server(*, as_json: bool) -> Iterator[ServerApi]:
    """The server to ask, until it has answered."""
    try:
        found = ServerApi(server_url(os.environ), reader=reading_token(os.environ))
    except ConfigError as error:
        refuse(error)
    try:
        yield found
    except (NotThereError, RefusedError) as error:
        if as_json:
            print_json(error.document)
        else:
            print_lines(about_problem(error.document), err=True)
        sys.exit(NOT_FOUND if isinstance(error, NotThereError) else UNUSABLE)
    except TryLater as error:
        click.echo(f"cannot reach the server at {found.shown}: {error}", err=True)
        if not error.code.startswith("http_"):  # it did answer, and said itself what helps
            click.echo(
                f"what to do: set GPU_AUTOSCALER_URL to where it listens, perhaps after `{PORT_FORWARD}`", err=True
            )
        sys.exit(UNREACHABLE)
    finally:
        found.close()


def about_problem(document: Mapping[str, Any]) -> Iterator[str]:
    """Lines on something that the server does not have, from its 404."""
    yield str(document.get("error"))
    yield from listed("known: ", [str(line) for line in document.get("history") or ()])
    yield from listed("it can mean: ", [str(m) for m in document.get("can_mean") or ()])
    yield f"what to do: {document.get('remedy')}"


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print *lines*, on standard error if *err*. What others wrote must not move a terminal's cursor or colour it."""
    for line in lines:
        click.echo(printable(line), err=err)


def show(as_json: bool, document: Any, lines: Iterable[str]) -> None:
    """Print *document* for programs, or *lines* for people."""
    if as_json:
        print_json(document)
    else:
        print_lines(lines)


def print_json(document: Any) -> None:
    """Print *document* as indented JSON; what a terminal would obey is escaped."""
    written = json.dumps(document, indent=2, ensure_ascii=False)
    click.echo("\n".join(OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in written.split("\n")))


def acting_token() -> str:
    """Return the operator's token; without a usable one list what is wrong and exit."""
    try:
        return operator_token(os.environ)
    except ConfigError as error:
        refuse(error)


def who_asks() -> str:
    """The login name; empty where the machine has none for us."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


class DurationType(click.ParamType[timedelta | None]):
    """A length of time as the configuration takes it; *never* adds the word none, for what there is not."""

    name = "duration"

    def __init__(self, *, never: bool = False) -> None:
        self._never = never

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | None:
        """Return the length, None for none; fail with the remedy."""
        if value is None or isinstance(value, timedelta) or (self._never and value == NEVER):
            return value if isinstance(value, timedelta) else None
        try:
            length: timedelta = parse(Duration, value)
        except Wrong as error:
            self.fail(f"{error}; {error.remedy}" + (f", or {NEVER}" if self._never else ""), param, ctx)
        return length
