"""Bring faults about and see which alerts fire: ``python -m campaigns.alerts [--write] [WORD ...]``.

Runs the faults (those with a WORD in their title, else all), prints what fired, and ends with status 1
when an alert fires that should not, or does not fire that should. ``--write`` writes docs/alerts.md.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from campaigns.alerts.faults import FAULTS, PAGE, expected, page, raised_by
from tests.rules.files import HEARTBEAT


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
    if told.write and not wrong:
        PAGE.write_text(page(), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
