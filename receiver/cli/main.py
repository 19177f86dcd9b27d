"""The command line: `gpu-autoscaler COMMAND`."""

import os
import shlex
import sys
from pathlib import Path

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.client import completion, print_json, print_lines, refuse, server
from receiver.cli.doctor import doctor
from receiver.cli.explain import explain
from receiver.cli.operate import answer, budget, override, questions
from receiver.cli.replay import replay
from receiver.cli.status import status
from receiver.cli.what_if import what_if
from receiver.config import ConfigError, load, load_file
from receiver.config.environment import installed_version
from receiver.config.show import describe
from receiver.reports.formats import as_csv, as_text
from receiver.web.api.reports import standalone

CHECK = "gpu-autoscaler check-config"
FORMATS = ("text", "csv", "json", "html", "focus")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(installed_version(), prog_name="gpu-autoscaler")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Scale Civo GPU node pools from Prometheus alerts, within a budget."""
    ctx.obj = ctx.obj or SystemClock()


@main.command("check-config")
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


@main.command()
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


@main.command()
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
            click.echo(standalone(document, installed_version()))
        case _:
            print_lines(as_text(document))


for command in (doctor, status, explain, override, questions, answer, budget, what_if, replay, completion):
    main.add_command(command)


if __name__ == "__main__":
    main()
