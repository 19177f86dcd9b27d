"""The former names of commands. Each works for one release more and names the present one on standard error."""

from typing import Any

import click

from receiver.cli.operate import (
    SNOOZES,
    common,
    every_request,
    override,
    print_requests,
    send_answer,
    send_override,
    why_answered,
)
from receiver.core.model.overrides import EVERY_POOL, Answer
from receiver.terminal.client import as_json, option_who, pool_names, tell_renamed

SIZED = {"pin": "--exactly", "floor": "--min", "ceiling": "--max"}


@click.command(hidden=True)
@every_request
@as_json
def questions(everything: bool, as_json: bool) -> None:
    """List unanswered approval requests; now `approvals`."""
    tell_renamed("questions", "approvals list --all" if everything else "approvals")
    print_requests(everything=everything, as_json=as_json)


@click.command(hidden=True)
@click.argument("number", metavar="ID")
@click.argument("word", metavar="ANSWER", type=click.Choice([answer.value for answer in Answer]))
@option_who("answers")
@why_answered
@as_json
def answer(number: str, word: str, who: str, why: str, as_json: bool) -> None:
    """Answer an approval request; now `approvals approve` and `approvals reject`."""
    chosen = Answer(word)
    lengths = {snooze: length for length, snooze in SNOOZES.items()}
    present = f"approve {number}" if chosen is Answer.APPROVE else f"reject {number}"
    present += f" --for {lengths[chosen]}" if chosen in lengths else " --pin" if chosen is Answer.PIN else ""
    tell_renamed("answer", f"approvals {present}")
    send_answer(number, chosen, who=who, why=why, as_json=as_json)


def _sized(kind: str, option: str) -> None:
    @override.command(kind, hidden=True, help=f"Set a size; now `override set POOL {option} NODES`.")
    @click.argument("pool", shell_complete=pool_names)
    @click.argument("nodes", type=int)
    @common
    def command(pool: str, nodes: int, **arguments: Any) -> None:
        tell_renamed(f"override {kind}", f"override set {pool or 'POOL'} {option} {nodes}")
        send_override(kind, pool, nodes, arguments)


def _unsized(kind: str, of_pool: str, of_every_pool: str) -> None:
    @override.command(kind, hidden=True, help=f"Keep pools as they are; now `{of_every_pool}`.")
    @click.argument("pool", required=False, shell_complete=pool_names)
    @click.option("--all", "every_pool", is_flag=True, help="Every pool.")
    @common
    def command(pool: str | None, every_pool: bool, **arguments: Any) -> None:
        if (pool is None) is not every_pool:
            raise click.UsageError("name one pool, or give --all for every pool")
        tell_renamed(f"override {kind}", of_every_pool if pool is None else of_pool.format(pool=pool or "POOL"))
        send_override(kind, EVERY_POOL if pool is None else pool, None, arguments)


for _kind, _option in SIZED.items():
    _sized(_kind, _option)
_unsized("pause", "pause {pool}", "pause")
_unsized("snooze", "override set {pool} --keep", "override set --keep --all")
