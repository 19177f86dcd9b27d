"""The former names of commands. Each works for one release more and names the present one on standard error."""

from typing import Any

import click

from receiver.cli.operate import common, override, send_override
from receiver.core.model.overrides import EVERY_POOL
from receiver.terminal.client import pool_names, tell_renamed

SIZED = {"pin": "--exactly", "floor": "--min", "ceiling": "--max"}


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
