"""``python -m campaigns.faults``: random worlds against the invariants. See tests/README.md."""

import argparse
import os
import sys
import time
from pathlib import Path

from campaigns.faults.campaign import Found, campaign, replay, say
from campaigns.faults.enumerated import matrix
from campaigns.faults.fixed import FEW, FOUND, LINES, OBSERVED
from campaigns.faults.generate import scenario
from campaigns.faults.planted import MOST, hunt, plant_all
from campaigns.faults.processes import campaign as processes
from campaigns.faults.scenario import Scenario
from campaigns.faults.shrink import shrink
from demo.stack import until_signalled

COUNTS = (
    "steps",
    "writes",
    "crashes",
    "faults",
    "events",
    "jobs finished",
    "nodes bought",
    "nodes removed",
    "evictions by windows",
    "questions answered",
    "nodes closed to new work",
)


def main() -> int:
    """Run what the command line asks for; 1 when an invariant did not hold."""
    asked = arguments()
    if asked.schedule is not None or asked.process_case is not None:
        violation = processes.replay(asked.schedule, asked.process_case)
        say(violation or "the invariants held")
        return 1 if violation else 0
    if asked.enumerated is not None:
        return enumerated(asked.enumerated, asked.workers)
    if asked.hunt is not None:
        return hunt(asked.hunt[0], asked.hunt[1:], asked.seed)
    if asked.planted is not None:
        return 1 if plant_all(asked.level or list(MOST), asked.seed, asked.planted, asked.table) else 0
    if asked.processes is not None:
        seeds = range(asked.seed, asked.seed + asked.processes)
        return 1 if processes.campaign(seeds, asked.workers or processes.AT_ONCE).violations else 0
    if asked.world is not None or asked.case is not None:
        world = scenario(asked.world) if asked.case is None else Scenario.from_json(asked.case.read_text())
        return one(world, asked)
    if asked.fixed:
        found = [campaign((*FEW, *LINES, *FOUND), asked.workers), campaign(OBSERVED, asked.workers, "observe")]
        return max(report(each) for each in found)
    return report(campaign(range(asked.seed, asked.seed + asked.worlds), asked.workers))


def report(found: Found) -> int:
    """Print what a campaign found; 1 when an invariant did not hold."""
    counts = ", ".join(f"{found.tally.counts[name]} {name}" for name in COUNTS)
    say(f"{found.tally.worlds} worlds in {found.seconds:.0f} s: {counts}")
    say(f"the process died at {len(found.tally.lines)} different lines of the step and the store, and between them")
    for result in sorted(found.violations, key=lambda r: r.seed):
        say(f"\nworld {result.seed}:\n{result.message}")
    say(f"{len(found.violations)} worlds in which an invariant did not hold")
    return 1 if found.violations else 0


def enumerated(words: str, workers: int | None) -> int:
    """Break every write in every way, or those with *words*; write the table of all."""
    began = time.monotonic()
    table = matrix.enumerate_all(workers or os.cpu_count() or 1, words)
    say(table.to_csv())
    if not words:
        matrix.PUBLISHED.write_text(table.to_csv(), encoding="utf-8")
    say(f"{table.lives} lives in {time.monotonic() - began:.0f} s, {len(table.broken)} in which something did not hold")
    return 1 if table.broken else 0


def one(world: Scenario, asked: argparse.Namespace) -> int:
    """Replay one world with its trace, or make it smaller first."""
    if asked.shrink is not None:
        world = shrink(world)
        asked.shrink.write_text(world.to_json(), encoding="utf-8")
    violation = replay(world)
    say(violation or "the invariants held")
    return 1 if violation else 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.faults", description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first")
    parser.add_argument("--fixed", action="store_true", help="play the worlds of campaigns/faults/fixed.py")
    parser.add_argument("--processes", type=int, metavar="N", help="play N schedules with the real receiver process")
    parser.add_argument(
        "--enumerated", nargs="?", const="", metavar="WORDS", help="break every write in every way, or those with WORDS"
    )
    parser.add_argument("--schedule", type=int, help="play the schedule of this seed and print its events")
    parser.add_argument("--process-case", type=Path, help="play the schedule in this file and print its events")
    parser.add_argument(
        "--planted", nargs="?", const="", metavar="WORDS", help="plant each bug (with these words in its name)"
    )
    parser.add_argument("--level", action="append", choices=list(MOST), help="where planted bugs are looked for")
    parser.add_argument("--table", type=Path, help="write which planted bug was seen by which world into this CSV file")
    parser.add_argument("--hunt", nargs="+", metavar="LEVEL SEEN", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help="how many at a time (default: one world per core, two schedules)")
    parser.add_argument("--world", type=int, help="replay the world of this seed with its trace")
    parser.add_argument("--case", type=Path, help="replay the world in this file with its trace")
    parser.add_argument(
        "--shrink", type=Path, help="leave out what the violation does not need, and write the rest here"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(until_signalled(main))
