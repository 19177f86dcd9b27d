"""What the commands share: calls of the server, exit statuses, printing, durations, and completion in a shell."""

import getpass
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn

import click

from receiver.adapters.http.own_api import NotThereError, RefusedError, ServerApi
from receiver.adapters.http.sessions import quick_session
from receiver.config import ConfigError, operator_token, reading_token, server_url
from receiver.config.values import Duration, Mistake, Wrong, parse
from receiver.core.model.text import OBEYED
from receiver.ports import TryLater
from receiver.reports.screen import listed, printable
from receiver.terminal import PROGRAM

NOT_FOUND = 1
UNUSABLE = 2  # the exit status for a configuration that cannot be used, as for a wrong command line
UNREACHABLE = 3
LOG = "kubectl logs -n gpu-autoscaler deploy/gpu-autoscaler"
PORT_FORWARD = "kubectl port-forward -n gpu-autoscaler svc/gpu-autoscaler 8080:8080"
NEVER = "none"
ASKED = "receiver.terminal.asked"  # in the context's meta: the server that was asked
COMPLETION_SECONDS = 1.0  # a person has pressed a key and waits

as_json = click.option("--json", "as_json", is_flag=True, help="Print the server's answer as JSON.")


def refuse(error: ConfigError, again: str = "") -> NoReturn:
    """List every mistake on standard error and exit. The command to run *again* is the present one unless given."""
    count = len(error.mistakes)
    click.echo(f"invalid configuration: {count} mistake{'s' if count != 1 else ''}", err=True)
    for mistake in error.mistakes:
        click.echo(f"  {mistake}", err=True)
    click.echo(f"to check again: {again or present_command()}", err=True)
    sys.exit(UNUSABLE)


def present_command() -> str:
    """Return the command that runs, without its arguments: ``gpu-autoscaler budget set``."""
    context, names = click.get_current_context(), []
    while context.parent is not None:
        names.append(context.info_name or "")
        context = context.parent
    return " ".join([PROGRAM, *reversed(names)])


@contextmanager
def server(*, as_json: bool) -> Iterator[ServerApi]:
    """Yield the server; if it cannot answer, print why and exit."""
    try:
        api = ServerApi(server_url(os.environ), reader=reading_token(os.environ))
    except ConfigError as error:
        refuse(error)
    click.get_current_context().meta[ASKED] = api
    try:
        yield api
    except (NotThereError, RefusedError) as error:
        tell_problem(error, as_json=as_json)
        sys.exit(NOT_FOUND if isinstance(error, NotThereError) else UNUSABLE)
    except TryLater as error:
        click.echo(f"cannot reach the server at {api.shown}: {error}", err=True)
        listens = f"set GPU_AUTOSCALER_URL to its address; for a server in a cluster, first run `{PORT_FORWARD}`"
        answered = error.code.startswith("http_")
        click.echo(f"what to do: {f'read its log with `{LOG}`' if answered else listens}", err=True)
        sys.exit(UNREACHABLE)
    finally:
        api.close()


def tell_problem(error: NotThereError | RefusedError, *, as_json: bool) -> None:
    """Print the server's answer to a request for something that is missing or refused."""
    document = error.document
    if as_json:
        print_json(document)
        return
    lines = [
        str(document.get("error")),
        *listed("earlier decisions: ", [str(line) for line in document.get("history") or ()]),
        *listed("possible reasons: ", [str(m) for m in document.get("can_mean") or ()]),
        f"what to do: {document.get('remedy')}",
    ]
    print_lines(lines, err=True)


def mistakes_of(document: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes of a configuration that the server refused with *document*, none for another refusal."""
    entries = document.get("mistakes") or ()
    return [Mistake(path=m.get("field", ""), problem=m.get("problem", ""), remedy=m.get("remedy", "")) for m in entries]


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print *lines*, on standard error if *err*. What others wrote must not move a terminal's cursor or colour it."""
    context = click.get_current_context(silent=True)
    asked: ServerApi | None = None if context is None else context.meta.get(ASKED)
    for line in map(printable, lines):
        click.echo(line if asked is None or context is None else asked.as_read(line, context.obj.now()), err=err)


def show(as_json: bool, document: object, lines: Iterable[str]) -> None:
    """Print *document* for programs, or *lines* for people."""
    if as_json:
        print_json(document)
    else:
        print_lines(lines)


def print_json(document: object) -> None:
    """Print *document* as indented JSON; what a terminal would obey is escaped."""
    written = json.dumps(document, indent=2, ensure_ascii=False)
    click.echo("\n".join(OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", line) for line in written.split("\n")))


def acting_token() -> str:
    """Return the operator's token; without a usable one list what is wrong and exit."""
    try:
        return operator_token(os.environ)
    except ConfigError as error:
        refuse(error)


def tell_renamed(former: str, present: str, more: str = "") -> None:
    """Name the *present* form of the *former* command, and what *more* is to know, on standard error."""
    now = f"`{PROGRAM} {former}` is now `{PROGRAM} {present}`{more}"
    click.echo(f"{now}; the former name goes with the next release", err=True)


def login_name() -> str | None:
    """Return the login name, None without one, as in the image."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def options(*decorators: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that adds the options of *decorators* to a command, in the order of its help."""

    def add(command: object) -> object:
        for option in reversed(decorators):
            command = option(command)
        return command

    return add


def option_who(does: str, *, needed: bool = True) -> Callable[..., Any]:
    """Return the option that names the person who *does* something; empty without a name unless it is *needed*."""

    def named(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str:
        if value is None and needed:
            raise click.UsageError("your login has no name here: add --who and your name, such as --who alice")
        return value or ""

    return click.option(
        "--who", default=login_name, callback=named, help=f"Who {does}.", show_default="your login name"
    )


class DurationType(click.ParamType[timedelta | None]):
    """A length of time as the configuration takes it; *never* adds the word none."""

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


def completion(path: str, name: Callable[[Mapping[str, Any]], str]) -> Callable[..., list[str]]:
    """Return what completes with the names in ``/api/v1/PATH``; with none while the server does not answer at once."""

    def complete(_ctx: click.Context | None, _param: click.Parameter | None, incomplete: str) -> list[str]:
        session = quick_session(repeats=0)
        try:
            api = ServerApi(server_url(os.environ), COMPLETION_SECONDS, session, reader=reading_token(os.environ))
            names = [name(entry) for entry in api.get_list(path)]
        except (ConfigError, NotThereError, RefusedError, TryLater):
            return []
        finally:
            session.close()
        return [candidate for candidate in names if candidate.startswith(incomplete)]

    return complete


pool_names = completion("pools", lambda pool: str(pool.get("name")))
waiting_pods = completion("waiting", lambda pod: f"{pod.get('namespace')}/{pod.get('name')}")
decision_numbers = completion("decisions", lambda decision: str(decision.get("id")))
override_ids = completion("overrides", lambda override: str(override.get("id")))


def explaining(pool: str | None) -> str:
    """Return the command that explains *pool* (a name), or every pool."""
    return f"gpu-autoscaler explain pool {pool}" if pool else "gpu-autoscaler status"
