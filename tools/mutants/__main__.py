"""Plant mutants, one at a time, and run the tests that reach each.

A mutant that no test sees fails the run, unless `accepted.toml` lists it with the reason. Without options, every mutant
of the modules below is planted; ``--module core.money.budget`` names others, ``--changed REF`` plants those of the
functions that changed since the merge base with REF. With words, only mutants are planted whose name holds all of them:
`python -m tools.mutants guardrails within_budget`. ``--all`` names the test that sees each, ``--accepted`` runs those
that are listed instead: one that is seen should not be listed. For a quick look, ``--examples`` leaves the laws out and
``--rings 1`` all tests but the nearest, those that are named after the module.
"""

import argparse
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from tools.mutants.campaign import PROFILE, Campaign, Seen
from tools.mutants.changed import changed_functions
from tools.mutants.nearest import PACKAGES, ROOT, Rings, modules, rings
from tools.mutants.plant import Mutant, file_of, mutants

ACCEPTED = Path(__file__).with_name("accepted.toml")
MODULES = (  # those without a survivor
    "receiver.core.scaling.guardrails",
    "receiver.core.scaling.guardrails.limits",
    "receiver.core.scaling.guardrails.rule",
    "receiver.core.scaling.guardrails.waiting",
    "receiver.core.scaling.assign",
    "receiver.core.scaling.placing",
    "receiver.core.scaling.decide",
    "receiver.core.scaling.gangs",
    "receiver.capabilities.patience.waiting",
    "receiver.core.scaling.retirement",
    "receiver.core.money.budget",
    "receiver.core.promises.promise",
    "receiver.capabilities.idle_shutdown.judging",
    "receiver.capabilities.repair.choosing",
    "receiver.core.notices.routing",
    "receiver.step.carry_out",
    "receiver.step.retire",
    "receiver.config.values",
    "receiver.web.auth.access",
    "receiver.adapters.civo.cloud",
    "receiver.adapters.store.figures",
    "receiver.adapters.store.inbox",
    "receiver.adapters.store.lease_table",
    "receiver.adapters.store.outbox",
    "receiver.adapters.store.overrides",
    "receiver.adapters.store.usage",
)
ON_DATABASES = "receiver.adapters.store"  # for all others SQLite is enough
COLUMNS = ("functions", "mutants", "by examples", "by laws only", "accepted", "survivors", "seconds")


def accepted(path: Path = ACCEPTED) -> dict[str, str]:
    """Return the reason of each mutant that is listed, by name. Raises KeyError, ValueError for a name listed twice."""
    reasons: dict[str, str] = {}
    for group in tomllib.loads(path.read_text(encoding="utf-8")).get("accepted", []):
        for name in group["mutants"]:
            if name in reasons or not group["why"].strip():
                raise ValueError(f"listed twice, or without a reason: {name}")
            reasons[name] = group["why"]
    return reasons


def stale(listed: Iterable[str], planted: Iterable[Mutant]) -> list[str]:
    """Return the names that are *listed* and not *planted*."""
    return sorted(set(listed) - {mutant.name for mutant in planted})


def listed_of(module: str, listed: Iterable[str]) -> list[str]:
    """Return those of the *listed* names that are mutants of *module*."""
    return [name for name in listed if name.startswith(f"{module.removeprefix('receiver.')}.")]


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
    arguments: Sequence[str] | None = None,
    tests: Callable[[str], Rings] = rings,
    clean: Sequence[str] = MODULES,
    path: Path = ACCEPTED,
) -> int:
    """Run the chosen mutants; 1 when one survives, a test fails without a mutant or a name is stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--accepted", action="store_true")
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--rings", type=int)
    parser.add_argument("--module", action="append", metavar="MODULE")
    parser.add_argument("--changed", metavar="REF")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    began, planted = time.monotonic(), _planted(options.module, options.changed, clean)
    names = accepted(path)
    of_modules = {m.module for m in planted}
    gone = stale((name for module in of_modules for name in listed_of(module, names)), planted)
    for name in gone:
        print(f"{path.name} lists what is not planted: {name}")
    if options.changed:
        functions = changed_functions(options.changed)
        planted = [m for m in planted if m.function in functions[m.module]]
    chosen = [m for m in planted if all(word in m.name for word in options.words)]
    run = [m for m in chosen if (m.name in names) == options.accepted]
    results: list[Seen] = []

    def tell(seen: Seen) -> None:
        results.append(seen)
        if seen.by is None:
            where = Path(file_of(seen.mutant.module))
            shown = where.relative_to(ROOT) if where.is_relative_to(ROOT) else where
            print(f"SURVIVED  {seen.mutant.name}\n{shown}:{seen.mutant.line}\n{seen.mutant.diff}", flush=True)
        elif options.all:
            print(f"{'law' if seen.law else 'example':<9} {seen.mutant.name} {seen.by}", flush=True)
        elif len(results) % 50 == 0:
            print(f"{len(results)} of {len(run)} after {time.monotonic() - began:.0f} s", flush=True)

    broken = _run(run, tests, options, tell) if run else ()
    for test in broken:
        print(f"fails without a mutant: {test}")
    print(f"{'module':<36}" + "".join(f"{column:>14}" for column in COLUMNS))
    for module in dict.fromkeys(m.module for m in chosen):
        of_it = [m for m in chosen if m.module == module]
        seen = [s for s in results if s.mutant.module == module]
        print(row(module.removeprefix("receiver."), of_it, seen, len(of_it) - len([m for m in run if m in of_it])))
    print(f"{time.monotonic() - began:.0f} s")
    survived = any(s.by is None for s in results) and not options.accepted
    return 1 if broken or gone or survived or len(results) < len(run) else 0


def _planted(named: Sequence[str] | None, changed: str | None, clean: Sequence[str]) -> list[Mutant]:
    """Every mutant of the modules that are *named* or *changed* since a commit, or of the *clean* ones."""
    if changed:
        known = set(modules())
        chosen: Iterable[str] = [module for module in changed_functions(changed) if module in known]
        if not chosen:
            print(f"no function of {', '.join(PACKAGES)} changed since {changed}")
    else:
        chosen = [f"receiver.{name.removeprefix('receiver.')}" for name in named] if named else clean
    return [mutant for module in chosen for mutant in mutants(module)]


def _run(
    run: Sequence[Mutant], tests: Callable[[str], Rings], options: argparse.Namespace, tell: Callable[[Seen], None]
) -> tuple[str, ...]:
    by_module = {module: tests(module)[: options.rings] for module in dict.fromkeys(m.module for m in run)}
    places = sorted({str(path) for near in by_module.values() for ring in near for path in ring})
    databases = any(module.startswith(ON_DATABASES) for module in by_module)
    campaign = Campaign(run, by_module, options.workers, tell, laws=not options.examples, postgres=databases)
    switches = ("-q", "-p", "no:cacheprovider", f"--hypothesis-profile={PROFILE}")
    pytest.main([*switches, "--no-header", "--no-summary", *places], plugins=[campaign])
    return campaign.broken


if __name__ == "__main__":
    raise SystemExit(main())
