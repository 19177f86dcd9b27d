"""The options of `gpu-autoscaler replay` that say where its jobs come from and how they are read."""

from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.replay_options import Duration

MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]


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
    click.option("--since", type=Duration(), default="30d", show_default=True,
                 help="With --prometheus: how far back."),
    click.option("--until", type=click.DateTime(MOMENTS), metavar="TIME",
                 help="Until when a Prometheus is read, and when an export of Kubernetes was made (UTC); now, and when "
                      "its file was written."),
    click.option("--step", type=Duration(), default="30s", show_default=True,
                 help="With --prometheus: how often kube-state-metrics is scraped."),
    click.option("--query-timeout", type=Duration(), default="60s", show_default=True,
                 help="With --prometheus: how long one query may take."),
)  # fmt: skip


def imports(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to *command*, in order."""
    for option in reversed(IMPORTS):
        command = option(command)
    return command


def taken(given: dict[str, Any]) -> dict[str, Any]:
    """Take the values of these options out of *given*; return *reading*, and *remembered* (None: no Prometheus)."""
    from receiver.cli.imports import Remembered  # what the other commands need not load
    from receiver.replay.traces import Reading

    until = given.pop("until")
    until = None if until is None else until.replace(tzinfo=UTC)
    reading = Reading(
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
