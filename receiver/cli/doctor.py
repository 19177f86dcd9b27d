"""`gpu-autoscaler doctor`: check a live installation and show remedies."""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import Any

import click
from click.core import ParameterSource

from receiver.adapters.clock import SystemClock
from receiver.cli.client import UNUSABLE, DurationType, print_json
from receiver.config import ConfigError, Settings, load
from receiver.config.environment import installed_version
from receiver.core.model.text import some
from receiver.doctor.checks import PROBLEMS, VERDICTS, Finding, Installation
from receiver.ports import Clock, TryLater, WontWork
from receiver.reports.screen import printable

FAILED = 1
OF_A_ROUND = frozenset({"only", "problems", "send_test_alert", "send_test_message"})
OF_SMOKE = frozenset({"pool", "namespace", "timeout"})
SENDS = {"send_test_alert": "alertmanager", "send_test_message": "messages"}  # the area of an option
Teller = Callable[[Finding], None]
STOPPED = 128 + signal.SIGTERM
Found = Sequence[tuple[str, Sequence[Finding]]]  # findings by the name of the area
COLOURS = {"pass": "green", "warn": "yellow", "fail": "red", "skip": "bright_black"}
SHOWN = {"pass": "pass", "warn": "WARN", "fail": "FAIL", "skip": "skip"}


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
        tried = run_smoke(installation, _teller(as_json), pool=pool, namespace=namespace, timeout=timeout, sure=yes)
        visited = [("smoke", tried)]
    elif release:
        visited = [("release", run_release(installation, _teller(as_json), sure=yes))]
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


def _round(installation: Installation, only: Collection[str]) -> Found:
    from receiver.doctor.rounds import AREAS, go_round

    areas = [area for area in AREAS if not only or area.name in only]
    return [(area.name, findings) for area, findings in go_round(areas, installation)]


def _teller(as_json: bool) -> Teller:
    """Return a function that shows a finding at once; JSON is printed at the end."""

    def tell(finding: Finding) -> None:
        for line in () if as_json else finding_lines(finding):
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
        print_json(document(found, version=installed_version(), mode=mode, at=at))
        return
    for line in [summary(found)] if told else table(found, problems=problems):
        click.echo(line)


def run_smoke(
    installation: Installation,
    tell: Teller,
    *,
    pool: str | None,
    namespace: str,
    timeout: timedelta | None,
    sure: bool,
    wait: Callable[[float], None] = time.sleep,
) -> list[Finding]:
    """Run the smoke test on *pool* (None: the cheapest), show each finding at once, and return them all."""
    from receiver.doctor import smoke as test

    try:
        tried = test.chosen(installation.settings, pool)
    except LookupError as error:
        names = ", ".join(p.name for p in installation.settings.policy.pools)
        raise click.BadParameter(f"unknown pool {error}; use one of: {names}", param_hint="--pool") from None
    plan = test.Trial(
        pool=tried,
        namespace=namespace,
        timeout=timeout or test.longest(tried),
        wait=wait,
    )
    price = f"USD {tried.price_usd_per_hour}" if tried.price_usd_per_hour is not None else "an unknown price"
    asked = (
        f"The smoke test creates the pod {namespace}/{test.NAME}, for which a node of pool {tried.name} may be bought"
    )
    _ask(f"{asked}: at least one hour at {price}. Continue?", sure=sure)
    with _stopped_in_order():
        return _shown(installation, test.smoke(installation, plan), tell)


def run_release(installation: Installation, tell: Teller, *, sure: bool) -> list[Finding]:
    """List the changes of mode act and undo them, showing each finding at once."""
    from receiver.doctor import kubernetes
    from receiver.doctor import release as task

    def steps() -> Iterator[Finding]:
        server = task.server(installation)
        yield server
        if server.verdict == "fail":
            return
        try:
            with closing(kubernetes.opened(installation)) as cluster:
                marks, unseen = task.marks(cluster)
                for mark in marks:
                    click.echo(f"      {printable(mark.said)}", err=True)
                if marks:
                    _ask(f"Undo {'these ' if len(marks) > 1 else 'this '}{len(marks)}?", sure=sure)
                yield from task.undone(marks, unseen)
        except (TryLater, WontWork) as error:
            yield task.UNDONE.failed(str(error))

    return _shown(installation, steps(), tell)


def _ask(question: str, *, sure: bool) -> None:
    if not sure:
        click.confirm(question, abort=True, err=True)


def _shown(installation: Installation, findings: Iterable[Finding], tell: Teller) -> list[Finding]:
    """Show each of *findings* without secrets and return them; the generator is always closed, so that it cleans up."""
    from receiver.doctor.rounds import hidden, secrets_of

    secrets, found = secrets_of(installation), []
    generator: Any = findings
    with closing(generator):
        for finding in generator:
            found.append(hidden(finding, secrets))
            tell(found[-1])
    return found


@contextmanager
def _stopped_in_order() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that the test cleans up."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def counts(found: Found) -> dict[str, int]:
    """Return the number of findings of every verdict."""
    counted = Counter(finding.verdict for _, findings in found for finding in findings)
    return {verdict: counted[verdict] for verdict in VERDICTS}


def table(found: Found, *, problems: bool = False) -> Iterator[str]:
    """Yield a table, area by area, with remedies, and a summary at the end.

    With *problems* the table has only warnings and failures.
    """
    shown = [f for _, findings in found for f in findings if not problems or f.verdict in PROBLEMS]
    width = max((len(finding.check) for finding in shown), default=0)
    for finding in shown:
        yield from finding_lines(finding, width)
    yield summary(found)


def finding_lines(finding: Finding, width: int = 16) -> Iterator[str]:
    """Yield the lines of one finding, the name of its check in *width* columns."""
    verdict = click.style(SHOWN[finding.verdict], fg=COLOURS[finding.verdict])
    yield f"{verdict}  {finding.check:{width}}  {printable(finding.said)}"
    if finding.remedy:
        yield f"      {'':{width}}  what to do: {printable(finding.remedy)}"


def summary(found: Found) -> str:
    """Return the summary line."""
    number = counts(found)
    parts = [
        f"{number['pass']} passed",
        some(number["warn"], "warning"),
        f"{number['fail']} failed",
        f"{number['skip']} skipped",
    ]
    return ", ".join(parts)


def document(found: Found, *, version: str, mode: str | None, at: datetime) -> dict[str, Any]:
    """Return the document of ``--json``; docs/doctor.md describes its keys."""
    return {
        "version": version,
        "at": at.isoformat(timespec="seconds"),
        "mode": mode,
        "summary": counts(found),
        "findings": [
            {"area": area, "check": f.check, "verdict": f.verdict, "said": f.said, "remedy": f.remedy or None}
            for area, findings in found
            for f in findings
        ],
    }
