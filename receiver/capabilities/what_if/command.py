"""`gpu-autoscaler what-if` and `explain node`: what another configuration would decide now, and without one node."""

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

from receiver.adapters.http.own_api import RefusedError
from receiver.capabilities.what_if.documents import (
    FateDocument,
    NodeWhatIfDocument,
    PoolSide,
    TurnDocument,
    WhatIfDocument,
)
from receiver.core.explain.explain import State
from receiver.core.model.text import dollars, some
from receiver.ports import Clock
from receiver.reports.screen import aligned, as_of, clock_time, listed
from receiver.terminal.client import UNUSABLE, as_json, mistakes_of, server, show
from receiver.web.api.documents import pod_word

SHOWN = 20  # workloads; --json has up to 500
STARTS = (State.FITS_FREE_NODE, State.ROOM_ENDS, State.ON_ITS_WAY)


@click.command("what-if")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="The other configuration.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
              help="A key to change; may be repeated.")  # fmt: skip
@as_json
@click.pass_obj
def what_if(clock: Clock, config: Path | None, changes: tuple[str, ...], as_json: bool) -> None:
    """Show what another configuration would decide now.

    The server at GPU_AUTOSCALER_URL (default http://127.0.0.1:8080) decides from the facts of its last step, under the
    configuration in force and under the other one. Nothing is changed. KEY is a key such as pools.l40s.max_nodes.
    The exit status is 0 on success, 2 for an invalid configuration and 3 if the server cannot be reached.
    """
    if (config is None) is not bool(changes):
        raise click.UsageError("Give either --config or --set.")
    try:
        text = config.read_text(encoding="utf-8") if config is not None else "\n".join(map(_line, changes))
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"cannot read {config} as UTF-8: {error}", param_hint="--config") from error
    with server(as_json=as_json) as api:
        try:
            answer = api.post_text("what-if", text=text, query={"as": "file" if config is not None else "changes"})
        except RefusedError as error:
            mistakes = mistakes_of(error.document)
            if as_json or not mistakes:
                raise
            click.echo(f"{error}\n" + "\n".join(f"  {mistake}" for mistake in mistakes), err=True)
            sys.exit(UNUSABLE)
    show(as_json, answer.document, about_what_if(WhatIfDocument.model_validate(answer.document), clock.now()))


@click.command("node")
@click.argument("name")
@as_json
@click.pass_obj
def explain_node(clock: Clock, name: str, as_json: bool) -> None:
    """Show the effects of removing a node, and what blocks it."""
    with server(as_json=as_json) as api:
        answer = api.get("nodes", name, "what-if")
    show(as_json, answer.document, about_node(NodeWhatIfDocument.model_validate(answer.document), clock.now()))


def _line(change: str) -> str:
    key, equals, value = change.partition("=")
    if not (key.strip() and equals and value.strip()):
        raise click.BadParameter("write KEY=VALUE, such as pools.l40s.max_nodes=6", param_hint="--set")
    return f"{key.strip()}: {value.strip()}"


def about_what_if(comparison: WhatIfDocument, now: datetime) -> Iterator[str]:
    """Lines on a comparison."""
    yield f"nothing was changed; {as_of(comparison.at, now)}"
    yield from listed("differs: ", comparison.changes or ("no key",))
    yield from (f"warning: {warning}" for warning in comparison.warnings)
    yield from listed("assumptions: ", comparison.assumptions)
    yield ""
    differing = [pool for pool in comparison.pools if pool.in_force != pool.other]
    rows = [
        [pool.name, str(pool.nodes), *_sizes(pool.in_force, pool.other), _cost(pool.in_force), _cost(pool.other)]
        for pool in differing
    ]
    sums = ["total", "", "", "", dollars(comparison.in_force.usd_per_hour), dollars(comparison.other.usd_per_hour)]
    head = ["POOL", "NODES", "IN FORCE", "OTHER", "PER HOUR", "OTHER"]
    yield from aligned([head, *rows, sums], "<>")
    if same := len(comparison.pools) - len(differing):
        yield f"the same for {'all pools' if not differing else some(same, 'other pool')}"
    yield (
        "by the end of the month at these sizes: "
        + " in force, ".join(dollars(side.month_usd) for side in (comparison.in_force, comparison.other))
        + " under the other"
    )
    yield from _budgets(comparison)
    if differing:
        yield ""
    for pool in differing:
        yield f"{pool.name}, in force: {_why(pool.in_force)}"
        if _why(pool.other) != _why(pool.in_force):
            yield f"{pool.name}, other: {_why(pool.other)}"
    changed = [work for work in comparison.waiting if work.differs]
    yield ""
    otherwise = f"{comparison.differs_total} would have a different outcome"
    yield f"{some(comparison.waiting_total, 'workload')} waiting, of which {otherwise}"
    for work in changed[:SHOWN]:
        yield f"{work.workload} ({some(work.gpus, 'GPU')})"
        yield f"  in force: {_fate(work.in_force)}"
        yield f"  other: {_fate(work.other)}"
    if comparison.differs_total > SHOWN:
        yield f"and {comparison.differs_total - SHOWN} more: see --json"


