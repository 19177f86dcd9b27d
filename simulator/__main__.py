"""``python -m simulator --config FILE``: serve until stopped; the addresses are one JSON line on stdout."""

import json
import logging
import signal
import sys
import threading
from pathlib import Path

import click

from simulator.config import Unreadable, load
from simulator.server import Simulator


@click.command()
@click.option("--config", "config_path", type=click.Path(path_type=Path), required=True, help="A YAML file.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Write a kubeconfig for the cluster there.")
@click.option("--verbose", is_flag=True, help="Log every call to stderr.")
def main(config_path: Path, kubeconfig: Path | None, verbose: bool) -> None:
    """Serve a simulated Civo region with one Kubernetes cluster."""
    logging.basicConfig(stream=sys.stderr, level=logging.DEBUG if verbose else logging.WARNING)
    told_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_stop.set())
    try:
        simulator = Simulator(load(config_path))
        simulator.start()
    except Unreadable as error:
        raise click.ClickException("\n".join((f"{config_path}:", *error.errors))) from None
    except OSError as error:
        raise click.ClickException(f"cannot listen: {error}") from None
    try:
        if kubeconfig is not None:
            simulator.kubeconfig(kubeconfig)
        click.echo(json.dumps(dict(simulator.addresses())))
        sys.stdout.flush()
        told_to_stop.wait()
    finally:
        simulator.stop()


if __name__ == "__main__":
    main()
