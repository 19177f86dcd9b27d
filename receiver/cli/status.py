"""`gpu-autoscaler status`: everything on one screen."""

import os
import shutil
import sys

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.client import as_json, print_json, server
from receiver.cli.status_text import about_status
from receiver.ports import Clock
from receiver.reports.screen_words import printable


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
