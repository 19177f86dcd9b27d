"""Running a replay that was understood: progress while it runs, then the table, the document or the page."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import structlog

from receiver.cli.client import print_json, print_lines
from receiver.cli.imports import Remembered
from receiver.cli.replay_inputs import Asked, BadInput, Lineup, fitting, lineup, read, recall
from receiver.config.version import installed_version
from receiver.replay.contest import Progress, contest
from receiver.replay.document import Replayed, document, page_document, several
from receiver.replay.table import as_means, as_table
from receiver.replay.traces import Trace

FINE = 0
WRONG = 1  # something does not add up, or a pod lost its node to a policy of ours


def run(traces: Sequence[Path], asked: Asked, *, as_json: bool, html: Path | None, bar: bool) -> int:
    """Replay every trace and print what came of it; return the exit status. Raises BadInput before anything runs."""
    if html is not None and not html.parent.is_dir():
        raise BadInput([f"{html}: there is no folder {html.parent}: make it first"])
    those = lineup(asked)
    found = _traces(traces, asked, those, shown=bar)
    for trace in found:
        print_lines([f"{trace.source}: {line}" for line in trace.report], err=True)
    with _silent(), _progress(sum(len(trace.jobs) for trace in found) * len(those.making), shown=bar) as progress:
        played = [_played(trace, those, progress) for trace in found]
    documents = [document(each) for each in played]
    whole = documents[0] if len(documents) == 1 else several(documents)
    if as_json:
        print_json(whole)
    else:
        for table in documents:
            print_lines([*as_table(table), ""])
        if len(documents) > 1:
            print_lines(as_means(whole))
    if html is not None:
        _write(html, played, whole.get("ratios", {}))
    return WRONG if any(_is_wrong(policy) for told in documents for policy in told["policies"]) else FINE


def _traces(paths: Sequence[Path], asked: Asked, those: Lineup, *, shown: bool) -> list[Trace]:
    """Read all of them. Raises BadInput with what is wrong with any."""
    sources = [partial(read, path, asked, those) for path in paths]
    if asked.remembered is not None:
        sources.append(partial(_recalled, asked.remembered, asked, those, shown=shown))
    found: list[Trace] = []
    wrong: list[str] = []
    for source in sources:
        try:
            found.append(fitting(source(), asked, those))
        except BadInput as error:
            wrong += error.lines
    if wrong:
        raise BadInput(wrong)
    return found


def _write(html: Path, played: Sequence[Replayed], ratios: Mapping[str, Any]) -> None:
    from receiver.web.pages.replay_page import replay_page  # templates take a while to load

    page = replay_page([page_document(each) for each in played], ratios, installed_version())
    try:
        html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadInput([f"{html}: {error.strerror or error}"]) from error


def _recalled(remembered: Remembered, asked: Asked, those: Lineup, *, shown: bool) -> Trace:
    """Read a Prometheus page by page, and show how far it is."""
    with click.progressbar(length=1, label="reading history", file=sys.stderr, hidden=not shown) as bar:

        def told(done: int, of: int) -> None:
            bar.length = of
            bar.update(done - bar.pos)

        return recall(remembered, asked, those, told)


def _played(trace: Trace, those: Lineup, progress: Progress) -> Replayed:
    setting = replace(those.setting, start=trace.start)
    return Replayed(
        trace=trace,
        pools=those.pools,
        setting=setting,
        results=contest(trace.jobs, [make(setting) for make in those.making], setting, progress),
        against=those.against,
    )


def _is_wrong(policy: Mapping[str, Any]) -> bool:
    """Kills by a peer are the peer's: some of them delete nodes that are busy, as documented."""
    return bool(policy["violations"]) or (policy["kind"] == "policy" and policy["kills"] > 0)


@contextmanager
def _silent() -> Iterator[None]:
    """Steps write a line each to the log; a replay makes thousands of them and its output is for its figures."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _progress(jobs: int, *, shown: bool) -> Iterator[Progress]:
    """Show on standard error how many of *jobs* (of every policy on every trace) have finished."""
    with click.progressbar(length=jobs, file=sys.stderr, hidden=not shown, show_pos=True) as bar:
        before: tuple[str, int] = ("", 0)

        def told(name: str, done: int) -> None:
            nonlocal before
            goes_on = name == before[0] and done >= before[1]
            bar.label = name
            bar.update(done - before[1] if goes_on else done)
            before = (name, done)

        yield told
