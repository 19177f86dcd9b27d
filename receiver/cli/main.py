"""The command line: `gpu-autoscaler COMMAND`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from receiver.cli.approval import answer as answer_question
from receiver.cli.approval import questions
from receiver.cli.budget import budget
from receiver.cli.client import refuse
from receiver.cli.completion import completion
from receiver.cli.doctor import doctor
from receiver.cli.explain import explain
from receiver.cli.override import override
from receiver.cli.replay import replay
from receiver.cli.report import report
from receiver.cli.status import status
from receiver.config import ConfigError, load, load_file
from receiver.config.environment import installed_version
from receiver.config.show import describe


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
    from receiver.adapters.messages.destinations import check_every_destination  # Apprise takes a while to load

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
    # glibc gives each of many threads a heap of its own and returns little of them: 10 MB more after a storm of alerts.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    command = [sys.executable, "-m", "gunicorn", "--config", "python:receiver.server.gunicorn_conf"]
    os.execv(sys.executable, command)  # noqa: S606 (our own interpreter and arguments; gunicorn takes over the process)


main.add_command(doctor)
main.add_command(status)
main.add_command(explain)
main.add_command(override)
main.add_command(questions)
main.add_command(answer_question)
main.add_command(budget)
main.add_command(report)
main.add_command(replay)
main.add_command(completion)


if __name__ == "__main__":
    main()
