"""``make soak HOURS=2``: run the real receiver under random work and faults for hours, and measure what it keeps.

Prints a line for each sample, then the table of first and last figures. Exit status 1 when a figure grows without bound
or an invariant does not hold. Ctrl-C prints the table so far.
"""

import argparse
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path

from campaigns.faults.campaign import say
from campaigns.faults.processes.campaign import machine
from campaigns.faults.processes.play import Result
from campaigns.faults.processes.stage import staged
from campaigns.soak import figures
from campaigns.soak.play import CLOUD, CONFIG, RATE, Soak, long_schedule, verdicts
from demo.stack import signals_end_the_block


def main() -> int:
    """Play, measure, judge."""
    asked = _arguments()
    schedule, result = long_schedule(asked.seed, asked.hours), Result(asked.seed)
    say(f"{asked.hours:g} h at {asked.rate:g} times the machine's clock, seed {asked.seed}, on {machine()}")
    if asked.out is not None:
        asked.out.write_text("hours,days,figure,value\n", encoding="utf-8")
    found, stopped = [], ""
    folder = tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True)
    with folder as name, staged(schedule, Path(name), CLOUD, CONFIG) as stage:
        soak = Soak(stage, result, say, rate=asked.rate, every=asked.every, past=asked.past, out=asked.out)
        try:
            with signals_end_the_block():
                found = soak.soak()
        except KeyboardInterrupt as interrupt:
            found = list(soak.violations)
            stopped = f"stopped by {next((str(a) for a in interrupt.args), 'SIGINT')}"
        except Exception:  # noqa: BLE001  # the table so far is worth its hours
            found = [f"harness: {traceback.format_exc()}"]
        finally:
            soak.mail.close()
    return tell(soak, result, found, stopped)


def tell(soak: Soak, result: Result, found: list[str], stopped: str) -> int:
    """Print what happened, the table and the verdict; return the exit status."""
    for what, often in sorted(result.counts.items()):
        say(f"  {often:7} {what}")
    for line in figures.table(list(figures.courses(soak.samples))):
        say(line)
    wrong = [*dict.fromkeys(found), *verdicts(soak.samples)]
    if stopped:
        say(stopped)
    judged = (
        "and every figure is bounded" if figures.is_judged(soak.samples) else "and it was too short to judge figures"
    )
    say("\n".join(wrong) if wrong else f"the invariants held, {judged}")
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m campaigns.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="how long, by the machine's clock")
    parser.add_argument("--rate", type=float, default=RATE, help="how many times as fast the world's clock runs")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two samples")
    parser.add_argument("--past", type=float, default=30.0, help="days of past that its store gets (0: none)")
    parser.add_argument("--seed", type=int, default=1, help="other work and faults")
    parser.add_argument("--out", type=Path, help="write every sample to this CSV file")
    return parser.parse_args()


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(main())
