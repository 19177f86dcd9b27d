"""Commands by which people intervene: `pause`, `override` and `budget`."""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import click

from receiver.adapters.http.own_api import RefusedError, ServerAnswer, ServerApi
from receiver.cli.explain import override_line
from receiver.core.model.overrides import EVERY_POOL
from receiver.core.model.text import dollars, span
from receiver.ports import Clock
from receiver.reports.screen import OLD, aligned, assumed, clock_time, printable, since
from receiver.terminal.client import (
    UNUSABLE,
    acting_token,
    as_json,
    explaining,
    option_who,
    options,
    override_ids,
    pool_names,
    server,
    show,
)
from receiver.web.api.documents import BudgetChangeDocument, BudgetDocument, OverrideDocument

WHY = click.option("--why", required=True, help="The reason, shown to everyone.")
PAUSE_LENGTH = "2h"  # of `pause` without --for and --until
SIZES = (("minimum", "floor"), ("maximum", "ceiling"), ("exactly", "pin"))  # the number's parameter, the kind it sets


@click.group()
def override() -> None:
    """Override the policy of a pool for a while.

    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080), with the token in
    GPU_AUTOSCALER_OPERATOR_TOKEN. The exit status is 0 on success, 1 if there is no such override, 2 for
    a refused change, a wrong command line or token, and 3 if the server cannot be reached.
    """


common = options(
    as_json,
    option_who("sets it"),
    WHY,
    click.option("--until", metavar="TIME", help="End time instead of --for: 2026-11-21T18:00:00Z."),
    click.option("--for", "length", metavar="DURATION", help='How long: 2h, "90 min", "until 09:00".'),
)


def send_override(kind: str, pool: str, nodes: int | None, arguments: dict[str, Any]) -> None:
    """Set an override of *pool* (a name, `EVERY_POOL` for every pool) and print it."""
    if not pool.strip():
        raise click.UsageError("POOL is empty: name the pool (is a variable unset?)")
    required = {"kind": kind, "pool": pool, "why": arguments["why"], "who": arguments["who"]}
    optional = {"nodes": nodes, "for": arguments["length"], "until": arguments["until"]}
    body = {**required, **{key: value for key, value in optional.items() if value is not None}}
    with server(as_json=arguments["as_json"]) as api:
        answer = api.post("overrides", body=body, token=acting_token())
    show(arguments["as_json"], answer.document, about_override(OverrideDocument.model_validate(answer.document)))


@click.command()
@click.argument("pool", required=False, shell_complete=pool_names)
@common
def pause(pool: str | None, **arguments: Any) -> None:
    """Change nothing in POOL, or in any pool.

    A pause lasts 2h unless --for or --until is given. At a budget's limit empty nodes are removed despite it. To end it
    earlier: `gpu-autoscaler override end ID`. The exit status is 0 on success, 2 for a refused change, a wrong command
    line or token, and 3 if the server cannot be reached.
    """
    if arguments["length"] is None and arguments["until"] is None:
        arguments["length"] = PAUSE_LENGTH
    send_override("pause", EVERY_POOL if pool is None else pool, None, arguments)


@override.command("set")
@click.argument("pool", required=False, shell_complete=pool_names)
@click.option("--min", "minimum", metavar="NODES", type=int, help="At least NODES, whatever the windows say.")
@click.option("--max", "maximum", metavar="NODES", type=int, help="At most NODES; idle surplus goes now.")
@click.option("--exactly", metavar="NODES", type=int, help="Exactly NODES.")
@click.option("--keep", is_flag=True, help="Remove no node, except dead ones.")
@click.option("--all", "every_pool", is_flag=True, help="With --keep: every pool.")
@common
def set_override(pool: str | None, keep: bool, every_pool: bool, **arguments: Any) -> None:
    """Set a size of POOL, or keep its nodes."""
    sizes = [(kind, arguments[name]) for name, kind in SIZES if arguments[name] is not None]
    if len(sizes) + keep != 1:
        raise click.UsageError("give one of --min, --max, --exactly and --keep")
    if (pool is None) is not every_pool:
        raise click.UsageError("name one pool, or give --all with --keep for every pool")
    if every_pool and not keep:
        raise click.UsageError("--all needs --keep: a size is of one pool")
    kind, nodes = ("snooze", None) if keep else sizes[0]
    send_override(kind, EVERY_POOL if pool is None else pool, nodes, arguments)


