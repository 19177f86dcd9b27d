"""`gpu-autoscaler status`: the whole installation on one screen, from GET /api/v1/status."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from time import sleep
from typing import Any

import click

from receiver.adapters.http.own_api import ServerApi
from receiver.core.model.policy import Scope
from receiver.core.model.text import dollars, percent, some, span
from receiver.core.money.budget import BudgetStage
from receiver.core.notices.notice import Level
from receiver.ports import Clock, TryLater
from receiver.reports.observed import ObservedDocument
from receiver.reports.picture import PoolDocument
from receiver.reports.screen import OLD, aligned, clock_time, known, printable
from receiver.reports.state import StateWord
from receiver.terminal.client import as_json, print_json, server
from receiver.web.api.documents import BudgetDocument, DecisionLine, StatusDocument

COLUMNS = (("WANT", "wanted"), ("HAVE", "required"), ("READY", "ready"), ("BUILD", "building"), ("BUSY", "busy"),
           ("IDLE", "idle"), ("?", "unknown"), ("PEND", "pending_gpus"))  # fmt: skip
STAGES = {"ok": "green", "warn": "yellow", "hold": "red", "stop": "red"}
VERDICTS = {"grow": "green", "shrink": "magenta"}
MOST_CONCERNS = 8  # that are printed; the page has all
COLOURS = {Level.BAD: "red", Level.WARN: "yellow"}  # what is as requested stands beside its pool
CHANGES = 5  # of those that act mode would have made
NARROWEST = 24  # columns that a note gets at least, beside the table


@click.command()
@click.option("--watch", "every", type=click.IntRange(1), is_flag=False, flag_value=5, metavar="[SECONDS]",
              help="Refresh every 5 seconds, or as given.")  # fmt: skip
@click.option("--color/--no-color", "color", default=None, help="Override NO_COLOR and the terminal.")
@as_json
@click.pass_obj
def status(clock: Clock, every: int | None, color: bool | None, as_json: bool) -> None:
    """Show pools, budgets, waiting pods and the latest decisions.

    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080). The exit status is 0 if the server answered,
    even if it reports problems, 2 for a wrong command line, URL or token and 3 if the server cannot be reached. With
    --watch, the command keeps retrying instead.
    """
    if as_json and every:
        raise click.UsageError("--watch and --json cannot be combined: repeat the command with --json instead")
    if color is None and os.environ.get("NO_COLOR"):  # https://no-color.org
        color = False
    with server(as_json=as_json) as api:
        if as_json:
            print_json(api.get("status").document)
        elif every:
            _refresh(api, clock, every, color)
        else:
            _print(_screen(api, clock), color)


def _screen(api: ServerApi, clock: Clock) -> list[str]:
    """Raises TryLater."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    document, now = printable(api.get("status").document), clock.now()
    return [api.as_read(line, now) for line in about_status(document, now, width)]


def _print(lines: Iterable[str], color: bool | None) -> None:
    for line in lines:
        click.echo(line, color=color)


def _refresh(api: ServerApi, clock: Clock, every: int, color: bool | None) -> None:
    """Print the screen every so many seconds until Ctrl-C, in place on a terminal."""
    try:
        while True:
            try:
                lines = _screen(api, clock)
            except TryLater as error:
                problem = f"cannot reach the server at {api.shown}: {error}; next attempt in {every} s"
                lines = [click.style(problem, fg="red")]
            click.clear()  # does nothing where the output is no terminal
            _print(lines, color)
            sleep(every)
    except KeyboardInterrupt:
        click.echo()


def about_status(document: Mapping[str, Any], now: datetime, width: int | None = None) -> Iterator[str]:
    """Lines on everything, with colours, cut or folded to *width* columns (None: as long as they are)."""
    status = StatusDocument.model_validate(document)
    yield from _head(status, now)
    yield from _concerns(status, width)
    yield from _budgets(status.budget)
    yield ""
    yield from _pools(status.pools, now, width)
    yield ""
    if status.observed is not None:
        yield from _observed(status.observed, width)
        yield ""
    total, unfit_count = status.waiting_total, status.fits_nowhere
    if total:
        nowhere = (
            click.style(f", {unfit_count} of them fit{'s' if unfit_count == 1 else ''} no pool", fg="red")
            if unfit_count
            else ""
        )
        soon = f", the first starts by {clock_time(status.next_by, now)}" if status.next_by else ""
        yield f"{some(total, 'pod')} waiting{nowhere}{soon}; why: gpu-autoscaler explain pod NAMESPACE/NAME"
    yield from _decisions(status.decisions, now, width)
    messages = status.messages
    where = ", ".join(messages.to) or "the log only (GPU_AUTOSCALER_NOTIFY_URLS is not set)"
    failing, waiting = messages.failing, messages.undelivered - messages.failing
    late = f"; {some(waiting, 'message')} waiting to be grouped with similar ones" if waiting else ""
    failed = f"; {some(failing, 'message')} not delivered, last error: {messages.last_error}" if failing else ""
    line = f"messages go to {where}{late}{failed}"
    yield click.style(line, fg="yellow") if failed else line


