"""Run the whole test suite several times, some runs at once, and list every test that failed: `make steady`.

``python -m tools.tests_under_load --runs 10 --at-once 3``. Three suites on two cores are a load of twelve: every wait
in a test then lasts several times as long as on an idle machine, which is what shows a race or a limit that is too
short. The exit code is 1 if a run failed.
"""

import argparse
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.run_checks import PYTEST, ROOT, WORKERS, environment

FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+(?:\[.*?\](?= - |$))?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the suite: what failed, pytest's last line, and its output."""

    number: int
    ok: bool
    failed: tuple[str, ...]
    summary: str
    output: str


def failed_in(output: str) -> tuple[str, ...]:
    """The tests that pytest's *output* names as failed or in error."""
    return tuple(dict.fromkeys(FAILED.findall(output)))


def run(number: int, tests: Sequence[str], out: Path) -> Run:
    """Run the suite, or only *tests*, once; the output of a run that failed is kept in *out*."""
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        where = ("-p", "no:cacheprovider", "--basetemp", f"{folder}/t")
        forked = ("-p", "tools.forked_tests", "--forks", str(WORKERS["all"]))
        command = [*PYTEST, *forked, *where, *tests]
        ran = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    lines = ran.stdout.strip().splitlines()
    done = Run(number, ran.returncode == 0, failed_in(ran.stdout), lines[-1] if lines else "", ran.stdout + ran.stderr)
    if not done.ok:
        (out / f"run-{number}.txt").write_text(done.output)
    print(f"run {number:3}  {'ok    ' if done.ok else 'FAILED'}  {done.summary}", flush=True)
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print one line per run and the tests that failed, keep the output of failed runs. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / ".build" / "steady", help="for the output of failed runs")
    parser.add_argument("tests", nargs="*", help="files or folders, or after -- what pytest takes; all tests without")
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(given.at_once) as pool:
        runs = list(pool.map(lambda number: run(number, given.tests, given.out), range(1, given.runs + 1)))
    for test, times in Counter(test for one in runs for test in one.failed).most_common():
        print(f"failed in {times} of {len(runs)}: {test}")
    bad = sum(not one.ok for one in runs)
    minutes = (time.monotonic() - begun) / 60
    print(f"{len(runs)} runs, {given.at_once} at once, {minutes:.0f} minutes: {bad} with a failure")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
