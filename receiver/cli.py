"""The command line: `gpu-autoscaler COMMAND`."""

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn

import click

from receiver.config import ConfigError, load, load_file
from receiver.config.show import describe

UNUSABLE = 2  # the exit status for a configuration that cannot be used, as for a wrong command line


def installed_version() -> str:
    """Return the version of the installed distribution, or "unknown" in a bare checkout."""
    try:
        return version("civo-gpu-autoscaler")
    except PackageNotFoundError:
        return "unknown"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(installed_version(), prog_name="gpu-autoscaler")
def main() -> None:
    """Scale Civo GPU node pools from Prometheus alerts, within a budget, and say why."""


def _refuse(error: ConfigError) -> NoReturn:
    """List every mistake on standard error and exit."""
    count = len(error.mistakes)
    click.echo(f"cannot be used: {count} mistake{'s' if count != 1 else ''}", err=True)
    for mistake in error.mistakes:
        click.echo(f"  {mistake}", err=True)
    sys.exit(UNUSABLE)


@main.command("check-config")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check_config(file: Path | None) -> None:
    """Check FILE and show how it was understood; every mistake is listed.

    Without FILE the file that GPU_AUTOSCALER_CONFIG names is checked together with the environment, as the
    server would on its start. The exit status is 0 if it can be used and 2 if not.
    """
    try:
        lines = list(describe(load(os.environ) if file is None else load_file(file)))
    except ConfigError as error:
        _refuse(error)
    for line in lines:
        click.echo(line)


@main.command()
def serve() -> None:
    """Take alerts, decide and scale: run the server in the foreground until it is told to stop.

    The configuration is checked first; the exit status is 2 if it cannot be used. What cannot be reached is
    waited for and told, at /healthz, on the page and in the log, instead of ending the server.
    """
    try:
        load(os.environ)
    except ConfigError as error:
        _refuse(error)
    command = [sys.executable, "-m", "gunicorn", "--config", "python:receiver.gunicorn_conf"]
    os.execv(sys.executable, command)  # noqa: S606 (our own interpreter and arguments; gunicorn takes over the process)


if __name__ == "__main__":
    main()
