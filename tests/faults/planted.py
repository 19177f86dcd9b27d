"""Plant a bug for each invariant and count how long the harness takes to see it: `python -m tests.faults --planted`.

The bugs are listed in `planted.toml`. Each is planted into a copy of the tree, where worlds are run, and schedules with
real processes, from a seed until one says what the bug makes it say. A bug that is not seen fails the run.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.campaign import judge as judge_world
from tests.faults.campaign import say
from tests.faults.generate import scenario
from tests.faults.processes.campaign import judge as judge_schedule
from tests.faults.stores import a_store

ROOT = Path(__file__).resolve().parents[2]
LISTED = Path(__file__).with_suffix(".toml")
PARTS = ("receiver", "simulator", "tests", "demo", "rules", "tools")
MOST = {"worlds": 300, "processes": 60}
ONE = {"worlds": "world", "processes": "schedule"}
WHERE = {"worlds": "in process", "processes": "real processes"}
NOT_SEEN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Replace *old* by *new* once in *file*."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A bug that breaks *invariant*; a violation that begins with one of *seen* shows it, at each of *levels*."""

    invariant: int
    name: str
    seen: tuple[str, ...]
    changes: tuple[Change, ...]
    levels: tuple[str, ...]


def bugs(path: Path = LISTED) -> list[Bug]:
    """Every bug that is listed. Raises TypeError for a key that nobody knows."""
    found = []
    for row in tomllib.loads(path.read_text(encoding="utf-8"))["bug"]:
        plain = {"levels": list(MOST), **row}
        changes = tuple(Change(**change) for change in plain.pop("changes"))
        found.append(Bug(changes=changes, seen=tuple(plain.pop("seen")), levels=tuple(plain.pop("levels")), **plain))
    return found


def planted(bug: Bug, root: Path) -> None:
    """Put *bug* into the tree at *root*. Raises ValueError where a place is no longer there."""
    for change in bug.changes:
        path = root / change.file
        sound = path.read_text(encoding="utf-8")
        if sound.count(change.old) < 1:
            raise ValueError(f"{bug.name}: {change.file} no longer holds {change.old!r}")
        path.write_text(sound.replace(change.old, change.new, 1), encoding="utf-8")


def plant_all(levels: Sequence[str], seed: int, words: str = "") -> int:
    """Plant each bug whose name holds *words*, at each of *levels*; return how many were not seen."""
    missed = 0
    say(f"from seed {seed}: | invariant | bug | where | seen by | as |")
    for bug in (b for b in bugs() if words in b.name):
        for level in (x for x in levels if x in bug.levels):
            ran = _in_a_copy(bug, level, seed)
            missed += ran.returncode != 0
            told = ran.stdout.strip().splitlines()
            say(f"| {bug.invariant} | {bug.name} | {WHERE[level]} | {told[-1] if told else ran.stderr[-2000:]} |")
    say(f"{missed} bugs were not seen")
    return missed


def _in_a_copy(bug: Bug, level: str, seed: int) -> "subprocess.CompletedProcess[str]":
    with tempfile.TemporaryDirectory(prefix="faults-planted-") as folder:
        for part in PARTS:
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        planted(bug, Path(folder))
        command = [sys.executable, "-m", "tests.faults", "--seed", str(seed), "--hunt", level, *bug.seen]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def hunt(level: str, seen: Sequence[str], seed: int) -> int:
    """Run worlds or schedules from *seed* on until a violation begins as one of *seen*; 3 when none does."""
    most, others = MOST[level], 0
    with a_store() as store:
        for number in range(most):
            this = seed + number
            result = judge_world(scenario(this), store) if level == "worlds" else judge_schedule(this)
            lines = result.message.splitlines()
            said = next((line for line in lines if line.startswith(tuple(seen))), None)
            if said is not None:
                say(f"{ONE[level]} {number + 1} | `{said.split(':')[0]}`")
                return 0
            others += bool(lines)
    say(f"none of {most} | NOT SEEN; {others} had other violations")
    return NOT_SEEN
