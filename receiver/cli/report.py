"""`gpu-autoscaler report`: the cost of a month, by owner, and what was idle."""

import click

from receiver.cli.client import print_json, print_lines, server
from receiver.config.environment import installed_version
from receiver.reports.formats import as_csv, as_text
from receiver.web.api.reports import standalone

FORMATS = ("text", "csv", "json", "html")


@click.command()
@click.option("--month", metavar="YYYY-MM", help="Which month; the current one unless it is given.")
@click.option("--team", help="The report of one team, by its label; an empty one is of work without the label.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
def report(month: str | None, team: str | None, form: str) -> None:
    """Say what a month cost, whose it was, and what lay idle.

    The server is asked that GPU_AUTOSCALER_URL names, as with explain, with the same exit statuses: 1 is a team that
    the month does not know. csv has every cost line, html is the page /costs in one file.
    """
    query = {name: value for name, value in (("month", month), ("team", team)) if value is not None}
    with server(as_json=form == "json") as api:
        document = api.get("report", query=query).document
    match form:
        case "json":
            print_json(document)
        case "csv":
            click.echo(as_csv(document), nl=False)
        case "html":
            click.echo(standalone(document, installed_version()))
        case _:
            print_lines(as_text(document))