@override.command("list")
@as_json
@click.pass_obj
def list_overrides(clock: Clock, as_json: bool) -> None:
    """List what is in force."""
    with server(as_json=as_json) as api:
        documents = api.get_list("overrides")
    lines = []
    for override in map(OverrideDocument.model_validate, documents):
        ends, now = override.until, clock.now()
        time_left = f" (in {span((ends - now).total_seconds())})" if ends is not None and ends > now else ""
        start_note = "" if override.in_force else ", not in force yet"
        lines.append(f"{override.id}: {override_line(override)}{time_left}{start_note}")
    show(as_json, documents, lines or ["no override is in force"])


@override.command("end")
@click.argument("number", metavar="ID", shell_complete=override_ids)
@option_who("ends it", needed=False)
@as_json
def end_override(number: str, who: str, as_json: bool) -> None:
    """End the override ID before its time."""
    with server(as_json=as_json) as api:
        answer = api.delete("overrides", number, query={"who": who}, token=acting_token())
    show(as_json, answer.document, about_override(OverrideDocument.model_validate(answer.document)))


def about_override(override: OverrideDocument) -> Iterator[str]:
    """Lines on one override that was set or ended."""
    yield f"{override.id}: {override_line(override)}"
    if override.ended_at is not None:
        yield f"ended by {override.ended_by}; the configured policy applies again from the next step"
    else:
        yield f"the next step acts on it; see `{explaining(override.pool_name)}`"
        yield f"to end it earlier: gpu-autoscaler override end {override.id}"


@click.group(invoke_without_command=True)
@click.pass_context
def budget(ctx: click.Context) -> None:
    """Show this month's budgets, or set one until the month ends.

    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080). Changes need the token in
    GPU_AUTOSCALER_OPERATOR_TOKEN. The exit status is 0 on success, 2 for a refused change, a wrong command line or
    token, and 3 if the server cannot be reached.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show_budgets)


_whose = options(
    as_json,
    option_who("sets it"),
    WHY,
    click.option("--account", is_flag=True, help="The whole account's budget."),
    click.option("--team", metavar="NAME", help="A team's budget."),
    click.option("--pool", metavar="NAME", shell_complete=pool_names, help="A pool's budget."),
    click.option("--yes", is_flag=True, help="Do not ask, even if growth stops and nodes are cordoned."),
)


def _asked(arguments: dict[str, Any]) -> dict[str, str]:
    """Return the request for the budget that *arguments* name."""
    named = [(scope, arguments[scope]) for scope in ("pool", "team") if arguments[scope] is not None]
    for scope, name in named:
        if not name.strip():
            raise click.UsageError(f"--{scope} is empty: name the {scope} (is a variable unset?)")
    if len(named) + arguments["account"] > 1:
        raise click.UsageError("name one budget: --pool, --team or --account, or none of them for the cluster's")
    scope, name = named[0] if named else ("account" if arguments["account"] else "cluster", "")
    return {"scope": scope, "name": name, "who": arguments["who"], "why": arguments["why"]}


@budget.command("show")
@as_json
@click.pass_obj
def show_budgets(clock: Clock, as_json: bool) -> None:
    """Show every budget: spent, stage, forecast and who set it."""
    with server(as_json=as_json) as api:
        answer = api.get("budget")
    show(
        as_json, answer.document, about_budgets(BudgetDocument.model_validate(answer.document), answer.at, clock.now())
    )


@budget.command("set")
@click.argument("amount", metavar="USD")
@_whose
def set_budget(amount: str, **arguments: object) -> None:
    """Set this month's budget to USD; later months stay as configured."""
    body, token = {**_asked(arguments), "monthly_usd": amount}, acting_token()

    def send(api: ServerApi, *, confirmed: bool) -> ServerAnswer:
        # An older server does not know the field.
        return api.post("budget", body={**body, **({"confirm": True} if confirmed else {})}, token=token)

    _change(send, arguments)


