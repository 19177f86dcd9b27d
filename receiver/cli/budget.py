"""`gpu-autoscaler budget`: show the month's money, set an allowance for this month, go back to the configured one."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.client import as_json, print_json, print_lines, refuse, server, who_asks
from receiver.cli.completion import pool_names
from receiver.config import ConfigError, operator_token
from receiver.core.model.text import span
from receiver.ports import Clock
from receiver.reports.screen import OLD, aligned, clock_time, moment, since, usd


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
        print_lines(about_budgets(answer.document, answer.at, (clock or SystemClock()).now()))


@budget.command("set")
@click.argument("amount", metavar="USD")
@_whose
def set_budget(amount: str, **given: Any) -> None:
    """Set the allowance of this month to USD; the next month has the configured one again."""
    body = {**_asked(given), "monthly_usd": amount}
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
        print_lines(about_change(document))


def about_budgets(document: Mapping[str, Any], at: datetime | None, now: datetime) -> Iterator[str]:
    """Lines on every budget, from GET /api/v1/budget; *at* is when the step looked."""
    if not document.get("configured"):
        yield "no budget is configured: nothing bounds the spend but max_nodes and limits"
        return
    scopes = document.get("scopes")
    if not scopes:
        yield "no step has finished yet"
        return
    yield f"budgets of {document.get('month')}, USD"
    rows = [("BUDGET", "SPENT", "RESERVED", "OF", "STAGE", "MONTH'S END")]
    rows += [_row(scope) for scope in scopes]
    yield from aligned(rows, "<>>><")
    pace = next((moment(scope["forecast_since"]) for scope in scopes if scope.get("forecast_since")), None)
    if pace is not None:
        yield f"at this rate: what runs now goes on running; trend: the pace since {clock_time(pace, None)} goes on"
    for scope in scopes:
        yield from _notes(scope)
    yield from _kept_out(document.get("kept_out") or ())
    if at is not None and now - at > OLD:
        yield f"as of {clock_time(at, None)}, {span((now - at).total_seconds())} ago: the loop may stand still"


def about_change(document: Mapping[str, Any]) -> Iterator[str]:
    """One line on what was set or taken back, from POST or DELETE /api/v1/budget."""
    whose = f"{document.get('scope')} {document.get('name')}".rstrip()
    amount = document.get("monthly_usd")
    said = f"USD {amount} in {document.get('month')}" if amount is not None else "what the configuration says again"
    yield f"budget of the {whose}: {said}; by {document.get('who')}: {document.get('why')}"


def _row(scope: Mapping[str, Any]) -> tuple[str, str, str, str, str, str]:
    return (
        str(scope.get("title")),
        "unknown" if scope.get("unknown") else usd(scope.get("spent_usd")),
        usd(scope.get("reserved_usd")),
        usd(scope.get("monthly_usd")),
        str(scope.get("stage")),
        f"{usd(scope.get('forecast_burn_usd'))} at this rate, {usd(scope.get('forecast_trend_usd'))} by the trend",
    )


def _notes(scope: Mapping[str, Any]) -> Iterator[str]:
    if scope.get("unknown"):
        yield f"{scope.get('title')}: nothing grows while its spend is unknown: {scope.get('unknown')}"
    if scope.get("unpriced"):
        yield f"{scope.get('title')}: nothing grows until these have a price: {', '.join(scope['unpriced'])}"
    if scope.get("uncounted"):
        yield f"{scope.get('title')}: not counted, because nobody gave a price: {', '.join(scope['uncounted'])}"
    change = scope.get("set_by")
    if change:
        yield f"{scope.get('title')}: set for this month by {change.get('who')}: {change.get('why')}"


def _kept_out(places: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Where the budget hold keeps new GPU work out now."""
    for kept in places:
        yield f"new GPU work is kept out of {kept.get('place')} {since(kept.get('since'), None)}"
