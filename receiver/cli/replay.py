"""`gpu-autoscaler replay`: what policies would have cost, and how long jobs would have waited, on a real trace."""

import sys
from dataclasses import fields
from pathlib import Path
from textwrap import fill
from typing import Any

import click
from click.core import ParameterSource

from receiver.cli.client import UNUSABLE, print_lines
from receiver.cli.completion import decision_numbers
from receiver.cli.import_options import imports, taken
from receiver.cli.replay_options import circumstances, start

A_FILE = click.Path(path_type=Path, dir_okay=False)
# The names of PEERS and BOUNDS, which are loaded only when they are needed; a test compares them.
NAMES = ("always-on", "cluster-autoscaler", "cluster-autoscaler-1m", "cluster-autoscaler-30m", "karpenter-when-empty",
         "clairvoyant", "fluid")  # fmt: skip


@click.command(epilog="\b\n" + fill(f"Names for --compare: {', '.join(NAMES)}.", 76, break_on_hyphens=False))
@click.option("--trace", "traces", type=A_FILE, multiple=True, metavar="FILE",
              help="A trace (CSV, kubectl -o json); of several each is replayed by itself.")  # fmt: skip
@click.option("--decision", metavar="ID", shell_complete=decision_numbers,
              help="No trace: make a stored decision again, with this version or under --config.")  # fmt: skip
@click.option("--config", type=A_FILE, metavar="FILE", help="The configuration; without one, a pool of one size.")
@click.option("--compare", multiple=True, metavar="FILE|NAME",
              help="Another configuration, or a peer by its name; more than one can be given.")  # fmt: skip
@click.option("--gpus-per-node", type=click.IntRange(1), metavar="N", default=8, show_default=True,
              help="Without --config: how many GPUs a node has.")  # fmt: skip
@click.option("--max-gpus", type=click.IntRange(1), metavar="M", default=320, show_default=True,
              help="Without --config: how many GPUs there may be at once.")  # fmt: skip
@click.option("--billing", type=click.Choice(["hour", "second"]),
              help="Started hours or seconds are paid, whatever the configurations say.")  # fmt: skip
@circumstances
@start
@imports
@click.option("--split-pods", is_flag=True, help="Turn the pods of a job into pods of one GPU each.")
@click.option("--skip-misfits", is_flag=True, help="Leave out, and name, the jobs that no pool can hold.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.option("--html", type=A_FILE, metavar="FILE", help="Write a page, too.")
def replay(
    traces: tuple[Path, ...],
    decision: str | None,
    as_json: bool,
    html: Path | None,
    **given: Any,
) -> None:
    """Replay a trace under this configuration and others: cost, waits, and what did not add up.

    The product's own step runs over a simulated Civo and cluster, from event to event. Nothing outside is asked but
    the Prometheus that is named, and no secrets are needed. The exit status is 0, 1 if something does not add up or a
    pod lost its node to a policy of ours, and 2 for input that cannot be used.

    With --decision the server is asked that GPU_AUTOSCALER_URL names (http://127.0.0.1:8080 unless it is set), as
    `explain` does. The exit status is then 0 if the same would be decided, 1 if not, 2 if the decision or what it was
    made from is not kept, and 3 if the server cannot be reached.
    """
    if decision is not None:
        if traces or given["prometheus"] is not None or given["compare"] or html is not None:
            raise click.UsageError("--decision goes with --config and --json alone.")
        from receiver.cli.replay_decision import decide_again

        sys.exit(decide_again(decision, given["config"], as_json=as_json))
    from receiver.cli.replay_inputs import Asked, BadInput
    from receiver.cli.replay_run import run
    from receiver.replay.setting import Setting  # what the other commands need not load

    if not traces and given["prometheus"] is None:
        raise click.UsageError("Missing option '--trace' or '--prometheus'.")
    source = click.get_current_context().get_parameter_source
    chosen = {field.name: given.pop(field.name) for field in fields(Setting) if field.name in given}
    typed = frozenset(name for name in chosen if source(name) is not ParameterSource.DEFAULT)
    chosen = {name: value for name, value in chosen.items() if value is not None or name in typed}
    asked = Asked(setting=Setting(**chosen), typed=typed, **taken(given), **given)
    try:
        status = run(traces, asked, as_json=as_json, html=html, bar=sys.stderr.isatty())
    except BadInput as error:
        print_lines(error.lines, err=True)
        sys.exit(UNUSABLE)
    sys.exit(status)