def _head(status: StatusDocument, now: datetime) -> Iterator[str]:
    loop, at, mode = status.loop, status.at, status.mode
    mode_text = f"mode {mode}" if mode == "act" else click.style(f"mode {mode}: nothing is changed", fg="yellow")
    health = f"loop {loop.loop}, last progress {span(loop.beat_age_seconds)} ago"
    if loop.status != "ok":
        health = click.style(f"{health}: LOOP STALLED, see /healthz and the log", fg="red")
    cluster = f"{status.cluster_name}: " if status.cluster_name else ""
    yield f"{cluster}gpu-autoscaler {status.version}, {mode_text}, {health}"
    if loop.leader:
        yield f"{loop.leader} leads{'' if loop.term is None else f', term {loop.term}'}"
    if at is None:
        yield "no step has finished yet"
    elif now - at > OLD:
        age = span((now - at).total_seconds())
        yield click.style(f"as of {clock_time(at, now)}, {age} ago: the loop may be stalled, see /healthz", fg="red")
    else:
        failed = f", {some(loop.errors, 'step')} failed since the start" if loop.errors else ""
        yield f"as of {clock_time(at, now)}{failed}"


def _concerns(status: StatusDocument, width: int | None) -> Iterator[str]:
    """The problems and warnings, the worst first, each with what to do: as the overview page has them."""
    names = {pool.pool: pool.name for pool in status.pools}
    bad = [concern for level in COLOURS for concern in status.concerns if concern.level == level]
    for concern in bad[:MOST_CONCERNS]:
        level = Level(concern.level)
        where = f"{names.get(concern.pool, concern.pool)} " if concern.pool else ""
        title = f"{level.word}: {where}{concern.what}"
        yield from (click.style(line, fg=COLOURS[level]) for line in _folded(title, width))
        also = f"also: {'; '.join(concern.also)}" if concern.also else ""
        for part in (concern.why, concern.whose and f"for {concern.whose}", also, concern.todo or concern.doing):
            yield from _folded(f"  {part}", width) if part else ()
    if len(bad) > MOST_CONCERNS:
        yield f"and {len(bad) - MOST_CONCERNS} more, on the overview page"


def _budgets(budget: BudgetDocument) -> Iterator[str]:
    if not budget.configured:
        yield "no budget is configured"
        return
    for scope in budget.scopes or (budget,):
        first = scope.scope in ("", Scope.CLUSTER)
        if not first and scope.stage == BudgetStage.OK:
            continue  # `gpu-autoscaler budget show` has all of them
        spent = "unknown" if scope.unknown else dollars(scope.spent_usd)
        share = "" if scope.ratio is None else f" ({percent(scope.ratio)})"
        line = f"{spent} of {dollars(scope.monthly_usd)} spent{share}, {dollars(scope.reserved_usd)} reserved"
        stage = click.style(f"stage {scope.stage}", fg=STAGES.get(scope.stage or ""))
        yield f"{scope.title or 'budget'} {scope.month}: {line}, {stage}"
    for hold in budget.kept_out or ():
        yield click.style(f"new GPU pods are blocked in {hold.place}", fg="red")


