"""`gpu-autoscaler override`: pin, floor, ceiling, pause and snooze for a while; list and end them."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.client import acting_token, as_json, server, show, who_asks
from receiver.cli.completion import override_ids, pool_names
from receiver.cli.explain_text import override_line
from receiver.core.model.overrides import EVERY_POOL
from receiver.core.model.text import span
from receiver.ports import Clock
from receiver.web.api.documents import OverrideDocument


@click.group()
def override() -> None:
    """Override policy for a while: pin, floor, ceiling, pause, snooze.

    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080), with the token in
    GPU_AUTOSCALER_OPERATOR_TOKEN. The exit status is 0 if it was done, 1 if there is no such override, 2 for what
    the server refuses, a wrong command line or token, and 3 if the server cannot be reached.
    """


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that sets one."""
    for option in (
        click.option("--for", "length", metavar="DURATION", help="How long, such as 30m, 2h or 3d."),
        click.option("--until", metavar="TIME", help="Until when instead, such as 2026-11-21T18:00:00Z."),
        click.option("--why", required=True, help="The reason, in one sentence; it is shown to everyone."),
        click.option("--who", default=who_asks, help="Who sets it.", show_default="your login name"),
        as_json,
    ):
        command = option(command)
    return command


every_pool = click.option("--all", "every_pool", is_flag=True, help="Every pool.")


def _set(kind: str, pool: str | None, nodes: int | None, given: dict[str, Any]) -> None:
    if pool is not None and not pool.strip():
        raise click.UsageError("POOL is empty: name the pool (is a variable unset?)")
    asked = {"kind": kind, "pool": EVERY_POOL if pool is None else pool, "why": given["why"], "who": given["who"]}
    more = {"nodes": nodes, "for": given["length"], "until": given["until"]}
    body = {**asked, **{key: value for key, value in more.items() if value is not None}}
    with server(as_json=given["as_json"]) as api:
        answer = api.post("overrides", body=body, token=acting_token())
    show(given["as_json"], answer.document, about_override(OverrideDocument.model_validate(answer.document)))


@override.command()
@click.argument("pool", shell_complete=pool_names)
@click.argument("nodes", type=int)
@_common
def pin(pool: str, nodes: int, **given: Any) -> None:
    """Keep POOL at exactly NODES nodes."""
    _set("pin", pool, nodes, given)


@override.command()
@click.argument("pool", shell_complete=pool_names)
@click.argument("nodes", type=int)
@_common
def floor(pool: str, nodes: int, **given: Any) -> None:
    """Keep POOL at NODES nodes or more, whatever the windows say."""
    _set("floor", pool, nodes, given)


@override.command()
@click.argument("pool", shell_complete=pool_names)
@click.argument("nodes", type=int)
@_common
def ceiling(pool: str, nodes: int, **given: Any) -> None:
    """Keep POOL at NODES nodes or fewer; idle nodes beyond that go at once."""
    _set("ceiling", pool, nodes, given)


@override.command()
@click.argument("pool", required=False, shell_complete=pool_names)
@every_pool
@_common
def pause(pool: str | None, every_pool: bool, **given: Any) -> None:
    """Change nothing in POOL, or with --all in any pool."""
    _set("pause", _one_or_all(pool, every_pool), None, given)


@override.command()
@click.argument("pool", required=False, shell_complete=pool_names)
@every_pool
@_common
def snooze(pool: str | None, every_pool: bool, **given: Any) -> None:
    """Remove no node of POOL, or with --all of any pool; dead ones go all the same."""
    _set("snooze", _one_or_all(pool, every_pool), None, given)


def _one_or_all(pool: str | None, every_pool: bool) -> str | None:
    if (pool is None) is not every_pool:
        raise click.UsageError("name one pool, or give --all for every pool")
    return pool


@override.command("list")
@as_json
@click.pass_obj
def list_overrides(clock: Clock | None, as_json: bool) -> None:
    """List what is in force."""
    with server(as_json=as_json) as api:
        found = api.get_list("overrides")
    overrides = [OverrideDocument.model_validate(each) for each in found]
    show(as_json, found, about_overrides(overrides, (clock or SystemClock()).now()))


@override.command("end")
@click.argument("number", metavar="ID", shell_complete=override_ids)
@click.option("--who", default=who_asks, help="Who ends it.", show_default="your login name")
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
        yield f"ended by {override.ended_by}; what it did is undone by the next step as policy says"
    else:
        yield "the next step acts on it; see `gpu-autoscaler explain pool`"
        yield f"to end it earlier: gpu-autoscaler override end {override.id}"


def about_overrides(overrides: Sequence[OverrideDocument], now: datetime) -> Iterator[str]:
    """Lines on all that are in force or to come."""
    for override in overrides:
        ends = override.until
        left = f" (in {span((ends - now).total_seconds())})" if ends is not None and ends > now else ""
        begun = "" if override.in_force else ", not in force yet"
        yield f"{override.id}: {override_line(override)}{left}{begun}"
    if not overrides:
        yield "no override is in force"
