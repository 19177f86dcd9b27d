"""`gpu-autoscaler replay`: the cost and waits of policies on a recorded trace."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import fill
from typing import Any

import click
from click.core import ParameterSource

from receiver.adapters.clock import SystemClock
from receiver.config.values import ConfigError, Mistake, Wrong, did_you_mean, text
from receiver.terminal.client import UNUSABLE, DurationType, options, print_lines, refuse, tell_renamed

A_FILE = click.Path(path_type=Path, dir_okay=False)
# OBJECTIVES, and the names of PEERS and BOUNDS, which are loaded on demand; a test compares them.
NAMES = ("objectives", "always-on", "cluster-autoscaler", "cluster-autoscaler-1m", "cluster-autoscaler-30m",
         "karpenter-when-empty", "clairvoyant", "fluid")  # fmt: skip
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


class TimingOption(click.Option):
    """An option that stands in the file of --timing."""

    @property
    def key(self) -> str:
        """Its key there: ``group_wait``."""
        return self.opts[0].removeprefix("--").replace("-", "_")


def _of_timing(*names: str, **attributes: Any) -> Callable[..., Any]:
    """Return an option whose place is the file of --timing; on the command line it works until the next release."""
    return click.option(*names, cls=TimingOption, hidden=True, **attributes)


# The options of `receiver.replay.play.Setting`, with the same defaults (a test compares them).
CIRCUMSTANCES = (
    _of_timing("--build", type=DurationType(), default="100s"),
    _of_timing("--boot", type=DurationType(), default="20s"),
    _of_timing("--driver", type=DurationType(), default="180s"),
    _of_timing("--delete", type=DurationType(), default="20s"),
    _of_timing("--image-pull", type=DurationType(), default="0s"),
    _of_timing("--jitter", type=click.FloatRange(0, 1, max_open=True), default=0.0),
    _of_timing("--packing", type=PackingType(), default="first_fit"),
    _of_timing("--tick", type=DurationType(), default="10s"),
    _of_timing("--watch", type=DurationType(never=True), default="500ms"),
    _of_timing("--scrape", type=DurationType(never=True), default="15s"),
    _of_timing("--evaluation", type=DurationType(), default="5s"),
    _of_timing("--group-wait", type=DurationType(), default="0s"),
    _of_timing("--seed", type=int, default=0),
)
START = _of_timing("--start", type=click.DateTime(MOMENTS), callback=_utc)
# How the source of the jobs is read.
IMPORTS = (
    _of_timing("--format", "form", type=click.Choice(["csv", "kubernetes"])),
    _of_timing("--gangs", type=click.Choice(["declared", "together"]), default="declared"),
    _of_timing("--ignore-placement", is_flag=True),
    _of_timing("--skip-bad", is_flag=True),
    _of_timing("--until", type=click.DateTime(MOMENTS), callback=_utc),
    _of_timing("--step", type=DurationType(), default="30s"),
    _of_timing("--query-timeout", type=DurationType(), default="60s"),
)


class Replay(click.Command):
    """`replay`, with the values of its --timing file in place of options that the command line does not have."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        options = {option.key: option for option in self.params if isinstance(option, TimingOption)}
        typed = {key for key, option in options.items() if _is_typed(ctx, option)}
        if typed and not ctx.resilient_parsing:
            former = ", ".join(f"--{key.replace('_', '-')}" for key in options if key in typed)
            tell_renamed(f"replay {former}", "replay --timing FILE", f", with {', '.join(sorted(typed))} in FILE")
        if ctx.params.get("timing") is not None:
            for key, value in _read(ctx.params["timing"], options, ctx).items():
                if key not in typed:
                    ctx.params[str(options[key].name)] = value
                    ctx.set_parameter_source(str(options[key].name), ParameterSource.DEFAULT_MAP)
        return rest


def _is_typed(ctx: click.Context, option: click.Parameter) -> bool:
    return ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE


def _read(path: Path, options: Mapping[str, click.Parameter], ctx: click.Context) -> dict[str, Any]:
    """Return the values in the file of --timing by their keys; list every mistake in it and exit."""
    from receiver.config.yaml_text import read

    values: dict[str, Any] = {}
    try:
        document, mistakes = read(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"cannot read {path}: {error}", param_hint="--timing") from error
    except ConfigError as error:
        refuse(error)
    for key, value in document.items():
        try:
            if key not in options:
                raise Wrong("unknown key", did_you_mean(key, options))
            values[key] = options[key].process_value(ctx, text(value))
        except Wrong as wrong:
            mistakes.append(Mistake(path=key, problem=wrong.problem, remedy=wrong.remedy))
        except click.BadParameter as wrong:
            mistakes.append(Mistake(path=key, problem=wrong.message, remedy="docs/replay.md says what it takes"))
    if mistakes:
        refuse(ConfigError(mistakes))
    return values


@click.command(
    cls=Replay, epilog="\b\n" + fill(f"Names for --compare: {', '.join(NAMES)}.", 76, break_on_hyphens=False)
)
@click.option("--trace", "traces", type=A_FILE, multiple=True, metavar="FILE",
              help="CSV or kubectl -o json; may be repeated.")  # fmt: skip
@click.option("--config", type=A_FILE, metavar="FILE", help="The configuration.  [default: one pool]")
@click.option("--compare", multiple=True, metavar="FILE|NAME",
              help="Another policy, by file or name; repeatable.")  # fmt: skip
@click.option("--billing", type=click.Choice(["hour", "second"]),
              help="What is billed.  [default: as configured]")  # fmt: skip
@click.option("--prometheus", metavar="URL", help="Replay GPU pods from this Prometheus' history.")
@click.option("--since", type=DurationType(), default="30d", show_default=True, help="With --prometheus: how long.")
@click.option("--timing", type=A_FILE, metavar="FILE", help="How long nodes take, and how traces are read.")
@_of_timing("--gpus-per-node", type=click.IntRange(1), default=8)
@_of_timing("--max-gpus", type=click.IntRange(1), default=320)
@options(*CIRCUMSTANCES)
@START
@options(*IMPORTS)
@_of_timing("--split-pods", is_flag=True)
@_of_timing("--skip-misfits", is_flag=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.option("--html", type=A_FILE, metavar="FILE", help="Also write an HTML page.")
def replay(
    traces: tuple[Path, ...],
    as_json: bool,
    html: Path | None,
    timing: Path | None,  # noqa: ARG001 (`Replay` has put its values in the place of the others)
    **arguments: Any,
) -> None:
    """Compare the cost and waits of policies on recorded work.

    The server's own code runs against a simulated Civo and cluster, event by event. It needs no secrets and contacts
    only a Prometheus that you name. The file of --timing is YAML, such as `build: 100s`; docs/replay.md has its keys.
    The exit status is 0 on success, 1 if the figures of a policy do not add up, or if the autoscaler removed a node
    under a running pod or left a job unfinished that its budget paid for, and 2 for invalid input, such as a
    provision_timeout shorter than a new node needs.
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
    """Remove the values of IMPORTS and of the history from *arguments*, and return *reading* and *remembered* (None: no
    Prometheus)."""
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
    for name, length in (("--since", since), ("step", step), ("query_timeout", timeout)):
        if length < timedelta(seconds=1):
            raise click.BadParameter("must be at least 1s", param_hint=name)
    until = until or SystemClock().now().replace(microsecond=0)
    remembered = Remembered(url=url, since=until - since, until=until, step=step, timeout=timeout)
    return {"reading": reading, "remembered": remembered}
