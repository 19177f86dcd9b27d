"""`gpu-autoscaler check-config` and `gpu-autoscaler serve`: what reads the configuration file and the environment."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from receiver.config import ConfigError, FileSettings, civo_access, load, load_file
from receiver.config.show import describe
from receiver.terminal.client import refuse

CHECK = "gpu-autoscaler check-config"
CALL_TIMEOUTS = (5, 15)  # seconds to connect to Civo and to read; short, because a person waits


F = TypeVar("F", bound=FileSettings)


def from_civo(loaded: Callable[..., F]) -> tuple[F, Sequence[str]]:
    """Return what *loaded* returns, completed by Civo if the environment names it, and a warning if it does not answer.
    Raises ConfigError."""
    settings = loaded()
    try:
        access = civo_access(os.environ)
    except ConfigError:
        return settings, ()
    if not settings.from_civo:
        return settings, ()
    from receiver.adapters.survey import known_facts  # imports clients that a whole file does not need

    facts, problem = known_facts(settings, access, CALL_TIMEOUTS)
    return (loaded(facts=facts) if facts is not None else settings), ([problem] if problem else ())


@click.command("check-config")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check_config(file: Path | None) -> None:
    """Check FILE and show its settings, or the mistakes in it.

    Without FILE, it checks the file in GPU_AUTOSCALER_CONFIG and the environment, as the server does at startup. What
    the file leaves to Civo is read from there if CIVO_API_KEY, CIVO_REGION and CIVO_CLUSTER_ID are set. The keys that
    most clusters set come first. The exit status is 0 for a valid configuration and 2 for an invalid one.
    """
    try:
        if file is not None:
            settings, problem = from_civo(partial(load_file, file))
            lines = describe(settings, problem)
        else:
            from receiver.adapters.messages import check_every_destination  # loads Apprise: slow

            whole, problem = from_civo(partial(load, os.environ))
            odd = check_every_destination(*whole.environment.destinations(), whole.routes)
            lines = describe(whole, (*problem, *odd))
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
