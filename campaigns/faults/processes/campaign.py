"""Play many schedules, some at a time, or one with its events."""

import multiprocessing
import os
import platform
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.faults.campaign import say
from campaigns.faults.processes.play import Result, play
from campaigns.faults.processes.schedule import Schedule, schedule

AT_ONCE = 2


@dataclass(slots=True)
class Found:
    """What a campaign found."""

    played: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    lines: set[str] = field(default_factory=set)
    violations: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Take in what became of one schedule."""
        self.played += 1
        self.counts.update(result.counts)
        self.lines |= result.lines
        if result.message:
            self.violations.append(result)


def judge(seed: int) -> Result:
    """Play the schedule of *seed*; what breaks the harness is a violation too."""
    try:
        return play(schedule(seed))
    except Exception:  # noqa: BLE001  # one bad schedule must not end the campaign
        return Result(seed, f"harness: {traceback.format_exc()}")


def campaign(seeds: range, at_once: int = AT_ONCE) -> Found:
    """Play the schedules of *seeds* and print how it goes."""
    found, began = Found(), time.monotonic()
    say(f"schedules {seeds.start} to {seeds.stop - 1}, {at_once} at a time, on {machine()}")
    for result in _results(seeds, at_once):
        found.add(result)
        if result.message:
            say(f"schedule {result.seed}: {result.message}")
        if found.played % 10 == 0:
            seconds = time.monotonic() - began
            say(f"{found.played} schedules, {len(found.violations)} violations, {seconds:.0f} s")
    tell(found, time.monotonic() - began)
    return found


def tell(found: Found, seconds: float) -> None:
    """Print what happened in all of them."""
    say(f"{found.played} schedules with real processes in {seconds:.0f} s; what happened in them:")
    for what, often in sorted(found.counts.items()):
        say(f"  {often:6} {what}")
    say(f"killed at {len(found.lines)} different lines of the step and the store")
    say(f"{len(found.violations)} schedules in which an invariant did not hold")


def machine() -> str:
    """The machine, and how busy it is."""
    load = "/".join(f"{x:.1f}" for x in os.getloadavg())
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, load {load}"


def _results(seeds: range, at_once: int) -> Iterator[Result]:
    if at_once == 1:
        yield from map(judge, seeds)
        return
    with multiprocessing.get_context("forkserver").Pool(at_once, _begin, maxtasksperchild=20) as pool:
        yield from pool.imap_unordered(judge, seeds)
        pool.close()
        pool.join()


def _begin() -> None:
    """Let who is told to end clear up: a pool that is left early ends its processes by SIGTERM."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def replay(seed: int | None, case: Path | None) -> str:
    """Play one schedule and print its events; return what did not hold, or nothing."""
    chosen = schedule(seed) if case is None and seed is not None else Schedule.from_json(Path(case or "").read_text())
    say(f"schedule {chosen.seed}: {chosen.mode}, pools {', '.join(p.name for p in chosen.pools)}")
    result = play(chosen, say)
    say(f"{result.seconds:.0f} s: {dict(sorted(result.counts.items()))}")
    return result.message