@budget.command()
@_whose
def reset(**arguments: object) -> None:
    """Restore the configured budget."""
    query, token = _asked(arguments), acting_token()

    def send(api: ServerApi, *, confirmed: bool) -> ServerAnswer:
        return api.delete("budget", query={**query, **({"confirm": "true"} if confirmed else {})}, token=token)

    _change(send, arguments)


def _change(send: Callable[..., ServerAnswer], arguments: dict[str, Any]) -> None:
    """Change a budget, and ask the person at a terminal first if the server says that this stops something."""
    with server(as_json=arguments["as_json"]) as api:
        try:
            answer = send(api, confirmed=False)
        except RefusedError as refused:
            if refused.document.get("field") != "confirm":
                raise
            if not arguments["yes"]:
                if not at_a_terminal():
                    raise
                if not click.confirm(printable(f"{refused.document['error']}. Continue?"), err=True):
                    click.echo("nothing was changed", err=True)
                    sys.exit(UNUSABLE)
            answer = send(api, confirmed=True)
        _show_change(answer.document, arguments["as_json"])


def at_a_terminal() -> bool:
    return sys.stdin.isatty()


def _show_change(document: object, as_json: bool) -> None:
    change = BudgetChangeDocument.model_validate(document)
    is_set = change.monthly_usd is not None
    now = f"{dollars(change.monthly_usd)} in {change.month}" if is_set else "as configured again"
    budget_name = f"{change.scope} {change.name}".rstrip()
    show(as_json, document, [f"budget of the {budget_name}: {now}; by {change.who}: {change.why}"])


def about_budgets(budgets: BudgetDocument, at: datetime | None, now: datetime) -> Iterator[str]:
    """Lines on every budget; *at* is when the step looked."""
    if not budgets.configured:
        yield "no budget is configured: only max_nodes and limits bound the spend"
        return
    if not budgets.scopes:
        yield "no step has finished yet"
        return
    yield f"budgets of {budgets.month}"
    rows = [("BUDGET", "SPENT", "RESERVED", "OF", "STAGE", "FORECAST", "AN HOUR")]
    for scope in budgets.scopes:
        spent = "unknown" if scope.unknown else dollars(scope.spent_usd)
        ahead = (dollars(scope.forecast_usd), dollars(scope.burn_usd_per_hour))
        amounts = (spent, dollars(scope.reserved_usd), dollars(scope.monthly_usd))
        rows.append((scope.title, *amounts, str(scope.stage), *ahead))
    yield from aligned(rows, "<>>><>>")
    if pace := assumed([scope.document() for scope in budgets.scopes]):
        yield pace
    for scope in budgets.scopes:
        if scope.unknown:
            yield f"{scope.title}: no growth while its spend is unknown: {scope.unknown}"
        if scope.unpriced:
            yield f"{scope.title}: no growth until these have a price: {', '.join(scope.unpriced)}"
        if scope.uncounted:
            yield f"{scope.title}: not counted, because they have no price: {', '.join(scope.uncounted)}"
        if scope.set_by is not None:
            yield f"{scope.title}: set for this month by {scope.set_by.who}: {scope.set_by.why}"
    for hold in budgets.kept_out or ():
        yield f"new GPU pods have been blocked in {hold.place} {since(hold.since, None)}"
    if at is not None and now - at > OLD:
        yield f"as of {clock_time(at, None)}, {span((now - at).total_seconds())} ago: the loop may be stalled"
