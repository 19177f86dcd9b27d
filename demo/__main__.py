"""``make demo``: play the scenario on a stack of its own, show what happens, judge it. KEEP=1 leaves it running.

``make playground`` (--playground) starts the same stack without the scenario; jobs arrive by themselves.

Exit status: 0 when every check holds, 1 when one does not, 128 and the signal's number after a signal (Ctrl-C: 130).
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import requests

from demo.playground import keep, lasting, open_playground
from demo.processes import NotStarted
from demo.scenario import POOLS, SHORTENED, SYSTEM, WHAT_IT_IS, DemoJob, Director, demo_plan
from demo.screen import Screen
from demo.stack import Stack, running, signals_end_the_block
from demo.summary import Summary, lines, summarize
from demo.timeline import Event, Seen, Timeline
from demo.watch import Watcher, quiet
from receiver.adapters.clock import SystemClock

ROUND_SECONDS = 0.25
SHOWN_LATE = timedelta(seconds=1)  # events of different sources come in order of their times that way
LONGEST = timedelta(seconds=200)
QUIET_FOR = timedelta(seconds=4)


class Play:
    """One run of the scenario on a running stack."""

    def __init__(self, stack: Stack, screen: Screen) -> None:
        self._stack, self._screen = stack, screen
        self._clock = SystemClock()
        self._watcher = Watcher(stack)
        self._timeline = Timeline(pools={p.id: p.name for p in (*POOLS, SYSTEM)})
        self._waiting: list[Event] = []
        self._actions: Sequence[Any] = ()
        self._director = Director(
            submit=self._submit,
            cancel=lambda job: stack.delete("simulator", f"/_jobs/{job.id}"),
            is_quiet=partial(self._is_quiet),
            began=self._clock.now(),
        )

    def run(self) -> Summary:
        """Play to the end. Raises TimeoutError when it does not come, RuntimeError when a part ends."""
        director, screen = self._director, self._screen
        screen.began = director.began
        seen = self._look()
        while not (director.withdrawn and _all_gone(seen)):
            now = self._clock.now()
            if now - director.began > LONGEST:
                self._show(now + SHOWN_LATE)
                screen.line(f"The demo did not come to its end in {LONGEST.total_seconds():.0f} s.")
                break
            for sentence in director.advance(seen, self._timeline, now):
                self._waiting.append(Event(at=now, kind="demo", text=sentence))
            self._show(now - SHOWN_LATE)
            time.sleep(ROUND_SECONDS)
            seen = self._look()
        seen = self._last_words(seen)
        return summarize(POOLS, director.submitted, self._timeline, self._actions, seen.state, director.began)

    def _last_words(self, seen: Seen) -> Seen:
        """Wait a moment for the notices of the last removals."""
        until = self._clock.now() + timedelta(seconds=15)
        while self._clock.now() < until and any(a["outcome"] is None for a in self._actions):
            time.sleep(ROUND_SECONDS)
            seen = self._look()
        time.sleep(2)  # the courier goes round every second
        seen = self._look()
        self._show(self._clock.now())
        return seen

    def _look(self) -> Seen:
        for attempt in range(20):
            self._stack.check_alive()
            try:
                seen = self._watcher.look()
            except requests.RequestException:
                time.sleep(0.1 * (attempt + 1))
                continue
            self._waiting += self._timeline.observe(seen)
            self._actions = seen.actions
            return seen
        raise RuntimeError("a part of the stack does not answer")

    def _show(self, until: datetime) -> None:
        self._waiting.sort(key=lambda e: e.at)
        self._screen.events(e for e in self._waiting if e.at <= until)
        self._waiting = [e for e in self._waiting if e.at > until]

    def _submit(self, job: DemoJob) -> None:
        self._stack.submit(job.fields(POOLS))

    def _is_quiet(self, now: datetime) -> bool:
        return quiet(self._stack, now, QUIET_FOR)


def _all_gone(seen: Seen) -> bool:
    return all(not p["instances"] and not p["required"] for p in seen.state["pools"] if p["id"] != SYSTEM.id)


def introduce(screen: Screen, folder: Path) -> None:
    """Say what is about to run."""
    screen.heading("GPU node pools that follow their alerts")
    screen.paragraph(WHAT_IT_IS)
    for what, how in SHORTENED:
        screen.paragraph(f"{what:<22} {how}", "  ")
    screen.line(f"Logs and configurations are in {folder}")


def conclude(screen: Screen, summary: Summary) -> None:
    """Print the summary and the checks."""
    screen.heading("Summary")
    for line in lines(summary):
        screen.line(f"  {line}")
    screen.heading("Checks")
    for check in summary.checks:
        word = "ok" if check.holds else "FAILED"
        detail = f": {check.detail}" if check.detail else ""
        screen.line(f"  {screen.coloured(f'{word:<6}', word)} {check.what}{detail}")


def play(screen: Screen, folder: Path, *, stays: bool) -> int:
    """Start, play, judge, stop, or not before a signal if it *stays*; return the exit status."""
    introduce(screen, folder)
    with running(demo_plan(), folder) as stack:
        stack.wait_for_heartbeat()
        screen.heading("Seconds since everything was up, and what happened")
        summary = Play(stack, screen).run()
        conclude(screen, summary)
        if stays:
            stack.change(lasting(stack.plan))
            keep(screen, stack)
    return 0 if summary.worked else 1


def main() -> int:
    """Run the demo or the playground in a temporary folder, which stays when something failed."""
    parser = argparse.ArgumentParser(prog="python -m demo")
    parser.add_argument("--playground", action="store_true", help="no scenario: jobs arrive until Ctrl-C")
    parser.add_argument("--seed", type=int, default=1, help="other jobs in the playground")
    asked = parser.parse_args()
    screen = Screen()
    folder = Path(tempfile.mkdtemp(prefix="gpu-autoscaler-demo-"))
    status = 1
    try:
        with signals_end_the_block():
            if asked.playground:
                open_playground(screen, folder, asked.seed)
            else:
                status = play(screen, folder, stays=os.environ.get("KEEP", "") not in ("", "0"))
    except KeyboardInterrupt as interrupt:
        name = next((str(a) for a in interrupt.args), "SIGINT")
        status = 128 + signal.Signals[name]
        screen.line(f"\nStopped by {name}.")
    except (NotStarted, FileNotFoundError, RuntimeError, TimeoutError) as error:
        screen.line(f"\nThe demo failed: {error}")
    if status == 1:
        screen.line(f"The logs are kept in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
