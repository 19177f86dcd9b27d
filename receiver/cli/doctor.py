"""`gpu-autoscaler doctor`: check a live installation and show remedies."""

import os
import sys
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from receiver.adapters.clock import SystemClock
from receiver.cli import doctor_tasks, doctor_text
from receiver.cli.client import UNUSABLE, DurationType, print_json
from receiver.cli.doctor_text import Found
from receiver.config import ConfigError, Settings, load
from receiver.config.environment import installed_version
from receiver.ports import Clock

if TYPE_CHECKING:
    from receiver.doctor.checks import Finding, Installation

FAILED = 1
OF_A_ROUND = frozenset({"only", "problems", "send_test_alert", "send_test_message"})
OF_SMOKE = frozenset({"pool", "namespace", "timeout"})
SENDS = {"send_test_alert": "alertmanager", "send_test_message": "messages"}  # the area of an option


def _areas(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """Return the areas for completion."""
    from receiver.doctor.rounds import AREAS

    return [area.name for area in AREAS if area.name.startswith(typed)]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON (docs/doctor.md has the keys).")
@click.option(
    "--only",
    "only",
    metavar="AREA",
    multiple=True,
    shell_complete=_areas,
    help="Check this area only; may be repeated.",
)
@click.option("--problems", is_flag=True, help="Show only warnings, failures and the summary.")
@click.option(
    "--send-test-alert", is_flag=True, help="Send an alert through Alertmanager and wait until the server has it."
)
@click.option("--send-test-message", is_flag=True, help="Send a test message to every destination.")
@click.option("--smoke", is_flag=True, help="Run only the smoke test: start a GPU pod and time it; costs a node-hour.")
@click.option("--pool", metavar="NAME", help="The pool for --smoke.", show_default="the cheapest")
@click.option("--namespace", default="default", show_default=True, help="The namespace of the pod of --smoke.")
@click.option(
    "--timeout", type=DurationType(), help="The timeout of --smoke.", show_default="provision_timeout and 10m"
)
@click.option(
    "--release", is_flag=True, help="Only undo changes of mode act: cordons, soft taints, quotas, held queues."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --smoke and --release.")
@click.pass_context
def doctor(
    ctx: click.Context,
    as_json: bool,
    only: tuple[str, ...],
    problems: bool,
    send_test_alert: bool,
    send_test_message: bool,
    smoke: bool,
    pool: str | None,
    namespace: str,
    timeout: timedelta | None,
    release: bool,
    yes: bool,
) -> None:
    """Check a live installation: configuration, rights, pools, monitoring, routing, store.

    It reads the same file and environment as the server and queries the same systems. It changes nothing except with
    --smoke, --release and --send-... It may run beside the server. The exit status is 0 if no check failed, 1 if one
    did or you declined, and 2 for a wrong command line or an invalid configuration.
    """
    from receiver.doctor.checks import Installation  # slow to import

    _refuse_what_does_not_fit(ctx)
    clock: Clock = ctx.obj or SystemClock()
    installation = Installation(
        settings=_loaded(clock, as_json=as_json),
        environ=os.environ,
        clock=clock,
        send_test_alert=send_test_alert,
        send_test_message=send_test_message,
    )
    visited: Found
    if smoke:
        tried = doctor_tasks.smoke(
            installation, _teller(as_json), pool=pool, namespace=namespace, timeout=timeout, sure=yes
        )
        visited = [("smoke", tried)]
    elif release:
        visited = [("release", doctor_tasks.release(installation, _teller(as_json), sure=yes))]
    else:
        visited = _round(installation, only)
    mode = installation.settings.configuration.mode.value
    _show(visited, mode, clock.now(), as_json=as_json, problems=problems, told=smoke or release)
    if any(finding.verdict == "fail" for _, findings in visited for finding in findings):
        sys.exit(FAILED)


def _refuse_what_does_not_fit(ctx: click.Context) -> None:
    """Refuse options that would be ignored silently."""
    from receiver.doctor.rounds import AREAS

    given = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    only, names = ctx.params["only"], [area.name for area in AREAS]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise click.BadParameter(
            f"unknown area {', '.join(unknown)}; use one of: {', '.join(names)}", param_hint="--only"
        )
    if {"smoke", "release"} <= given:
        raise click.UsageError("--smoke and --release exclude each other")
    task = "--smoke" if "smoke" in given else "--release" if "release" in given else ""
    if task and (beside := _options(given & OF_A_ROUND)):
        raise click.UsageError(f"{task} runs nothing else, so {beside} would have no effect")
    if "smoke" not in given and (beside := _options(given & OF_SMOKE)):
        raise click.UsageError(f"{beside} would have no effect without --smoke")
    for option, area in SENDS.items():
        if option in given and only and area not in only:
            raise click.UsageError(f"{_options({option})} also needs --only {area}, or no --only at all")


def _options(parameters: Collection[str]) -> str:
    return " and ".join(f"--{name.replace('_', '-')}" for name in sorted(parameters))


def _loaded(clock: Clock, *, as_json: bool) -> Settings:
    """Return the settings; show their mistakes and exit if they are invalid."""
    from receiver.doctor.configuration import unreadable
    from receiver.doctor.rounds import hidden, secrets_in

    try:
        return load(os.environ)
    except ConfigError as error:
        secrets = secrets_in(os.environ)
        found = [hidden(finding, secrets) for finding in unreadable(error.mistakes)]
        _show([("configuration", found)], None, clock.now(), as_json=as_json)
        sys.exit(UNUSABLE)


def _round(installation: "Installation", only: Collection[str]) -> Found:
    from receiver.doctor.rounds import AREAS, go_round

    areas = [area for area in AREAS if not only or area.name in only]
    return [(area.name, findings) for area, findings in go_round(areas, installation)]


def _teller(as_json: bool) -> doctor_tasks.Told:
    """Return a function that shows a finding at once; JSON is printed at the end."""

    def tell(finding: "Finding") -> None:
        for line in () if as_json else doctor_text.told(finding):
            click.echo(line)

    return tell


def _show(
    found: Found,
    mode: str | None,
    at: datetime,
    *,
    as_json: bool,
    problems: bool = False,
    told: bool = False,
) -> None:
    if as_json:
        print_json(doctor_text.document(found, version=installed_version(), mode=mode, at=at))
        return
    for line in [doctor_text.summary(found)] if told else doctor_text.lines(found, problems=problems):
        click.echo(line)
