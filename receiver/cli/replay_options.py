"""The options of `gpu-autoscaler replay` that say how things go in the replayed world."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from receiver.config.fields import duration
from receiver.config.mistakes import Wrong

NEVER = "none"


class Duration(click.ParamType[timedelta | None]):
    """A length of time as the configuration takes it; *never* adds the word none, for what there is not."""

    name = "duration"

    def __init__(self, *, never: bool = False) -> None:
        self._never = never

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | None:
        """Return the length, None for none; fail with the remedy."""
        if value is None or isinstance(value, timedelta) or (self._never and value == NEVER):
            return value if isinstance(value, timedelta) else None
        try:
            return duration(value)
        except Wrong as error:
            self.fail(f"{error}; {error.remedy}" + (f", or {NEVER}" if self._never else ""), param, ctx)


class Packing(click.Choice[str]):
    """How pods are packed, with a dash or an underscore."""

    def __init__(self) -> None:
        super().__init__(["first_fit", "kube"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the choice."""
        return str(super().convert(str(value).replace("-", "_"), param, ctx))


def _utc(_ctx: click.Context, _param: click.Parameter, value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC)


# Each option in the words of `receiver.replay.setting.Setting`, whose defaults they repeat (a test compares them).
CIRCUMSTANCES = (
    click.option("--build", type=Duration(), default="100s", show_default=True,
                 help="From asking for a node until it is an instance. No figure is published; 2-10 min is assumed."),
    click.option("--boot", type=Duration(), default="20s", show_default=True,
                 help="From the instance until its node is Ready."),
    click.option("--driver", type=Duration(), default="180s", show_default=True,
                 help="From Ready until the GPUs are usable; 3-7 min with NVIDIA's GPU operator."),
    click.option("--delete", type=Duration(), default="20s", show_default=True,
                 help="From deleting an instance until it is gone; it is paid until then."),
    click.option("--image-pull", type=Duration(), default="0s", show_default=True,
                 help="From the moment a pod has a node until it runs."),
    click.option("--jitter", type=click.FloatRange(0, 1, max_open=True), metavar="RATIO", default=0.0,
                 show_default=True, help="By which share each of these varies, up and down (0-1)."),
    click.option("--packing", type=Packing(), default="first_fit", show_default=True,
                 help="Of the nodes with room a pod goes to the oldest; with kube to the emptiest."),
    click.option("--tick", type=Duration(), default="10s", show_default="as configured",
                 help="How often the product looks at least."),
    click.option("--watch", type=Duration(never=True), default="500ms", show_default="500ms if configured",
                 help="After how long the watch of pods wakes the product; none: it has no watch."),
    click.option("--scrape", type=Duration(never=True), default="15s", show_default=True,
                 help="How often Prometheus scrapes; none: no alert ever wakes the product."),
    click.option("--evaluation", type=Duration(), default="5s", show_default=True,
                 help="How often Prometheus evaluates the rules on demand, as shipped."),
    click.option("--group-wait", type=Duration(), default="0s", show_default=True,
                 help="How long Alertmanager waits before it sends, as shipped."),
    click.option("--seed", type=int, metavar="NUMBER", default=0, show_default=True,
                 help="Of names and of the jitter: the same seed gives the same bytes."),
)  # fmt: skip


def circumstances(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to *command*, in order."""
    for option in reversed(CIRCUMSTANCES):
        command = option(command)
    return command


start = click.option(
    "--start",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]),
    callback=_utc,
    metavar="TIME",
    help="When a trace begins that counts seconds (UTC); the first of January 2026 unless it is given.",
)
