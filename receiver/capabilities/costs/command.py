"""`gpu-autoscaler report`: a month's costs as text, CSV, JSON, one HTML file, or FOCUS."""

import click

from receiver import installed_version
from receiver.capabilities.costs.formats import as_csv, as_text
from receiver.terminal.client import print_json, print_lines, server

FORMATS = ("text", "csv", "json", "html", "focus")


@click.command()
@click.option("--month", metavar="YYYY-MM", help="The month.", show_default="the current one")
@click.option("--team", help="Only this team; empty: work without the label.")
@click.option("--format", "form", type=click.Choice(FORMATS), metavar="FORMAT", default="text", show_default=True,
              help="text, csv, json, html or focus.")  # fmt: skip
def report(month: str | None, team: str | None, form: str) -> None:
    """Show what a month cost, by owner, and what was idle.

    Queries the server at GPU_AUTOSCALER_URL (default http://127.0.0.1:8080). The exit statuses are those of explain;
    1 means that the month has no such team. csv has every cost line, html is the page /costs in one file, focus is CSV
    by node in the schema of the FinOps Open Cost and Usage Specification (FOCUS) 1.2.
    """
    query = {name: value for name, value in (("month", month), ("team", team)) if value is not None}
    with server(as_json=form == "json") as api:
        if form == "focus":
            click.echo(api.get_csv("report", query={**query, "format": form}), nl=False)
            return
        document = api.get("report", query=query).document
    match form:
        case "json":
            print_json(document)
        case "csv":
            click.echo(as_csv(document), nl=False)
        case "html":
            from receiver.capabilities.costs.page import standalone  # it loads Flask

            click.echo(standalone(document, installed_version()))
        case _:
            print_lines(as_text(document))