def _pools(pools: Sequence[PoolDocument], now: datetime, width: int | None) -> Iterator[str]:
    """The table; what does not fit behind a pool goes on below it."""
    rows = [["POOL", *(title for title, _ in COLUMNS), "UTIL"]]
    for pool in pools:
        busy = "?" if pool.utilization is None else f"{percent(pool.utilization)}"
        rows.append([pool.name, *(known(getattr(pool, field)) for _, field in COLUMNS), busy])
    head, *fronts = aligned(rows, "<>", gap=" ")
    indent = len(head) + 2
    room = None if width is None else max(NARROWEST, width - indent)
    yield click.style(f"{head}  BLOCKED, WAITS, OVERRIDES", bold=True)
    for pool, front in zip(pools, fronts, strict=True):
        notes = [
            click.style(line, fg=colour)
            for note, colour in _notes(pool, now)
            for line in ([note] if room is None else textwrap.wrap(note, room, subsequent_indent="  "))
        ]
        yield f"{front.ljust(indent)}{notes[0]}".rstrip() if notes else front
        yield from (" " * indent + line for line in notes[1:])
    if acts := [pool.would for pool in pools if pool.would]:
        summary = f"with mode: act it would {'; '.join(acts)}"
        yield from _folded(summary, width)


def _folded(text: str, width: int | None) -> Sequence[str]:
    return [text] if width is None else textwrap.wrap(text, width, subsequent_indent="    ")


def _observed(observed: ObservedDocument, width: int | None) -> Iterator[str]:
    """What act mode would have cost, and its latest changes."""
    for sentence in (observed.conclusion, observed.waits, *observed.notes):
        yield from _folded(sentence, width) if sentence else ()
    for change in observed.changes[:CHANGES]:
        moment_text = "" if change.at is None else f"{change.at:%Y-%m-%d %H:%M} UTC"
        yield f"  {moment_text}  {change.pool} {change.before} -> {change.after}  {change.work}".rstrip()
    if observed.problem:
        yield click.style(f"not replayed: {observed.problem}", fg="yellow")


def _notes(pool: PoolDocument, now: datetime) -> Iterator[tuple[str, str | None]]:
    """What blocks a pool, what it waits for and which overrides it has, each with its colour."""
    state = pool.state
    if state.word is StateWord.BLOCKED or state.would:
        yield str(state), "yellow" if state.would else "red"
    if pool.building:
        yield f"{some(pool.building, 'node')} on the way", None
    for wait in pool.waits if state.word is not StateWord.BLOCKED else ():  # else the cause has it
        way = {"grow": "growth", "shrink": "removal"}.get(wait.direction, "change")
        yield f"{way} waits {_left(wait.until, now)}: {wait.kind}", "yellow"
    if pool.silence is not None:
        yield f"silenced by {pool.silence.by} {_left(pool.silence.until, now)}", "yellow"
    elif pool.silenced_by:
        yield pool.silenced_by, "yellow"
    for override in pool.overrides:
        nodes = "" if override.nodes is None else f" {override.nodes}"
        yield f"{override.kind}{nodes} by {override.who} {_left(override.until, now)}", "yellow"
    if pool.windows:
        yield f"window {', '.join(pool.windows)}: {known(pool.min_nodes)} to {known(pool.max_nodes)}", None
    action = pool.open_action
    if action is not None:
        failed = ", last attempt failed" if action.last_error else ""
        yield f"{action.kind} {action.from_count} -> {action.to_count} in progress{failed}", None


def _left(ends: datetime | None, now: datetime) -> str:
    if ends is None:
        return "until an unknown time"
    seconds_left = (ends - now).total_seconds()
    return (
        f"for {span(seconds_left)}, until {clock_time(ends, now)}"
        if seconds_left > 0
        else f"until {clock_time(ends, now)}"
    )


def _decisions(decisions: Sequence[DecisionLine], now: datetime, width: int | None) -> Iterator[str]:
    if not decisions:
        return
    yield "latest decisions (gpu-autoscaler explain decision ID):"
    longest = max(len(str(decision.id)) for decision in decisions)
    for decision in decisions:
        ago = "unknown" if decision.at is None else f"{span((now - decision.at).total_seconds())} ago"
        stays = decision.from_count == decision.to_count
        change = f"blocked at {decision.to_count}" if stays else f"{decision.from_count} -> {decision.to_count}"
        front = f"  {str(decision.id).rjust(longest)}  {ago:<12} {decision.pool_name} "
        text = (decision.cause if stays else "") or decision.because
        room = None if width is None else width - len(front) - len(change) - 2
        if room is not None and len(text) > room:
            text = f"{text[: max(0, room - 3)]}..." if room > NARROWEST else ""
        yield f"{front}{click.style(change, fg=VERDICTS.get(decision.verdict))}  {text}".rstrip()
