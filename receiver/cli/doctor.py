"""`gpu-autoscaler doctor`: check a live installation and show remedies."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from itertools import starmap
from typing import Any

import click
from click.core import ParameterSource

from receiver import installed_version
from receiver.cli.client import UNUSABLE, DurationType, print_json
from receiver.config import ConfigError, Configuration, load
from receiver.core.model.text import dollars, some
from receiver.doctor.checks import PROBLEMS, VERDICTS, Finding, Installation
from receiver.ports import Clock, TryLater, WontWork
from receiver.reports.screen import aligned, printable

FAILED = 1
OF_A_ROUND = frozenset({"only", "problems", "verbose", "send_test_alert", "send_test_message"})
OF_SMOKE = frozenset({"pool", "namespace", "timeout"})
SENDS = {"send_test_alert": "alertmanager", "send_test_message": "messages"}  # the area of an option
STOPPED = 128 + signal.SIGTERM
Found = Sequence[tuple[str, Sequence[Finding]]]  # findings by the name of the area
COLOURS = {"pass": "green", "warn": "yellow", "fail": "red", "skip": "bright_black"}
SHOWN = {"pass": "pass", "warn": "WARN", "fail": "FAIL", "skip": "skip"}


def _areas(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """Return the areas for completion."""
    from receiver.doctor.rounds import AREAS

    return [area.name for area in AREAS if area.name.startswith(typed)]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON; keys: docs/doctor.md.")
@click.option(
    "--only",
    "only",
    metavar="AREA",
    multiple=True,
    shell_complete=_areas,
    help="Check this area only; may be repeated.",
)
@click.option("--problems", is_flag=True, help="Show only warnings, failures and the summary.")
@click.option("-v", "--verbose", is_flag=True, help="Show every check, including passed ones.")
@click.option("--send-test-alert", is_flag=True, help="Send an alert to the server through Alertmanager.")
@click.option("--send-test-message", is_flag=True, help="Send a test message to every destination.")
@click.option("--smoke", is_flag=True, help="Only start a GPU pod and time it; costs a node-hour.")
@click.option("--pool", metavar="NAME", help="The pool for --smoke.", show_default="the cheapest")
@click.option("--namespace", default="default", show_default=True, help="The namespace for --smoke.")
@click.option("--timeout", type=DurationType(), help="The timeout of --smoke.", show_default="per pool")
@click.option("--release", is_flag=True, help="Only undo cordons, soft taints, quotas, held queues.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --smoke and --release.")
@click.pass_context
def doctor(
    ctx: click.Context,
    as_json: bool,
    only: tuple[str, ...],
    problems: bool,
    verbose: bool,
    send_test_alert: bool,
    send_test_message: bool,
    smoke: bool,
    pool: str | None,
    namespace: str,
    timeout: timedelta | None,
    release: bool,
    yes: bool,
) -> None:
    """Check a live installation and show how to fix what is wrong.

    It reads the same file and environment as the server and queries the same systems. It changes nothing except with
    --smoke, --release and --send-... It can run while the server runs. The exit status is 0 if no check failed, 1 if
    one did or you declined, and 2 for a wrong command line or an invalid configuration.
    """
    _refuse_what_does_not_fit(ctx)
    from receiver.doctor.civo import known
    from receiver.doctor.configuration import unreadable
    from receiver.doctor.rounds import AREAS, go_round, hidden, secrets_in

    clock: Clock = ctx.obj
    try:
        settings = load(os.environ)
        problem = ""
        if settings.from_civo:
            facts, problem = known(settings)
            settings = load(os.environ, facts)
    except ConfigError as error:
        secrets = secrets_in(os.environ)
        mistakes = [hidden(finding, secrets) for finding in unreadable(error.mistakes)]
        for line in () if as_json else round_lines([("configuration", mistakes)], problems=True):
            click.echo(line)
        _conclude([("configuration", mistakes)], None, clock, as_json=as_json)
        sys.exit(UNUSABLE)
    installation = Installation(
        settings=settings,
        without_civo=problem,
        environ=os.environ,
        clock=clock,
        send_test_alert=send_test_alert,
        send_test_message=send_test_message,
    )
    visited: Found
    if smoke:
        tried = run_smoke(installation, pool=pool, namespace=namespace, timeout=timeout, sure=yes)
        visited = [("smoke", _shown(installation, tried, as_json=as_json))]
    elif release:
        visited = [("release", _shown(installation, run_release(installation, sure=yes), as_json=as_json))]
    else:
        areas = [area for area in AREAS if not only or area.name in only]
        visited = [(area.name, findings) for area, findings in go_round(areas, installation)]
    if not as_json and not (smoke or release):
        for line in round_lines(visited, problems=problems, verbose=verbose):
            click.echo(line)
    _conclude(visited, settings.configuration, clock, as_json=as_json)
    if any(finding.verdict == "fail" for _, findings in visited for finding in findings):
        sys.exit(FAILED)


def _refuse_what_does_not_fit(ctx: click.Context) -> None:
    """Refuse options that would be ignored silently."""
    from receiver.doctor.rounds import AREAS

    typed_options = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    only, names = ctx.params["only"], [area.name for area in AREAS]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise click.BadParameter(
            f"unknown area {', '.join(unknown)}; use one of: {', '.join(names)}", param_hint="--only"
        )
    if {"smoke", "release"} <= typed_options:
        raise click.UsageError("--smoke and --release cannot be combined")
    task = "--smoke" if "smoke" in typed_options else "--release" if "release" in typed_options else ""
    if task and (beside := _options(typed_options & OF_A_ROUND)):
        raise click.UsageError(f"{task} runs nothing else, so {beside} would have no effect")
    if "smoke" not in typed_options and (beside := _options(typed_options & OF_SMOKE)):
        raise click.UsageError(f"{beside} would have no effect without --smoke")
    for option, area in SENDS.items():
        if option in typed_options and only and area not in only:
            raise click.UsageError(f"{_options({option})} also needs --only {area}, or no --only at all")


def _options(parameters: Collection[str]) -> str:
    return " and ".join(f"--{name.replace('_', '-')}" for name in sorted(parameters))


def run_smoke(
    installation: Installation, *, pool: str | None, namespace: str, timeout: timedelta | None, sure: bool
) -> Iterator[Finding]:
    """Run the smoke test on *pool* (None: the cheapest) unless the user declines."""
    from receiver.doctor import smoke as test

    try:
        tried = test.chosen(installation.settings, pool)
    except LookupError as error:
        names = ", ".join(p.name for p in installation.settings.policy.pools)
        raise click.BadParameter(f"unknown pool {error}; use one of: {names}", param_hint="--pool") from None
    price = dollars(tried.price_usd_per_hour, "an unknown price")
    question = f"The smoke test creates the pod {namespace}/{test.NAME}"
    question += f", for which a node of pool {tried.name} may be bought"
    _ask(f"{question}: at least one hour at {price}. Continue?", sure=sure)
    # SIGTERM ends the test like Ctrl-C, so that it cleans up.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    try:
        plan = test.Trial(pool=tried, namespace=namespace, timeout=timeout or test.longest(tried))
        yield from test.smoke(installation, plan)
    finally:
        signal.signal(signal.SIGTERM, before)


def run_release(installation: Installation, *, sure: bool) -> Iterator[Finding]:
    """List the changes of mode act and undo them unless the user declines."""
    from receiver.doctor import kubernetes
    from receiver.doctor import release as task

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


def _ask(question: str, *, sure: bool) -> None:
    if not sure:
        click.confirm(question, abort=True, err=True)


def _shown(installation: Installation, findings: Iterator[Finding], *, as_json: bool) -> list[Finding]:
    """Return *findings* without secrets, each shown at once (JSON: at the end).

    The generator is always closed, so that it cleans up.
    """
    from receiver.doctor.rounds import hidden, secrets_of

    secrets, redacted_findings = secrets_of(installation), []
    generator: Any = findings
    with closing(generator):
        for finding in generator:
            redacted_findings.append(hidden(finding, secrets))
            for line in () if as_json else finding_lines(redacted_findings[-1]):
                click.echo(line)
    return redacted_findings


def _conclude(findings_by_area: Found, used: Configuration | None, clock: Clock, *, as_json: bool) -> None:
    """Print the summary, or everything as one JSON document, whose keys docs/doctor.md describes."""
    counted = Counter(finding.verdict for _, findings in findings_by_area for finding in findings)
    number = {verdict: counted[verdict] for verdict in VERDICTS}
    if as_json:
        document = {
            "version": installed_version(),
            "at": clock.now().isoformat(timespec="seconds"),
            "mode": used.mode if used else None,
            "summary": number,
            "findings": [
                {"area": area, "check": f.check, "verdict": f.verdict, "said": f.said, "remedy": f.remedy or None}
                for area, findings in findings_by_area
                for f in findings
            ],
        }
        print_json(document)
        return
    warnings = some(number["warn"], "warning")
    cluster = f"{used.cluster_name}: " if used and used.cluster_name else ""
    click.echo(f"{cluster}{number['pass']} passed, {warnings}, {number['fail']} failed, {number['skip']} skipped")


def round_lines(findings_by_area: Found, *, problems: bool = False, verbose: bool = False) -> Iterator[str]:
    """Yield the problems by area (*verbose*: every finding), then a line for each area on the rest of it, unless only
    *problems* are wanted, and the command that checks again."""
    wrong = []
    for area, findings in findings_by_area:
        bad = [finding for finding in findings if finding.verdict in PROBLEMS]
        if listed_findings := findings if verbose else bad:
            yield click.style(area.capitalize(), bold=True)
            width = max(len(finding.check) for finding in listed_findings)
            yield from (f"  {line}" for finding in listed_findings for line in finding_lines(finding, width))
            yield ""
        wrong += [area] if bad else []
    good = [] if problems or verbose else list(filter(None, starmap(_good, findings_by_area)))
    yield from aligned(good) if good else ()
    if wrong:
        yield "to check again: gpu-autoscaler doctor" + "".join(f" --only {area}" for area in wrong)


def _good(area: str, findings: Sequence[Finding]) -> tuple[str, str] | None:
    """A line on what passed in *area* and which checks were skipped; None if nothing was."""
    passed = sum(finding.verdict == "pass" for finding in findings)
    skips = dict.fromkeys(finding.check.partition(".")[2] for finding in findings if finding.verdict == "skip")
    parts = [f"{passed} passed"] if passed else []
    parts += [f"skipped: {', '.join(skips)}"] if skips else []
    return (area.capitalize(), ", ".join(parts)) if parts else None


def finding_lines(finding: Finding, width: int = 16) -> Iterator[str]:
    """Yield the lines of one finding, the name of its check in *width* columns."""
    verdict = click.style(SHOWN[finding.verdict], fg=COLOURS[finding.verdict])
    yield f"{verdict}  {finding.check:{width}}  {printable(finding.said)}"
    if finding.remedy:
        yield f"      {'':{width}}  what to do: {printable(finding.remedy)}"
