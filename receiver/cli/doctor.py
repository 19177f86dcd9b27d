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
from receiver.config import ConfigError, Configuration, load
from receiver.core.model.text import dollars, some
from receiver.doctor.checks import PROBLEMS, VERDICTS, Finding, Installation
from receiver.ports import Clock, TryLater, WontWork
from receiver.reports.screen import aligned, printable
from receiver.terminal.client import UNUSABLE, DurationType, print_json, tell_renamed

FAILED = 1
OF_A_ROUND = frozenset({"only", "list_only", "problems", "verbose", "send_test_alert", "send_test_message"})
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


as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the findings as JSON; keys: docs/doctor.md."
)
sure_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@click.group(invoke_without_command=True)
@as_json_option
@click.option(
    "--only",
    "only",
    metavar="AREA",
    multiple=True,
    shell_complete=_areas,
    help="Check this area only; may be repeated.",
)
@click.option("--list", "list_only", is_flag=True, help="List the checks and run none.")
@click.option("--problems", is_flag=True, help="Show only warnings, failures and the summary.")
@click.option("-v", "--verbose", is_flag=True, help="Show every check, including passed ones.")
@click.option("--send-test-alert", is_flag=True, help="Send an alert to the server through Alertmanager.")
@click.option("--send-test-message", is_flag=True, help="Send a test message to every destination.")
@click.option("--smoke", is_flag=True, hidden=True, help="Now `doctor smoke`.")
@click.option("--pool", hidden=True, help="Of --smoke.")
@click.option("--namespace", default="default", hidden=True, help="Of --smoke.")
@click.option("--timeout", type=DurationType(), hidden=True, help="Of --smoke.")
@click.option("--release", is_flag=True, hidden=True, help="Now `doctor release`.")
@click.option("--yes", is_flag=True, hidden=True, help="Of --smoke and --release.")
@click.pass_context
def doctor(
    ctx: click.Context,
    as_json: bool,
    only: tuple[str, ...],
    list_only: bool,
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
    --send-...; `doctor smoke` and `doctor release` change something. It can run while the server runs. The exit status
    is 0 if no check failed, 1 if one did or you declined, and 2 for a wrong command line or an invalid configuration.
    """
    _refuse_what_does_not_fit(ctx)
    if ctx.invoked_subcommand is not None:
        return
    if list_only:
        list_checks(only, as_json=as_json)
    elif smoke:
        tell_renamed("doctor --smoke", "doctor smoke")
        _smoke(ctx.obj, as_json=as_json, pool=pool, namespace=namespace, timeout=timeout, sure=yes)
    elif release:
        tell_renamed("doctor --release", "doctor release")
        _release(ctx.obj, as_json=as_json, sure=yes)
    else:
        installation = _installation(
            ctx.obj, as_json=as_json, send_test_alert=send_test_alert, send_test_message=send_test_message
        )
        _round(installation, only, as_json=as_json, problems=problems, verbose=verbose)


@doctor.command("smoke")
@click.option("--pool", metavar="NAME", help="The pool.", show_default="the cheapest")
@click.option("--namespace", default="default", show_default=True, help="The namespace of the pod.")
@click.option("--timeout", type=DurationType(), help="How long to wait.", show_default="per pool")
@sure_option
@as_json_option
@click.pass_obj
def smoke_test(
    clock: Clock, pool: str | None, namespace: str, timeout: timedelta | None, yes: bool, as_json: bool
) -> None:
    """Start a GPU pod and time it; costs a node-hour.

    The exit status is 0 if the pod ran, 1 if it did not or you declined, and 2 for a wrong command line or an invalid
    configuration.
    """
    _smoke(clock, as_json=as_json, pool=pool, namespace=namespace, timeout=timeout, sure=yes)


@doctor.command("release")
@sure_option
@as_json_option
@click.pass_obj
def release_marks(clock: Clock, yes: bool, as_json: bool) -> None:
    """Undo cordons, soft taints, quotas and held queues.

    The exit status is 0 if nothing is left, 1 if something is or you declined, and 2 for a wrong command line or an
    invalid configuration.
    """
    _release(clock, as_json=as_json, sure=yes)


def list_checks(only: Collection[str], *, as_json: bool) -> None:
    """Print the checks of the areas *only* (empty: of every area), without running them."""
    from receiver.doctor import release, smoke
    from receiver.doctor.rounds import AREAS

    listed = [check for area in AREAS if not only or area.name in only for check in area.checks]
    listed += () if only else (*smoke.CHECKS, *release.CHECKS)
    checks = [(check.name, check.looks.removeprefix("whether ")) for check in listed]
    if as_json:
        print_json([{"check": name, "looks": looks} for name, looks in checks])
        return
    for line in aligned(checks):
        click.echo(line)


def _installation(clock: Clock, *, as_json: bool, **sends: bool) -> Installation:
    """Return the installation of the environment; with an unusable configuration print the mistakes and exit."""
    from receiver.doctor.civo import known
    from receiver.doctor.configuration import unreadable
    from receiver.doctor.rounds import hidden, secrets_in

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
    return Installation(settings=settings, without_civo=problem, environ=os.environ, clock=clock, **sends)


def _round(installation: Installation, only: Collection[str], *, as_json: bool, problems: bool, verbose: bool) -> None:
    from receiver.doctor.rounds import AREAS, go_round

    areas = [area for area in AREAS if not only or area.name in only]
    visited = [(area.name, findings) for area, findings in go_round(areas, installation)]
    for line in () if as_json else round_lines(visited, problems=problems, verbose=verbose):
        click.echo(line)
    _end(visited, installation, as_json=as_json)


def _smoke(
    clock: Clock, *, as_json: bool, pool: str | None, namespace: str, timeout: timedelta | None, sure: bool
) -> None:
    installation = _installation(clock, as_json=as_json)
    tried = run_smoke(installation, pool=pool, namespace=namespace, timeout=timeout, sure=sure)
    _end([("smoke", _shown(installation, tried, as_json=as_json))], installation, as_json=as_json)


def _release(clock: Clock, *, as_json: bool, sure: bool) -> None:
    installation = _installation(clock, as_json=as_json)
    findings = _shown(installation, run_release(installation, sure=sure), as_json=as_json)
    _end([("release", findings)], installation, as_json=as_json)


def _end(visited: Found, installation: Installation, *, as_json: bool) -> None:
    """Print the summary and exit with 1 if a check failed."""
    _conclude(visited, installation.settings.configuration, installation.clock, as_json=as_json)
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
    if ctx.invoked_subcommand is not None and typed_options:
        raise click.UsageError(
            f"{_options(typed_options)} would have no effect before {ctx.invoked_subcommand}; write options behind it"
        )
    if {"smoke", "release"} <= typed_options:
        raise click.UsageError("--smoke and --release cannot be combined")
    task = "--smoke" if "smoke" in typed_options else "--release" if "release" in typed_options else ""
    if task and (beside := _options(typed_options & OF_A_ROUND)):
        raise click.UsageError(f"{task} runs nothing else, so {beside} would have no effect")
    if "smoke" not in typed_options and (beside := _options(typed_options & OF_SMOKE)):
        raise click.UsageError(f"{beside} would have no effect without `doctor smoke`")
    for option, area in SENDS.items():
        if option in typed_options and only and area not in only:
            raise click.UsageError(f"{_options({option})} also needs --only {area}, or no --only at all")


def _options(parameters: Collection[str]) -> str:
    names = {"as_json": "json", "list_only": "list"}
    return " and ".join(f"--{names.get(name, name).replace('_', '-')}" for name in sorted(parameters))


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
