"""`gpu-autoscaler check-config` and `gpu-autoscaler serve`: what reads the configuration file and the environment."""

import os
import shlex
import sys
from pathlib import Path

import click

from receiver.cli.client import refuse
from receiver.config import ConfigError, load, load_file
from receiver.config.show import describe

CHECK = "gpu-autoscaler check-config"


@click.command("check-config")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check_config(file: Path | None) -> None:
    """Check FILE and show its settings, or the mistakes in it.

    Without FILE, it checks the file in GPU_AUTOSCALER_CONFIG and the environment, as the server does at startup.
    Contradictions between keys are found once each value is right. The exit status is 0 for a valid configuration and
    2 for an invalid one.
    """
    try:
        if file is not None:
            lines = describe(load_file(file))
        else:
            from receiver.adapters.messages import check_every_destination  # loads Apprise: slow

            settings = load(os.environ)
            lines = describe(settings, check_every_destination(*settings.environment.destinations(), settings.routes))
    except ConfigError as error:
        refuse(error, " ".join([CHECK, *([shlex.quote(str(file))] if file else [])]))
    for line in lines:
        click.echo(line)


@click.command()
def serve() -> None:
    """Run the server in the foreground.

    The configuration is checked first; the exit status is 2 if it is invalid. The server starts even if the store,
    Civo, Kubernetes or Prometheus is unreachable: it keeps retrying and reports this at /readyz, on the pages and in
    the log.
    """
    try:
        load(os.environ)
    except ConfigError as error:
        refuse(error, CHECK)
    # glibc gives each of many threads a heap of its own and returns little of them: 10 MB more after a storm of alerts.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    command = [sys.executable, "-m", "gunicorn", "--config", "python:receiver.server.gunicorn_conf"]
    os.execv(sys.executable, command)  # noqa: S606 (our own interpreter and arguments; gunicorn takes over the process)
