"""`gpu-autoscaler budget`: show the month's money, set an allowance for this month, go back to the configured one."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.client import acting_token, as_json, server, show, who_asks
from receiver.cli.completion import pool_names
from receiver.core.model.text import span
from receiver.ports import Clock
from receiver.reports.picture import ScopedBudget
from receiver.reports.screen import OLD, aligned, clock_time, since, usd
from receiver.web.api.documents import BudgetChangeDocument, BudgetDocument


@click.group()
def budget() -> None:
    """Show this month's budgets, or set one until the month ends.

    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080); setting takes the token
    in GPU_AUTOSCALER_OPERATOR_TOKEN. The exit status is 0 if it was done, 2 for what the server refuses, a wrong
    command line or token, and 3 if the server cannot be reached.
    """


def _whose(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which budget, who and why."""
    for option in (
        click.option("--pool", metavar="NAME", shell_complete=pool_names, help="A pool's own, not the cluster's."),
        click.option("--team", metavar="NAME", help="A team's budget."),
        click.option("--account", is_flag=True, help="The whole account's budget."),
        click.option("--why", required=True, help="The reason, in one sentence; it is shown to everyone."),
        click.option("--who", default=who_asks, help="Who sets it.", show_default="your login name"),
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


@budget.command("show")
@as_json
@click.pass_obj
def show_budgets(clock: Clock | None, as_json: bool) -> None:
    """Show every budget: spent, reserved, its stage, what the month will cost, and who set it."""
    with server(as_json=as_json) as api:
        answer = api.get("budget")
    found = BudgetDocument.model_validate(answer.document)
    show(as_json, answer.document, about_budgets(found, answer.at, (clock or SystemClock()).now()))


@budget.command("set")
@click.argument("amount", metavar="USD")
@_whose
def set_budget(amount: str, **given: Any) -> None:
    """Set the allowance of this month to USD; the next month has the configured one again."""
    body = {**_asked(given), "monthly_usd": amount}
    with server(as_json=given["as_json"]) as api:
        _said(api.post("budget", body=body, token=acting_token()).document, given["as_json"])


@budget.command()
@_whose
def reset(**given: Any) -> None:
    """Go back to the configured allowance before the month ends."""
    query = _asked(given)
    with server(as_json=given["as_json"]) as api:
        _said(api.delete("budget", query=query, token=acting_token()).document, given["as_json"])


def _said(document: Any, as_json: bool) -> None:
    show(as_json, document, about_change(BudgetChangeDocument.model_validate(document)))


def about_budgets(found: BudgetDocument, at: datetime | None, now: datetime) -> Iterator[str]:
    """Lines on every budget; *at* is when the step looked."""
    if not found.configured:
        yield "no budget is configured: only max_nodes and limits bound the spend"
        return
    if not found.scopes:
        yield "no step has finished yet"
        return
    yield f"budgets of {found.month}, USD"
    rows = [("BUDGET", "SPENT", "RESERVED", "OF", "STAGE", "MONTH'S END")]
    yield from aligned([*rows, *map(_row, found.scopes)], "<>>><")
    pace = next((scope.forecast_since for scope in found.scopes if scope.forecast_since), None)
    if pace is not None:
        yield f"at this rate: what runs now goes on running; trend: the pace since {clock_time(pace, None)} goes on"
    for scope in found.scopes:
        yield from _notes(scope)
    for kept in found.kept_out or ():
        yield f"new GPU work is kept out of {kept.place} {since(kept.since, None)}"
    if at is not None and now - at > OLD:
        yield f"as of {clock_time(at, None)}, {span((now - at).total_seconds())} ago: the loop may stand still"


def about_change(change: BudgetChangeDocument) -> Iterator[str]:
    """One line on what was set or reset."""
    usd_now = change.document()["monthly_usd"]
    said = f"USD {usd_now} in {change.month}" if usd_now is not None else "what the configuration says again"
    yield f"budget of the {f'{change.scope} {change.name}'.rstrip()}: {said}; by {change.who}: {change.why}"


def _row(scope: ScopedBudget) -> tuple[str, ...]:
    return (
        scope.title,
        "unknown" if scope.unknown else usd(scope.spent_usd),
        usd(scope.reserved_usd),
        usd(scope.monthly_usd),
        str(scope.stage),
        f"{usd(scope.forecast_burn_usd)} at this rate, {usd(scope.forecast_trend_usd)} by the trend",
    )


def _notes(scope: ScopedBudget) -> Iterator[str]:
    if scope.unknown:
        yield f"{scope.title}: nothing grows while its spend is unknown: {scope.unknown}"
    if scope.unpriced:
        yield f"{scope.title}: nothing grows until these have a price: {', '.join(scope.unpriced)}"
    if scope.uncounted:
        yield f"{scope.title}: not counted, for lack of a price: {', '.join(scope.uncounted)}"
    if scope.set_by is not None:
        yield f"{scope.title}: set for this month by {scope.set_by.who}: {scope.set_by.why}"