def _sizes(*sides: PoolSide | None) -> Iterator[str]:
    return ("none" if side is None else str(side.nodes) for side in sides)


def _cost(side: PoolSide | None) -> str:
    return "" if side is None else dollars(side.usd_per_hour)


def _why(side: PoolSide | None) -> str:
    return (
        "it does not manage this pool; its nodes stay as they are" if side is None else f"{side.because} [{side.rule}]"
    )


def _fate(fate: FateDocument) -> str:
    return f"{pod_word(fate.state)} - {fate.detail}"


def _budgets(comparison: WhatIfDocument) -> Iterator[str]:
    in_force, other = (
        [f"{b.title}: {dollars(b.spent_usd)} of {dollars(b.monthly_usd)} spent, stage {b.stage}" for b in side.budgets]
        for side in (comparison.in_force, comparison.other)
    )
    if in_force == other:
        yield from listed("budgets, the same: ", in_force)
        return
    yield from listed("budgets, in force: ", in_force or ["none"])
    yield from listed("budgets, other: ", other or ["none"])


def about_node(departure: NodeWhatIfDocument, now: datetime) -> Iterator[str]:
    """Lines on the removal of a node."""
    yield f"if node {departure.node} of GPU pool {departure.pool} ({departure.stage}) were removed now:"
    for turn in departure.moved:
        yield f"  {_turn(turn)}"
    yield from (f"  {pod} would be lost: no controller recreates it" for pod in departure.lost)
    if not departure.moved and not departure.lost:
        yield "  no running GPU work would move"
    for turn in departure.affected[:SHOWN]:
        yield f"  {_turn(turn)}"
    for purchase in departure.bought:
        price = "an unknown price" if purchase.usd_per_hour is None else f"{dollars(purchase.usd_per_hour)} an hour"
        yield f"  {some(purchase.nodes, 'node')} of {purchase.pool} would be bought for {price}"
    yield from _money(departure)
    yield from listed("blocks its removal now: ", departure.blocks or ("nothing",))
    if departure.may_go_at is not None and departure.may_go_at > departure.at:
        yield f"no removal before {clock_time(departure.may_go_at, departure.at)}, unless something changes"
    yield as_of(departure.at, now)


def _turn(turn: TurnDocument) -> str:
    fate = turn.after
    if turn.before is None and fate.state == State.FITS_FREE_NODE:
        return f"{turn.workload} would move to {fate.node or 'free nodes'} ({fate.pool})"
    was = "" if turn.before is None else " (already waiting)"
    return f"{turn.workload} would wait{was}: {fate.detail}"


def _money(departure: NodeWhatIfDocument) -> Iterator[str]:
    until = clock_time(departure.paid_until, departure.at)
    saves = departure.saves_usd_per_hour
    if saves is None:
        yield f"saves an unknown amount from {until} on: a price is unknown"
    elif saves < 0:
        yield f"saves nothing: the nodes bought cost {dollars(-saves)} an hour more"
    elif saves == 0:
        yield "saves nothing: the nodes bought cost the same"
    else:
        unused = dollars(departure.unused_usd)
        yield f"saves {dollars(saves)} an hour from {until} on; {unused} is already paid for the time until then"
