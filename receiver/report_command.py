"""`gpu-autoscaler report`: what a month cost, whose it was, and what lay idle."""

from enum import StrEnum

import click

from receiver.asking import print_json, print_lines, server
from receiver.metrics import installed_version
from receiver.reports.table import as_csv
from receiver.reports.text import as_text
from receiver.web.reports import standalone


class ReportFormat(StrEnum):
    """What a report is printed as."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    HTML = "html"


@click.command()
@click.option("--month", metavar="YYYY-MM", help="Which month; the current one unless it is given.")
@click.option("--team", help="The report of one team, by its label; an empty one is of work without the label.")
@click.option("--format", "form", type=click.Choice(list(ReportFormat)), default=ReportFormat.TEXT, show_default=True)
def report(month: str | None, team: str | None, form: str) -> None:
    """Say what a month cost, whose it was, and what lay idle.

    The server is asked that GPU_AUTOSCALER_URL names, as with explain, with the same exit statuses: 1 is a team that
    the month does not know. csv has every cost line, html is the page /costs in one file.
    """
    query = {name: value for name, value in (("month", month), ("team", team)) if value is not None}
    with server(as_json=form == ReportFormat.JSON) as api:
        document = api.get("report", query=query).document
    match form:
        case ReportFormat.JSON:
            print_json(document)
        case ReportFormat.CSV:
            click.echo(as_csv(document), nl=False)
        case ReportFormat.HTML:
            click.echo(standalone(document, installed_version()))
        case _:
            print_lines(as_text(document))
