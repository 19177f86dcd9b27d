"""Plant one bug at a time into the core and show which tests see it: `make mutants`.

The bugs are listed in `tools/planted`, one file for each module of the core. Each guardrail and rule has at least one.
A mutant that no test kills is a hole in the tests and fails the run. The laws (hypothesis) and the examples are run
apart, so that a property that sees nothing is seen too; a law is named for the mutants that break an invariant by
themselves (budget, maximum and limits are checked in a row, so that where one guardrail sleeps the next leaves no
more).

With words, only the mutants are run whose module and name hold them: `python tools/mutants.py plan.py: jitter`.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLANTED = ROOT / "tools" / "planted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """Replace *old* by *new* once in *file* (of receiver/core).

    One of the test files *examples* must see it, and *law* too where one is named (a file, or ``file::test``).
    """

    name: str
    file: str
    old: str
    new: str
    examples: tuple[str, ...]
    law: str | None = None


def mutants(folder: Path = PLANTED) -> list[Mutant]:
    """Every mutant listed in *folder*. Raises TypeError for an unknown key."""
    found: list[Mutant] = []
    for path in sorted(folder.rglob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        examples = tuple(table["examples"])
        file = path.relative_to(folder).with_suffix(".py").as_posix()
        found += (Mutant(file=file, examples=examples, **row) for row in table["mutant"])
    return found


def plant(mutant: Mutant, sound: str) -> str:
    """Return the source *sound* with the bug in it. Raises ValueError where its place is no longer there."""
    if mutant.old not in sound:
        raise ValueError(f"{mutant.name}: {mutant.file} no longer holds {mutant.old!r}")
    imports = "from datetime import timedelta\n" if "timedelta(" in mutant.new else ""
    return imports + sound.replace(mutant.old, mutant.new, 1)


def killers(copy: Path, tests: Sequence[str]) -> list[str]:
    """Names of the tests that fail in *copy*."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header"]
    command += ["--hypothesis-profile=first-failure", *tests]
    ran = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return re.findall(r"^FAILED \S+?::(\S+)", ran.stdout, flags=re.MULTILINE)


def survives(mutant: Mutant, copy: Path) -> bool:
    """Plant *mutant* into *copy*, run its tests, say what they saw, and take it out again."""
    path = copy / "receiver" / "core" / mutant.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(plant(mutant, sound), encoding="utf-8")
    by_law = killers(copy, [mutant.law]) if mutant.law else []
    by_example = killers(copy, mutant.examples)
    path.write_text(sound, encoding="utf-8")
    dead = bool(by_law) if mutant.law else bool(by_example)
    seen = f"law: {by_law[0] if by_law else '-'}; example: {by_example[0] if by_example else '-'}"
    print(f"{'killed' if dead else 'SURVIVED':8} {mutant.file}: {mutant.name}\n         {seen}", flush=True)
    return not dead


def main() -> int:
    """Run every mutant (or those that the words given name); 1 when one survives."""
    words = " ".join(sys.argv[1:])
    chosen = [m for m in mutants() if words in f"{m.file}: {m.name}"]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("receiver", "tests"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        survivors = sum(survives(m, copy) for m in chosen)
    print(f"{len(chosen)} mutants, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
