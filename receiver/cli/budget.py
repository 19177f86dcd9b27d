"""`gpu-autoscaler budget`: show the month's money, set an allowance for this month, go back to the configured one."""

import os
from collections.abc import Callable
from typing import Any

import click

from receiver.adapters.clock import SystemClock
from receiver.cli import budget_text
from receiver.cli.client import as_json, print_json, print_lines, refuse, server, who_asks
from receiver.cli.completers import pool_names
from receiver.config import ConfigError, operator_token
from receiver.ports import Clock


@click.group()
def budget() -> None:
    """Show this month's budgets, or set one until the month ends.

    The server is asked that GPU_AUTOSCALER_URL names (http://127.0.0.1:8080 unless it is set); setting takes the token
    in GPU_AUTOSCALER_OPERATOR_TOKEN. The exit status is 0 if it was done, 2 for what the server refuses, a wrong
    command line or token, and 3 if the server cannot be reached.
    """


def _whose(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which budget, who and why."""
    for option in (
        click.option("--pool", metavar="NAME", shell_complete=pool_names, help="A pool's own, not the cluster's."),
        click.option("--team", metavar="NAME", help="A team's budget."),
        click.option("--account", is_flag=True, help="The whole account's budget."),
        click.option("--why", required=True, help="The reason, in one sentence; everybody will read it."),
        click.option("--who", default=who_asks, help="Who says so.", show_default="your login name"),
        as_json,
    ):
        command = option(command)
    return command


def _asked(given: dict[str, Any]) -> dict[str, str]:
    named = [(scope, given[scope]) for scope in ("pool", "team") if given[scope] is not None]
    for scope, name in named:
        if not name.strip():
            raise click.UsageError(f"--{scope} is empty: name the {scope} (is a variable unset?)")
    if len(named) + given["account"] > 1:
        raise click.UsageError("name one budget: --pool, --team or --account, or none of them for the cluster's")
    scope, name = named[0] if named else ("account" if given["account"] else "cluster", "")
    return {"scope": scope, "name": name, "who": given["who"], "why": given["why"]}


def _token() -> str:
    try:
        return operator_token(os.environ)
    except ConfigError as error:
        refuse(error)


@budget.command()
@as_json
@click.pass_obj
def show(clock: Clock | None, as_json: bool) -> None:
    """Show every budget: spent, reserved, its stage, what the month will cost, and who set it."""
    with server(as_json=as_json) as api:
        answer = api.get("budget")
    if as_json:
        print_json(answer.document)
    else:
        print_lines(budget_text.about_budgets(answer.document, answer.at, (clock or SystemClock()).now()))


@budget.command("set")
@click.argument("usd")
@_whose
def set_budget(usd: str, **given: Any) -> None:
    """Set the allowance of this month to USD; the next month has the configured one again."""
    body = {**_asked(given), "monthly_usd": usd}
    with server(as_json=given["as_json"]) as api:
        _said(api.post("budget", body=body, token=_token()).document, given["as_json"])


@budget.command()
@_whose
def reset(**given: Any) -> None:
    """Go back to the configured allowance before the month ends."""
    query = _asked(given)
    with server(as_json=given["as_json"]) as api:
        _said(api.delete("budget", query=query, token=_token()).document, given["as_json"])


def _said(document: Any, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        print_lines(budget_text.about_change(document))
