"""`gpu-autoscaler replay`: the cost and waits of policies on a recorded trace."""

import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import fill
from typing import Any

import click
from click.core import ParameterSource

from receiver.adapters.clock import SystemClock
from receiver.terminal.client import UNUSABLE, DurationType, options, print_lines
from receiver.terminal.short_help import ShortHelp, every_option

A_FILE = click.Path(path_type=Path, dir_okay=False)
# The names of PEERS and BOUNDS, which are loaded on demand; a test compares them.
NAMES = ("always-on", "cluster-autoscaler", "cluster-autoscaler-1m", "cluster-autoscaler-30m", "karpenter-when-empty",
         "clairvoyant", "fluid")  # fmt: skip
MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]


class PackingType(click.Choice[str]):
    """The packing, written with a dash or an underscore."""

    def __init__(self) -> None:
        super().__init__(["first_fit", "kube"])

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the choice with an underscore."""
        return str(super().convert(str(value).replace("-", "_"), param, ctx))


def _utc(_ctx: click.Context, _param: click.Parameter, value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC)


# The options of `receiver.replay.play.Setting`, with the same defaults (a test compares them).
CIRCUMSTANCES = (
    click.option("--build", type=DurationType(), default="100s", show_default=True,
                 help="Request until instance."),
    click.option("--boot", type=DurationType(), default="20s", show_default=True,
                 help="Instance until node Ready."),
    click.option("--driver", type=DurationType(), default="180s", show_default=True,
                 help="Ready until GPUs usable."),
    click.option("--delete", type=DurationType(), default="20s", show_default=True,
                 help="Deletion until gone; billed."),
    click.option("--image-pull", type=DurationType(), default="0s", show_default=True,
                 help="Pod bound until it runs."),
    click.option("--jitter", type=click.FloatRange(0, 1, max_open=True), metavar="RATIO", default=0.0,
                 show_default=True, help="Random share of these."),
    click.option("--packing", type=PackingType(), default="first_fit", show_default=True,
                 help="Oldest or emptiest node."),
    click.option("--tick", type=DurationType(), default="10s", show_default="as configured",
                 help="Time between steps."),
    click.option("--watch", type=DurationType(never=True), default="500ms", show_default=True,
                 help="Watch's delay, or none."),
    click.option("--scrape", type=DurationType(never=True), default="15s", show_default=True,
                 help="Prometheus' interval, or none."),
    click.option("--evaluation", type=DurationType(), default="5s", show_default=True,
                 help="Interval of the rules."),
    click.option("--group-wait", type=DurationType(), default="0s", show_default=True,
                 help="group_wait of Alertmanager."),
    click.option("--seed", type=int, metavar="NUMBER", default=0, show_default=True,
                 help="Seed of names and jitter."),
)  # fmt: skip

START = click.option(
    "--start",
    type=click.DateTime(MOMENTS),
    callback=_utc,
    metavar="TIME",
    help="Start of a CSV trace.  [default: 2026-01-01]",
)

# The source of the jobs, and how it is read.
IMPORTS = (
    click.option("--format", "form", type=click.Choice(["csv", "kubernetes"]),
                 help="Trace format.  [default: by content]"),
    click.option("--gangs", type=click.Choice(["declared", "together"]), default="declared", show_default=True,
                 help="Which pods are a gang."),
    click.option("--ignore-placement", is_flag=True,
                 help="Ignore selectors, affinities and tolerations."),
    click.option("--skip-bad", is_flag=True, help="Leave out and report malformed entries."),
    click.option("--prometheus", metavar="URL", help="Replay GPU pods from this Prometheus' history."),
    click.option("--since", type=DurationType(), default="30d", show_default=True,
                 help="With --prometheus: how long."),
    click.option("--until", type=click.DateTime(MOMENTS), callback=_utc, metavar="TIME",
                 help="End of the history or export (UTC)."),
    click.option("--step", type=DurationType(), default="30s", show_default=True,
                 help="With --prometheus: scrape step."),
    click.option("--query-timeout", type=DurationType(), default="60s", show_default=True,
                 help="With --prometheus: per query."),
)  # fmt: skip


class Replay(ShortHelp):
    """`replay`, whose first help has what most comparisons need."""

    first = frozenset({"traces", "prometheus", "since", "config", "compare", "billing", "as_json", "html"})


@click.command(
    cls=Replay, epilog="\b\n" + fill(f"Names for --compare: {', '.join(NAMES)}.", 76, break_on_hyphens=False)
)
@click.option("--trace", "traces", type=A_FILE, multiple=True, metavar="FILE",
              help="CSV or kubectl -o json; may be repeated.")  # fmt: skip
@click.option("--config", type=A_FILE, metavar="FILE", help="The configuration.  [default: one pool]")
@click.option("--compare", multiple=True, metavar="FILE|NAME",
              help="Another policy, by file or name; repeatable.")  # fmt: skip
@click.option("--gpus-per-node", type=click.IntRange(1), metavar="N", default=8, show_default=True,
              help="Node's GPUs (no --config).")  # fmt: skip
@click.option("--max-gpus", type=click.IntRange(1), metavar="M", default=320, show_default=True,
              help="Most GPUs (no --config).")  # fmt: skip
@click.option("--billing", type=click.Choice(["hour", "second"]),
              help="What is billed.  [default: as configured]")  # fmt: skip
@options(*CIRCUMSTANCES)
@START
@options(*IMPORTS)
@click.option("--split-pods", is_flag=True, help="Split the pods of a job into pods of one GPU.")
@click.option("--skip-misfits", is_flag=True, help="Leave out and report jobs that fit no pool.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.option("--html", type=A_FILE, metavar="FILE", help="Also write an HTML page.")
@every_option
def replay(
    traces: tuple[Path, ...],
    as_json: bool,
    html: Path | None,
    **arguments: Any,
) -> None:
    """Compare the cost and waits of policies on recorded work.

    The server's own code runs against a simulated Civo and cluster, event by event. It needs no secrets and contacts
    only a Prometheus that you name. The exit status is 0 on success, 1 if the figures of a policy do not add up, or if
    the autoscaler removed a node under a running pod or left a job unfinished that its budget paid for, and 2 for
    invalid input, such as a provision_timeout shorter than a new node needs.
    """
    from receiver.cli.replay_run import BadInput, ReplayRequest, run
    from receiver.replay.play import Setting  # not needed by the other commands

    if not traces and arguments["prometheus"] is None:
        raise click.UsageError("Missing option '--trace' or '--prometheus'.")
    source = click.get_current_context().get_parameter_source
    chosen = {field.name: arguments.pop(field.name) for field in fields(Setting) if field.name in arguments}
    typed = frozenset(name for name in chosen if source(name) is not ParameterSource.DEFAULT)
    chosen = {name: value for name, value in chosen.items() if value is not None or name in typed}
    request = ReplayRequest(setting=Setting(**chosen), typed=typed, **_taken(arguments), **arguments)
    try:
        status = run(traces, request, as_json=as_json, html=html, bar=sys.stderr.isatty())
    except BadInput as error:
        print_lines([*error.lines, "what to do: see docs/replay.md, or gpu-autoscaler replay --help"], err=True)
        sys.exit(UNUSABLE)
    sys.exit(status)


def _taken(arguments: dict[str, Any]) -> dict[str, Any]:
    """Remove the values of IMPORTS from *arguments*, and return *reading* and *remembered* (None: no Prometheus)."""
    from receiver.cli.replay_run import Remembered  # not needed by the other commands
    from receiver.replay.traces.trace import TraceReading

    until = arguments.pop("until")
    reading = TraceReading(
        made_at=until,
        format=arguments.pop("form"),
        gangs=arguments.pop("gangs"),
        placement=not arguments.pop("ignore_placement"),
        skip_bad=arguments.pop("skip_bad"),
    )
    url = arguments.pop("prometheus")
    since, step, timeout = arguments.pop("since"), arguments.pop("step"), arguments.pop("query_timeout")
    if url is None:
        return {"reading": reading, "remembered": None}
    for name, length in (("--since", since), ("--step", step), ("--query-timeout", timeout)):
        if length < timedelta(seconds=1):
            raise click.BadParameter("must be at least 1s", param_hint=name)
    until = until or SystemClock().now().replace(microsecond=0)
    remembered = Remembered(url=url, since=until - since, until=until, step=step, timeout=timeout)
    return {"reading": reading, "remembered": remembered}
