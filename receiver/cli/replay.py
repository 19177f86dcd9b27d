"""`gpu-autoscaler replay`: what policies would have cost, and how long jobs would have waited, on a real trace."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import fill
from typing import Any

import click
from click.core import ParameterSource

from receiver.adapters.clock import SystemClock
from receiver.cli.client import UNUSABLE, DurationType, print_lines
from receiver.cli.completion import decision_numbers

Command = Callable[..., None]

A_FILE = click.Path(path_type=Path, dir_okay=False)
# The names of PEERS and BOUNDS, which are loaded only when they are needed; a test compares them.
NAMES = ("always-on", "cluster-autoscaler", "cluster-autoscaler-1m", "cluster-autoscaler-30m", "karpenter-when-empty",
         "clairvoyant", "fluid")  # fmt: skip
MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]


class PackingType(click.Choice[str]):
    """How pods are packed, with a dash or an underscore."""

    def __init__(self) -> None:
        super().__init__(["first_fit", "kube"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the choice."""
        return str(super().convert(str(value).replace("-", "_"), param, ctx))


def _utc(_ctx: click.Context, _param: click.Parameter, value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC)


# Each option in the words of `receiver.replay.play.Setting`, whose defaults they repeat (a test compares them).
CIRCUMSTANCES = (
    click.option("--build", type=DurationType(), default="100s", show_default=True,
                 help="From asking for a node until it is an instance. No figure is published; 2-10 min is assumed."),
    click.option("--boot", type=DurationType(), default="20s", show_default=True,
                 help="From the instance until its node is Ready."),
    click.option("--driver", type=DurationType(), default="180s", show_default=True,
                 help="From Ready until the GPUs are usable; 3-7 min with NVIDIA's GPU operator."),
    click.option("--delete", type=DurationType(), default="20s", show_default=True,
                 help="From deleting an instance until it is gone; it is paid until then."),
    click.option("--image-pull", type=DurationType(), default="0s", show_default=True,
                 help="From the moment a pod has a node until it runs."),
    click.option("--jitter", type=click.FloatRange(0, 1, max_open=True), metavar="RATIO", default=0.0,
                 show_default=True, help="By which share each of these varies, up and down (0-1)."),
    click.option("--packing", type=PackingType(), default="first_fit", show_default=True,
                 help="Of the nodes with room a pod goes to the oldest; with kube to the emptiest."),
    click.option("--tick", type=DurationType(), default="10s", show_default="as configured",
                 help="How often the product looks at least."),
    click.option("--watch", type=DurationType(never=True), default="500ms", show_default="500ms if configured",
                 help="After how long the watch of pods wakes the product; none: it has no watch."),
    click.option("--scrape", type=DurationType(never=True), default="15s", show_default=True,
                 help="How often Prometheus scrapes; none: no alert ever wakes the product."),
    click.option("--evaluation", type=DurationType(), default="5s", show_default=True,
                 help="How often Prometheus evaluates the rules on demand, as shipped."),
    click.option("--group-wait", type=DurationType(), default="0s", show_default=True,
                 help="How long Alertmanager waits before it sends, as shipped."),
    click.option("--seed", type=int, metavar="NUMBER", default=0, show_default=True,
                 help="Of names and of the jitter: the same seed gives the same bytes."),
)  # fmt: skip

START = click.option(
    "--start",
    type=click.DateTime(MOMENTS),
    callback=_utc,
    metavar="TIME",
    help="When a trace begins that counts seconds (UTC); the first of January 2026 unless it is given.",
)

# Where the jobs come from, and how they are read.
IMPORTS = (
    click.option("--format", "form", type=click.Choice(["csv", "kubernetes"]),
                 help="What a trace is written in; recognised by its content unless it is given."),
    click.option("--gangs", type=click.Choice(["declared", "together"]), default="declared", show_default=True,
                 help="Which pods are a gang: those that say so or whose owner's kind does, or also all that one owner "
                      "created within a minute."),
    click.option("--ignore-placement", is_flag=True,
                 help="Let pods run on every pool, whatever selectors, affinities and tolerations they have."),
    click.option("--skip-bad", is_flag=True, help="Leave out, and name, the lines and objects that are wrong."),
    click.option("--prometheus", metavar="URL", help="Replay what this Prometheus remembers of GPU pods."),
    click.option("--since", type=DurationType(), default="30d", show_default=True,
                 help="With --prometheus: how far back."),
    click.option("--until", type=click.DateTime(MOMENTS), metavar="TIME",
                 help="Until when a Prometheus is read, and when an export of Kubernetes was made (UTC); now, and when "
                      "its file was written."),
    click.option("--step", type=DurationType(), default="30s", show_default=True,
                 help="With --prometheus: how often kube-state-metrics is scraped."),
    click.option("--query-timeout", type=DurationType(), default="60s", show_default=True,
                 help="With --prometheus: how long one query may take."),
)  # fmt: skip


def _each_of(options: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """Add *options* to a command, in order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


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
@_each_of(CIRCUMSTANCES)
@START
@_each_of(IMPORTS)
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
    from receiver.cli.replay_run import Asked, BadInput, run
    from receiver.replay.play import Setting  # what the other commands need not load

    if not traces and given["prometheus"] is None:
        raise click.UsageError("Missing option '--trace' or '--prometheus'.")
    source = click.get_current_context().get_parameter_source
    chosen = {field.name: given.pop(field.name) for field in fields(Setting) if field.name in given}
    typed = frozenset(name for name in chosen if source(name) is not ParameterSource.DEFAULT)
    chosen = {name: value for name, value in chosen.items() if value is not None or name in typed}
    asked = Asked(setting=Setting(**chosen), typed=typed, **_taken(given), **given)
    try:
        status = run(traces, asked, as_json=as_json, html=html, bar=sys.stderr.isatty())
    except BadInput as error:
        print_lines(error.lines, err=True)
        sys.exit(UNUSABLE)
    sys.exit(status)


def _taken(given: dict[str, Any]) -> dict[str, Any]:
    """Take the values of IMPORTS out of *given*; return *reading*, and *remembered* (None: no Prometheus)."""
    from receiver.cli.replay_run import Remembered  # what the other commands need not load
    from receiver.replay.traces import TraceReading

    until = given.pop("until")
    until = None if until is None else until.replace(tzinfo=UTC)
    reading = TraceReading(
        made_at=until,
        format=given.pop("form"),
        gangs=given.pop("gangs"),
        placement=not given.pop("ignore_placement"),
        skip_bad=given.pop("skip_bad"),
    )
    url = given.pop("prometheus")
    since, step, timeout = given.pop("since"), given.pop("step"), given.pop("query_timeout")
    if url is None:
        return {"reading": reading, "remembered": None}
    for name, length in (("--since", since), ("--step", step), ("--query-timeout", timeout)):
        if length < timedelta(seconds=1):
            raise click.BadParameter("write a duration of a second or more", param_hint=name)
    until = until or SystemClock().now().replace(microsecond=0)
    remembered = Remembered(url=url, since=until - since, until=until, step=step, timeout=timeout)
    return {"reading": reading, "remembered": remembered}
