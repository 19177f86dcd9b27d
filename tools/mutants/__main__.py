"""Plant every mutant of the modules below, one at a time, and run the tests that reach it.

A mutant that no test sees fails the run, unless `accepted.toml` lists it with the reason. With words, only mutants are
planted whose name holds all of them: `python -m tools.mutants guardrails within_budget`. ``--all`` names the test that
sees each, ``--accepted`` runs those that are listed instead: one that is seen should not be listed. ``--examples``
leaves the laws out, for a quick look.
"""

import argparse
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from tools.mutants.campaign import PROFILE, Campaign, Seen
from tools.mutants.plant import Mutant, mutants

ACCEPTED = Path(__file__).with_name("accepted.toml")
CORE = ("tests/core/explain", "tests/core/money", "tests/core/scaling")
STEP = ("tests/step/test_carry_out.py", "tests/step/test_carry_out_of_removals.py")
MODULES = {  # and the tests that must see their mutants
    "receiver.core.scaling.guardrails": CORE,
    "receiver.core.scaling.assign": CORE,
    "receiver.core.scaling.decide": CORE,
    "receiver.core.scaling.gangs": CORE,
    "receiver.core.scaling.patience": CORE,
    "receiver.step.carry_out": STEP,
}
COLUMNS = ("functions", "mutants", "by examples", "by laws only", "accepted", "survivors", "seconds")


def accepted(path: Path = ACCEPTED) -> dict[str, str]:
    """Return the reason of each mutant that is listed, by name. Raises KeyError, ValueError for a name listed twice."""
    found: dict[str, str] = {}
    for group in tomllib.loads(path.read_text(encoding="utf-8")).get("accepted", []):
        for name in group["mutants"]:
            if name in found or not group["why"].strip():
                raise ValueError(f"listed twice, or without a reason: {name}")
            found[name] = group["why"]
    return found


def stale(listed: Iterable[str], planted: Iterable[Mutant]) -> list[str]:
    """Return the names that are *listed* and not *planted*."""
    return sorted(set(listed) - {mutant.name for mutant in planted})


def row(module: str, planted: Sequence[Mutant], seen: Sequence[Seen], skipped: int) -> str:
    """Return the line of the table for *module*."""
    counts = (
        len({m.function for m in planted}),
        len(planted),
        sum(s.by is not None and not s.law for s in seen),
        sum(s.law for s in seen),
        skipped,
        sum(s.by is None for s in seen),
        round(sum(s.seconds for s in seen)),
    )
    return f"{module:<36}" + "".join(f"{count:>14}" for count in counts)


def main(
    arguments: Sequence[str] | None = None, modules: Mapping[str, tuple[str, ...]] = MODULES, path: Path = ACCEPTED
) -> int:
    """Run the mutants that are asked for; 1 when one survives, a test fails without a mutant or a name is stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--accepted", action="store_true")
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args(arguments)
    began, everything = time.monotonic(), [m for module in modules for m in mutants(module)]
    listed = accepted(path)
    gone = stale(listed, everything)
    for name in gone:
        print(f"{path.name} lists what is not planted: {name}")
    chosen = [m for m in everything if all(word in m.name for word in asked.words)]
    run = [m for m in chosen if (m.name in listed) == asked.accepted]
    results: list[Seen] = []

    def tell(seen: Seen) -> None:
        results.append(seen)
        if seen.by is None or asked.all:
            said = "SURVIVED" if seen.by is None else "law" if seen.law else "example"
            print(f"{said:<9} {seen.mutant.name}  [line {seen.mutant.lines.start}] {seen.by or ''}", flush=True)
        elif len(results) % 50 == 0:
            print(f"{len(results)} of {len(run)} after {time.monotonic() - began:.0f} s", flush=True)

    broken = _run(run, modules, asked, tell) if run else ()
    for test in broken:
        print(f"fails without a mutant: {test}")
    print(f"{'module':<36}" + "".join(f"{column:>14}" for column in COLUMNS))
    for module in modules:
        of_it = [m for m in chosen if m.module == module]
        seen = [s for s in results if s.mutant.module == module]
        if of_it:
            print(row(module.removeprefix("receiver."), of_it, seen, len(of_it) - len([m for m in run if m in of_it])))
    print(f"{time.monotonic() - began:.0f} s")
    survived = any(s.by is None for s in results) and not asked.accepted
    return 1 if broken or gone or survived or len(results) < len(run) else 0


def _run(
    run: Sequence[Mutant],
    modules: Mapping[str, tuple[str, ...]],
    asked: argparse.Namespace,
    tell: Callable[[Seen], None],
) -> tuple[str, ...]:
    paths = sorted({place for m in run for place in modules[m.module]})
    campaign = Campaign(run, modules, asked.workers, tell, laws=not asked.examples)
    options = ("-q", "-p", "no:cacheprovider", f"--hypothesis-profile={PROFILE}", "--no-header", "--no-summary")
    pytest.main([*options, *paths], plugins=[campaign])
    return campaign.broken


if __name__ == "__main__":
    raise SystemExit(main())
