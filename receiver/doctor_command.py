"""`gpu-autoscaler doctor`: look at a live installation, and say what is wrong and what helps."""

import os
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from receiver import doctor_tasks
from receiver.asking import UNUSABLE, print_json
from receiver.clock import SystemClock
from receiver.config import ConfigError, load
from receiver.installed import installed_version
from receiver.ports import Clock
from receiver.replay_options import Duration

if TYPE_CHECKING:
    from receiver.doctor.finding import Finding
    from receiver.doctor.report import Found

FAILED = 1


def _areas(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """The areas that TAB offers."""
    from receiver.doctor.areas import AREAS

    return [area.name for area in AREAS if area.name.startswith(typed)]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON (docs/doctor.md has the keys).")
@click.option(
    "--only",
    "only",
    metavar="AREA",
    multiple=True,
    shell_complete=_areas,
    help="Look at this area only; may be given again.",
)
@click.option("--problems", is_flag=True, help="Show warnings and failures only, and the count of all.")
@click.option("--send-test-alert", is_flag=True, help="Send an alert through Alertmanager and see it come back to us.")
@click.option("--send-test-message", is_flag=True, help="Send a test message to every destination.")
@click.option(
    "--smoke", is_flag=True, help="Only try it: a GPU pod from nothing to running, timed; it costs a node-hour."
)
@click.option("--pool", metavar="NAME", help="The pool that --smoke tries.", show_default="the cheapest")
@click.option("--namespace", default="default", show_default=True, help="Where --smoke creates its pod.")
@click.option("--timeout", type=Duration(), help="When --smoke gives up.", show_default="provision_timeout and 10m")
@click.option("--release", is_flag=True, help="Only undo what acting left: cordons, soft taints, quotas, held queues.")
@click.option("--yes", is_flag=True, help="Do not ask before --smoke and --release.")
@click.pass_obj
def doctor(
    clock: Clock | None,
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

    It reads file and environment as the server does, asks everything that the server would ask, and changes nothing
    unless an option says so: --smoke, --release and --send-... do. It may run beside the server. The exit status is 0
    if no check failed, 1 if one did or you said no, and 2 for a wrong command line or a configuration that cannot be
    used.
    """
    from receiver.doctor.area import Installation  # what areas ask with takes a while to load
    from receiver.doctor.areas import AREAS
    from receiver.doctor.configuration import unreadable
    from receiver.doctor.rounds import go_round

    names = [area.name for area in AREAS]
    unknown = [name for name in only if name not in names]
    if smoke and release:
        raise click.UsageError("--smoke and --release exclude each other")
    if unknown:
        raise click.BadParameter(f"no area {', '.join(unknown)}; there are {', '.join(names)}", param_hint="--only")
    clock = clock or SystemClock()
    try:
        settings = load(os.environ)
    except ConfigError as error:
        _show([("configuration", unreadable(error.mistakes))], None, clock.now(), as_json=as_json)
        sys.exit(UNUSABLE)
    installation = Installation(
        settings=settings,
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
        areas = [area for area in AREAS if not only or area.name in only]
        visited = [(area.name, findings) for area, findings in go_round(areas, installation)]
    _show(
        visited,
        settings.configuration.mode.value,
        clock.now(),
        as_json=as_json,
        problems=problems,
        told=smoke or release,
    )
    if any(finding.verdict == "fail" for _, findings in visited for finding in findings):
        sys.exit(FAILED)


def _teller(as_json: bool) -> doctor_tasks.Told:
    """Return what shows a finding as soon as it is there; a program reads the whole at the end."""
    from receiver.doctor import report

    def tell(finding: "Finding") -> None:
        for line in () if as_json else report.told(finding):
            click.echo(line)

    return tell


def _show(
    found: "Found", mode: str | None, at: datetime, *, as_json: bool, problems: bool = False, told: bool = False
) -> None:
    from receiver.doctor import report

    if as_json:
        print_json(report.document(found, version=installed_version(), mode=mode, at=at))
        return
    for line in [report.summary(found)] if told else report.lines(found, problems=problems):
        click.echo(line)
