"""The command line: `gpu-autoscaler COMMAND`."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from receiver import screen
from receiver.asking import as_json, print_json, print_lines, refuse, server
from receiver.budget_commands import budget
from receiver.clock import SystemClock
from receiver.config import ConfigError, load, load_file
from receiver.config.show import describe
from receiver.installed import installed_version
from receiver.override_commands import override
from receiver.ports import Clock
from receiver.report_command import report

POD = re.compile(r"(?P<namespace>[a-z0-9][a-z0-9-]*)/(?P<name>[a-z0-9][a-z0-9.-]*)")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(installed_version(), prog_name="gpu-autoscaler")
def main() -> None:
    """Scale Civo GPU node pools from Prometheus alerts, within a budget, and say why."""


@main.command("check-config")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check_config(file: Path | None) -> None:
    """Check FILE and show how it was understood; every mistake is listed.

    Without FILE the file that GPU_AUTOSCALER_CONFIG names is checked together with the environment, as the
    server would on its start. The exit status is 0 if it can be used and 2 if not.
    """
    try:
        lines = list(describe(load_file(file)) if file is not None else _describe_everything())
    except ConfigError as error:
        refuse(error)
    for line in lines:
        click.echo(line)


def _describe_everything() -> Iterator[str]:
    """Yield how file and environment were understood, and which destinations of messages were not."""
    from receiver.adapters.destinations import check_every_destination  # Apprise takes a while to load

    settings = load(os.environ)
    urls, of_teams = settings.environment.destinations()
    yield from describe(settings, check_every_destination(urls, of_teams))


@main.command()
def serve() -> None:
    """Take alerts, decide and scale: run the server in the foreground until it is told to stop.

    The configuration is checked first; the exit status is 2 if it cannot be used. What cannot be reached is
    waited for and told, at /healthz, on the page and in the log, instead of ending the server.
    """
    try:
        load(os.environ)
    except ConfigError as error:
        refuse(error)
    command = [sys.executable, "-m", "gunicorn", "--config", "python:receiver.gunicorn_conf"]
    os.execv(sys.executable, command)  # noqa: S606 (our own interpreter and arguments; gunicorn takes over the process)


@main.group()
def explain() -> None:
    """Say why a pod waits, or why a pool has the size it has.

    The server is asked that GPU_AUTOSCALER_URL names (http://127.0.0.1:8080 unless it is set). The exit status is 0
    if it could be explained, 1 if there is no such thing, 2 for a wrong command line or URL and 3 if the server
    cannot be reached.
    """


@explain.command("pod")
@click.argument("pod", metavar="NAMESPACE/NAME")
@as_json
@click.pass_obj
def explain_pod(clock: Clock | None, pod: str, as_json: bool) -> None:
    """Say what a waiting GPU pod waits for, and what would help it."""
    named = POD.fullmatch(pod)
    if named is None:
        raise click.BadParameter("write NAMESPACE/NAME, such as ml/train-0", param_hint="NAMESPACE/NAME")
    with server(as_json=as_json) as api:
        answer = api.get("waiting", named["namespace"], named["name"])
    if as_json:
        print_json(answer.document)
    else:
        print_lines(screen.about_pod(answer.document, answer.at, (clock or SystemClock()).now()))


@explain.command("pool")
@click.argument("name")
@as_json
@click.pass_obj
def explain_pool(clock: Clock | None, name: str, as_json: bool) -> None:
    """Say how many nodes a pool has, how many it should have, and every rule that spoke about it."""
    with server(as_json=as_json) as api:
        answer = api.get("pools", name)
        number = answer.document.get("decision")
        decision = api.get("decisions", str(number)).document if number is not None else None
    if as_json:
        print_json({"pool": answer.document, "decision": decision})
    else:
        print_lines(screen.about_pool(answer.document, decision, answer.at, (clock or SystemClock()).now()))


main.add_command(override)
main.add_command(budget)
main.add_command(report)


if __name__ == "__main__":
    main()
