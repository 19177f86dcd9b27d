"""Which fault raises which alert: every fault is brought about in simulator or receiver, and the rules are run over it.

    python -m tests.rules.faults [--write] [WORD ...]

Runs the faults (those with a WORD in their title, else all), prints what fired, then the table, and ends with status 1
when an alert fires that should not, or does not fire that should. ``--write`` puts the table into docs/alerts.md.
How hours pass in seconds, and why that is faithful: tests/rules/hours.py.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.rules import gpu_faults, people_faults, scaling_faults
from tests.rules.catalogue import Fault
from tests.rules.files import ALERTS, HEARTBEAT, ROOT
from tests.rules.hours import fired, hours

FAULTS: Sequence[Fault] = (*scaling_faults.FAULTS, *people_faults.FAULTS, *gpu_faults.FAULTS)
PAGE = ROOT / "docs" / "alerts.md"
INTRODUCTION = """\
# Alerts

Every alert of `rules/`, and what was seen to raise it. Written by `make alerts`, which brings every fault about in the
simulator or in the receiver, runs the rules as they are shipped over what Prometheus would have scraped meanwhile, and
compares. It shortens no time: hours pass in seconds because the clock is turned by hand.

What it does not show: rules and scrapes come every 30 s here whatever the interval of their group; the receiver acts on
what it looks up and gets no webhooks; the two counters of Alertmanager and Prometheus are taken from real ones and
counted up by hand.
"""


def raised_by(fault: Fault, folder: Path) -> set[str]:
    """Bring *fault* about and return every alert that fired."""
    with hours(fault.start(), fault.policy) as lived:
        fault.course(lived)
        return fired(lived, folder)


def expected(fault: Fault) -> set[str]:
    """Return the alerts that must fire; no other may."""
    return {HEARTBEAT, *fault.raises, *fault.also}


def page() -> str:
    """Return docs/alerts.md."""
    return "\n".join([INTRODUCTION, *_alerts(), "", *_faults(), "", *table(FAULTS), ""])


def _alerts() -> Iterator[str]:
    yield "## Who is raised by what\n"
    yield "The numbers are those of the faults below. `GpuAutoscalerHeartbeat` always fires.\n"
    yield "| alert | action | severity | raised by |"
    yield "|---|---|---|---|"
    for alert in sorted(ALERTS, key=lambda rule: rule.name):
        by = [str(n) for n, fault in enumerate(FAULTS, start=1) if alert.name in fault.raises]
        labels = alert.body["labels"]
        said = "everything" if alert.name == HEARTBEAT else ", ".join(by)
        yield f"| [{alert.name}](runbooks/{alert.name}.md) | {labels['action']} | {labels['severity']} | {said} |"


def _faults() -> Iterator[str]:
    yield "## What raises whom\n"
    yield "Beside the alerts of its row, a fault raises none.\n"
    yield "| no | fault | raises | and with it |"
    yield "|---|---|---|---|"
    for number, fault in enumerate(FAULTS, start=1):
        also = "; ".join(f"{name}: {why}" for name, why in fault.also.items())
        yield f"| {number} | {fault.title} | {', '.join(fault.raises) or 'nothing'} | {also} |"


def table(faults: Sequence[Fault]) -> Iterator[str]:
    """Yield the table of every alert against every fault."""
    yield "## Every alert against every fault\n"
    yield "`X` must fire, `o` fires with it, `.` must not.\n"
    yield "```text"
    width = max(len(alert.name) for alert in ALERTS)
    numbers = [FAULTS.index(fault) + 1 for fault in faults]
    yield f"{'':{width}} " + "".join(f"{n:>3}" for n in numbers)
    for alert in sorted(ALERTS, key=lambda rule: rule.name):
        marks = "".join(f"{_mark(alert.name, fault):>3}" for fault in faults)
        yield f"{alert.name:{width}} {marks}"
    yield "```"


def _mark(alert: str, fault: Fault) -> str:
    if alert in fault.raises or alert == HEARTBEAT:
        return "X"
    return "o" if alert in fault.also else "."


def main() -> int:
    """Run the faults that were asked for; return the exit status."""
    parser = argparse.ArgumentParser(description="Bring faults about and see which alerts fire.")
    parser.add_argument("--write", action="store_true", help="write docs/alerts.md when all is as expected")
    parser.add_argument("word", nargs="*", help="only faults with one of these words in their title")
    told = parser.parse_args()
    chosen = [f for f in FAULTS if not told.word or any(w in f.title for w in told.word)]
    wrong = 0
    for fault in chosen:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = raised_by(fault, Path(folder))
        said = ", ".join(sorted(found - {HEARTBEAT})) or "nothing"
        sys.stdout.write(f"{fault.title}: {said} ({time.monotonic() - began:.0f} s)\n")
        if found != expected(fault):
            wrong += 1
            missing, surplus = expected(fault) - found, found - expected(fault)
            sys.stdout.write(f"  WRONG: missing {sorted(missing)}, not expected {sorted(surplus)}\n")
        sys.stdout.flush()
    sys.stdout.write("\n" + "\n".join(table(chosen)) + "\n")
    if told.write and not wrong:
        PAGE.write_text(page(), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
