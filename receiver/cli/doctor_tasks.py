"""The smoke test and the release of `gpu-autoscaler doctor`, which ask for confirmation first."""

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from receiver.ports import TryLater, WontWork
from receiver.reports.screen import printable

if TYPE_CHECKING:
    from receiver.doctor.checks import Finding, Installation

Told = Callable[["Finding"], None]
STOPPED = 128 + signal.SIGTERM


def smoke(
    installation: "Installation",
    tell: Told,
    *,
    pool: str | None,
    namespace: str,
    timeout: timedelta | None,
    sure: bool,
    wait: Callable[[float], None] = time.sleep,
) -> "list[Finding]":
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
        return _told(installation, test.smoke(installation, plan), tell)


def release(installation: "Installation", tell: Told, *, sure: bool) -> "list[Finding]":
    """List the changes of mode act and undo them, showing each finding at once."""
    from receiver.doctor import release as task

    def steps() -> "Iterator[Finding]":
        server = task.server(installation)
        yield server
        if server.verdict == "fail":
            return
        try:
            with closing(task.opened(installation)) as cluster:
                marks, unseen = task.marks(cluster)
                for mark in marks:
                    click.echo(f"      {printable(str(mark))}", err=True)
                if marks:
                    _ask(f"Undo {'these ' if len(marks) > 1 else 'this '}{len(marks)}?", sure=sure)
                yield from task.undone(cluster, marks, unseen)
        except (TryLater, WontWork) as error:
            yield task.UNDONE.failed(str(error))

    return _told(installation, steps(), tell)


def _ask(question: str, *, sure: bool) -> None:
    if not sure:
        click.confirm(question, abort=True, err=True)


def _told(installation: "Installation", findings: "Iterable[Finding]", tell: Told) -> "list[Finding]":
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
