"""``python -m conformance``: play the product's scenarios against a cluster; a table on stdout, the rest on stderr."""

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click
import urllib3
from kubernetes.config import ConfigException

from conformance.cluster import NotOursError
from conformance.kubernetes_api import ApiRefused
from conformance.report import estimate, line, summary, table, write_junit
from conformance.rights import named
from conformance.scenario import Result, Scenario, UnavailableError
from conformance.scenarios import chosen, split
from conformance.stage import Place
from conformance.suite import Ceiling, play
from demo.stack import until_signalled

SIMULATOR = "simulator"


def _price(environ: Mapping[str, str]) -> Decimal:
    try:
        return Decimal(environ["CONFORMANCE_USD_PER_HOUR"])
    except (KeyError, InvalidOperation):
        raise click.UsageError("--civo real needs CONFORMANCE_USD_PER_HOUR, the price of a node-hour") from None


def _ceiling(civo: str, cluster: str, may_spend: Decimal | None) -> Ceiling:
    if civo == "stub":
        return Ceiling(None, Decimal(0))
    if cluster == SIMULATOR:
        raise click.UsageError("--civo real needs the kubeconfig of the cluster at Civo: --cluster FILE")
    if may_spend is None:
        raise click.UsageError("--civo real buys nodes: say with --may-spend how much (USD)")
    return Ceiling(may_spend, _price(os.environ))


@click.command(context_settings={"max_content_width": 120})
@click.option("--cluster", default=SIMULATOR, show_default=True, help="A kubeconfig, or 'simulator'.")
@click.option("--civo", type=click.Choice(["stub", "real"]), default="stub", show_default=True, help="Who sells nodes.")
@click.option("--kubelet", type=click.Choice(["stub", "kwok"]), default="stub", show_default=True)
@click.option("--prometheus", help="A Prometheus with the shipped rules; one is started otherwise.")
@click.option("--alertmanager", help="Its Alertmanager; one is started otherwise.")
@click.option("--only", "only", multiple=True, metavar="NAMES", help="Scenarios, with commas; may be repeated.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write the results there as JUnit XML.")
@click.option("--table", "table_file", type=click.Path(path_type=Path), help="Write the table there too.")
@click.option("--may-spend", type=Decimal, metavar="USD", help="With --civo real: what may be spent at Civo.")
@click.option("--patience", type=float, default=1.0, help="How many times as long as usual anything may take.")
@click.option("--beside", is_flag=True, help="Play although an autoscaler is at work in the cluster.")
@click.option("--traceback", is_flag=True, help="Show where the suite broke.")
@click.option("--list", "listed", is_flag=True, help="Name the scenarios and end.")
def main(listed: bool, only: tuple[str, ...], junit: Path | None, table_file: Path | None, **where: Any) -> None:
    """Play the product's scenarios against a cluster. See conformance/README.md: what it touches, and which rights it
    needs."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    if listed:
        for each in chosen():
            click.echo(f"{each.name}: {each.expected}" + (f"\n  needs {named(each.rights)}" if each.rights else ""))
        return
    if bool(where["prometheus"]) != bool(where["alertmanager"]):
        raise click.UsageError("--prometheus and --alertmanager go together")
    sys.exit(until_signalled(lambda: _run(only, junit, table_file, **where)))


def _run(only: tuple[str, ...], junit: Path | None, table_file: Path | None, **where: Any) -> int:
    ceiling, results = _ceiling(where["civo"], where["cluster"], where["may_spend"]), list[Result]()
    try:
        scenarios = chosen(split(only))
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    def place_of(number: int) -> str:
        return f"{number} of {len(scenarios)}"

    def begin(scenario: Scenario) -> None:
        click.echo(f"{place_of(len(results) + 1)}: {scenario.name} ...", err=True)

    def tell(result: Result) -> None:
        results.append(result)
        click.echo(line(result, place_of(len(results)), traceback=where["traceback"]))

    click.echo(estimate([scenario.name for scenario in scenarios]))
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        place = Place(
            folder=Path(folder),
            kubeconfig=None if where["cluster"] == SIMULATOR else Path(where["cluster"]),
            real_civo=where["civo"] == "real",
            environ=os.environ,
            kubelet=where["kubelet"],
            prometheus=where["prometheus"],
            alertmanager=where["alertmanager"],
            patience=where["patience"],
        )
        try:
            play(scenarios, place, ceiling, tell, begin, beside=where["beside"])
        except (UnavailableError, NotOursError, ApiRefused, ConfigException, urllib3.exceptions.HTTPError) as error:
            raise click.ClickException(f"the cluster cannot be used: {error}") from None
        finally:
            _publish(results, junit, table_file)
    return int(any(r.verdict in ("failed", "error") for r in results))


def _publish(results: list[Result], junit: Path | None, table_file: Path | None) -> None:
    if not results:
        return
    click.echo(f"\n{table(results)}\n\n{summary(results)}")
    if junit is not None:
        write_junit(results, junit)
    if table_file is not None:
        table_file.write_text(f"{table(results)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
