"""`gpu-autoscaler init`: the first values of the chart, from what Civo says of a cluster."""

import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import click

from receiver.adapters.survey import CivoSurvey, survey_of
from receiver.config import ConfigError, civo_access
from receiver.config.prices import shipped
from receiver.config.starter import ClusterAtCivo, NoGpuPoolError, chart_values
from receiver.ports import Clock, TryLater, WontWork
from receiver.terminal.client import NOT_FOUND, UNREACHABLE, UNUSABLE, refuse

CALL_TIMEOUTS = (5, 15)  # seconds to connect and to read; short, because a person waits
KEY_REFUSED = ("authentication_", "http_401", "http_403")


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write FILE, which must not exist.  [default: print]")  # fmt: skip
@click.pass_obj
def init(clock: Clock, out: Path | None) -> None:
    """Write the chart's values for the GPU pools of your cluster.

    Reads the cluster's pools from Civo with CIVO_API_KEY, CIVO_REGION and CIVO_CLUSTER_ID (CIVO_API_URL for another
    address), and changes nothing there. What only you can decide is marked in the file. The exit status is 0 if the
    file was written, 1 if the cluster does not exist or has no GPU pool, 2 for a variable or FILE that cannot be used
    or a key that Civo refuses, and 3 if Civo does not answer.
    """
    if out is not None and os.path.lexists(out):  # False where the folder cannot be read, and writing says so
        _end(f"{out} exists: move it away, or write to another file", UNUSABLE)
    try:
        access = civo_access(os.environ)
    except ConfigError as error:
        refuse(error)
    try:
        with closing(survey_of(access, CALL_TIMEOUTS)) as civo:
            text = chart_values(_read(civo), shipped(), clock.now().date())
    except TryLater as error:
        _end(f"{error}: try again, and check CIVO_API_URL and the way to Civo (proxy, DNS)", UNREACHABLE)
    except WontWork as error:
        if error.code.startswith(KEY_REFUSED):
            _end(f"Civo refused the key ({error.code}): set CIVO_API_KEY to a key of this account", UNUSABLE)
        _end(str(error), NOT_FOUND if error.code.startswith("database_kubernetes_cluster_") else UNUSABLE)
    except NoGpuPoolError as error:
        remedy = "create a GPU pool (docs/getting-started.md, A new cluster), or check CIVO_CLUSTER_ID"
        _end(f"{error}: {remedy}", NOT_FOUND)
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        written(out, text)
    except OSError as error:
        _end(f"cannot write {out}: {error.strerror or error}: write to another file", UNUSABLE)
    click.echo(f"{out} is written: decide what is marked in it", err=True)


def _read(civo: CivoSurvey) -> ClusterAtCivo:
    """Raises TryLater and WontWork."""
    cloud_pools = civo.look()
    nodes = {pool: at.required for pool, at in cloud_pools.items() if not at.unreadable}
    return ClusterAtCivo(id=civo.cluster_id, region=civo.region, facts=civo.pool_facts(), nodes=nodes)


def written(file: Path, text: str) -> None:
    """Write *file* as a whole, or not at all. Raises OSError, FileExistsError if it exists by now."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.write(text)
        Path(name).chmod(0o644)
        file.touch(exist_ok=False)  # a rename alone would replace a file that was written meanwhile
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)


def _end(message: str, status: int) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(status)
