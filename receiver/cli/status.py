"""`gpu-autoscaler status`: the whole installation on one screen, from GET /api/v1/status."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.client import as_json, print_json, server
from receiver.core.model.text import some, span
from receiver.ports import Clock
from receiver.reports.screen import OLD, aligned, clock_time, known, moment, printable, usd

COLUMNS = (("WANT", "wanted"), ("HAVE", "required"), ("READY", "ready"), ("BUILD", "building"), ("BUSY", "busy"),
           ("IDLE", "idle"), ("?", "unknown"), ("PEND", "pending_gpus"))  # fmt: skip
STAGES = {"ok": "green", "warn": "yellow", "hold": "red", "stop": "red"}
VERDICTS = {"grow": "green", "shrink": "magenta"}
NARROWEST = 24  # columns that a note gets at least, beside the table


@click.command()
@click.option(
    "--color/--no-color", "color", default=None, help="Colours or none, whatever the terminal and NO_COLOR say."
)
@as_json
@click.pass_obj
def status(clock: Clock | None, color: bool | None, as_json: bool) -> None:
    """Show pools, budget, silent sources, what waits, and the latest decisions on one screen.

    The server is asked that GPU_AUTOSCALER_URL names (http://127.0.0.1:8080 unless it is set). The exit status is 0 if
    it answered, also when what it answers is bad news, 2 for a wrong command line, URL or token and 3 if it cannot be
    reached.
    """
    with server(as_json=as_json) as api:
        answer = api.get("status")
    if as_json:
        print_json(answer.document)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if color is None and os.environ.get("NO_COLOR"):  # https://no-color.org
        color = False
    for line in about_status(printable(answer.document), (clock or SystemClock()).now(), width):
        click.echo(line, color=color)


def about_status(status: Mapping[str, Any], now: datetime, width: int | None = None) -> Iterator[str]:
    """Lines on everything, with colours, cut or folded to *width* columns (None: as long as they are)."""
    yield from _head(status, now)
    yield from _budgets(status.get("budget") or {})
    yield ""
    yield from _pools(status.get("pools") or (), now, width)
    yield ""
    yield from _questions(status.get("pools") or ())
    yield from _silent(status.get("sources") or (), now)
    yield from _rights(status.get("rights") or {})
    yield from _waiting(status)
    yield from _decisions(status.get("decisions") or (), now, width)
    yield from _messages(status.get("messages") or {})


def _head(status: Mapping[str, Any], now: datetime) -> Iterator[str]:
    loop, at, mode = status.get("loop") or {}, moment(status.get("at")), status.get("mode")
    shown = f"mode {mode}" if mode == "act" else click.style(f"mode {mode}: nothing is written", fg="yellow")
    beat = span(loop.get("beat_age_seconds") or 0)
    health = f"loop {loop.get('loop')}, beat {beat} ago"
    if loop.get("status") != "ok":
        health = click.style(f"{health}: IT STANDS STILL, see /healthz and the log", fg="red")
    yield f"gpu-autoscaler {status.get('version')}, {shown}, {health}"
    if loop.get("leader"):
        term = loop.get("term")
        yield f"{loop['leader']} leads{f', term {term}' if isinstance(term, int) else ''}"
    if at is None:
        yield "no step has finished yet"
    elif now - at > OLD:
        old = span((now - at).total_seconds())
        yield click.style(f"as of {clock_time(at, now)}, {old} ago: the loop may stand still, see /healthz", fg="red")
    else:
        errors = loop.get("errors")
        failed = f", {some(errors, 'step')} failed since the start" if isinstance(errors, int) and errors else ""
        yield f"as of {clock_time(at, now)}{failed}"


def _budgets(budget: Mapping[str, Any]) -> Iterator[str]:
    if not budget.get("configured"):
        yield "no budget is configured"
        return
    for scope in budget.get("scopes") or [budget]:
        first = scope.get("scope") in (None, "cluster")
        if not first and scope.get("stage") == "ok":
            continue  # `gpu-autoscaler budget show` has all of them
        stage = str(scope.get("stage"))
        spent = "unknown" if scope.get("unknown") else f"USD {usd(scope.get('spent_usd'))}"
        ratio = scope.get("ratio")
        share = f" ({ratio:.0%})" if isinstance(ratio, int | float) else ""
        line = f"{spent} of {usd(scope.get('monthly_usd'))} spent{share}, {usd(scope.get('reserved_usd'))} reserved"
        title = scope.get("title") or "budget"
        yield f"{title} {scope.get('month')}: {line}, {click.style(f'stage {stage}', fg=STAGES.get(stage))}"
    for kept in budget.get("kept_out") or ():
        yield click.style(f"new GPU work is kept out of {kept.get('place')}", fg="red")


def _pools(pools: Sequence[Mapping[str, Any]], now: datetime, width: int | None) -> Iterator[str]:
    """The table; what does not fit behind a pool goes on below it."""
    titles = ["POOL", *(title for title, _ in COLUMNS), "UTIL"]
    head, *fronts = aligned([titles, *map(_numbers, pools)], "<>", gap=" ")
    indent = len(head) + 2
    yield click.style(f"{head}  HELD BY, WAITS, OVERRIDES", bold=True)
    for pool, front in zip(pools, fronts, strict=True):
        notes = [line for note, colour in _notes(pool, now) for line in _folded(note, colour, indent, width)]
        yield f"{front.ljust(indent)}{notes[0]}".rstrip() if notes else front
        yield from (" " * indent + line for line in notes[1:])


def _numbers(pool: Mapping[str, Any]) -> list[str]:
    used = pool.get("utilization")
    busy = f"{used:.0%}" if isinstance(used, int | float) else "?"
    return [str(pool.get("name")), *(known(pool.get(field)) for _, field in COLUMNS), busy]


def _folded(note: str, colour: str | None, indent: int, width: int | None) -> list[str]:
    room = None if width is None else max(NARROWEST, width - indent)
    lines = [note] if room is None else textwrap.wrap(note, room, subsequent_indent="  ")
    return [click.style(line, fg=colour) for line in lines]


def _notes(pool: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, str | None]]:
    """What holds a pool, what it waits for and what people say of it, each with its colour."""
    held = pool.get("held_by") or ()
    if held:
        yield f"held by {', '.join(held)}", "red"
    for wait in pool.get("waits") or ():
        way = {"grow": "growth", "shrink": "removal"}.get(str(wait.get("direction")), "change")
        yield f"{way} waits {_left(wait.get('until'), now)}: {wait.get('kind')}", "yellow"
    silence = pool.get("silence") or {}
    if silence:
        yield f"silenced by {silence.get('by')} {_left(silence.get('until'), now)}", "yellow"
    elif pool.get("silenced_by"):
        yield str(pool.get("silenced_by")), "yellow"
    for said in pool.get("overrides") or ():
        nodes = f" {said['nodes']}" if isinstance(said.get("nodes"), int) else ""
        yield f"{said.get('kind')}{nodes} by {said.get('who')} {_left(said.get('until'), now)}", "yellow"
    windows = pool.get("windows") or ()
    if windows:
        yield f"window {', '.join(windows)}: {known(pool.get('min_nodes'))} to {known(pool.get('max_nodes'))}", None
    action = pool.get("open_action")
    if action:
        failed = ", its last try failed" if action.get("last_error") else ""
        yield f"{action.get('kind')} {action.get('from')} -> {action.get('to')} under way{failed}", None


def _left(until: Any, now: datetime) -> str:
    ends = moment(until)
    if ends is None:
        return "until an unknown time"
    left = (ends - now).total_seconds()
    return f"for {span(left)}, until {clock_time(ends, now)}" if left > 0 else f"until {clock_time(ends, now)}"


def _rights(rights: Mapping[str, Any]) -> Iterator[str]:
    if not rights or rights.get("lacking") == []:
        return
    effect = ": nothing is bought" if rights.get("holds_growth") else ": pools grow all the same"
    yield click.style(f"{rights.get('said')}{effect}", fg="red")


def _questions(pools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for pool in pools:
        for asked in pool.get("questions") or ():
            if asked.get("state") == "open" and asked.get("wanted") is not False:
                yield click.style(f"{pool.get('name')}: {asked.get('said')}", fg="yellow")
                yield f"  gpu-autoscaler answer {asked.get('id')} approve, or see gpu-autoscaler questions"


def _silent(sources: Sequence[Mapping[str, Any]], now: datetime) -> Iterator[str]:
    for source in sources:
        if source.get("configured") is not False and not source.get("up"):
            since = moment(source.get("since"))
            when = f" since {clock_time(since, now)} ({span((now - since).total_seconds())})" if since else ""
            why = source.get("detail") or "no answer"
            yield click.style(f"silent source: {source.get('source')}{when}: {why}", fg="red")


def _waiting(status: Mapping[str, Any]) -> Iterator[str]:
    total, lost = status.get("waiting_total"), status.get("fits_nowhere") or 0
    if total:
        nowhere = click.style(f", {lost} of them fit{'s' if lost == 1 else ''} no pool", fg="red") if lost else ""
        yield f"{some(total, 'pod')} waiting{nowhere}: gpu-autoscaler explain pod NAMESPACE/NAME says why"


def _decisions(decisions: Sequence[Mapping[str, Any]], now: datetime, width: int | None) -> Iterator[str]:
    if not decisions:
        return
    yield "latest decisions (gpu-autoscaler explain decision ID):"
    longest = max(len(str(d.get("id"))) for d in decisions)
    for decision in decisions:
        at, verdict = moment(decision.get("at")), str(decision.get("verdict"))
        ago = f"{span((now - at).total_seconds())} ago" if at is not None else "unknown"
        size = known(decision.get("to"))
        change = f"{decision.get('from')} -> {size}" if decision.get("from") != decision.get("to") else f"stays {size}"
        front = f"  {str(decision.get('id')).rjust(longest)}  {ago:<12} {decision.get('pool_name')} "
        colour = VERDICTS.get(verdict)
        text = f"{decision.get('because')}"
        room = None if width is None else width - len(front) - len(change) - 2
        if room is not None and len(text) > room:
            text = f"{text[: max(0, room - 3)]}..." if room > NARROWEST else ""
        yield f"{front}{click.style(change, fg=colour)}  {text}".rstrip()


def _messages(messages: Mapping[str, Any]) -> Iterator[str]:
    to = messages.get("to") or ()
    where = ", ".join(to) if to else "the log alone (GPU_AUTOSCALER_NOTIFY_URLS is not set)"
    failing, all_of_them = messages.get("failing") or 0, messages.get("undelivered") or 0
    waiting = all_of_them - failing
    late = f"; {some(waiting, 'message')} waiting to be sent together with others like it" if waiting else ""
    failed = f"; {some(failing, 'message')} not delivered, last error: {messages.get('last_error')}" if failing else ""
    line = f"messages go to {where}{late}{failed}"
    yield click.style(line, fg="yellow") if failed else line
