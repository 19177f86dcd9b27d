"""Run lint and types beside the tests, and say how long each stage took: `make test` and `make check`.

``python -m tools.run_checks`` runs everything that must hold, ``python -m tools.run_checks --quick`` what a developer
runs before each commit. The output of lint is printed when it ends, that of pytest as it comes. Every stage runs to its
end, whatever the others found; the exit code is 1 if one of them failed.

Tests run as Python compiles them. pytest's rewriting of assertions, which shows the values that they compared, takes
seven seconds of a fresh checkout, so only tests that failed run with it, once more.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
LINT = {
    "ruff check": (BIN / "ruff", "check", "-q", "."),
    "ruff format": (BIN / "ruff", "format", "-q", "--check", "."),
    "import direction": (BIN / "lint-imports",),
    "mypy": (BIN / "mypy",),
    "budgets": (sys.executable, "-m", "tools.budgets"),
}
# What needs no server: core, configuration, lives in memory, and the adapters against fakes of what they talk to.
QUICK = (
    "tests/core",
    "tests/step",
    # Of the lives, those that ask a simulator over HTTP, whose every step costs ten requests.
    "--ignore=tests/step/stories/test_claims.py",
    "--ignore=tests/step/test_kueue_admission.py",
    "--ignore=tests/step/test_provisioning.py",
    "tests/config",
    "tests/ports",
    "tests/runtime",
    *(f"tests/adapters/{room}" for room in ("civo", "http", "kubernetes", "messages", "monitoring")),
    "tests/contracts",
    "tests/test_generated.py",
    "--deselect=tests/test_generated.py::test_make_generate_changes_nothing[install-manifests]",  # needs Helm
)
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:xdist")
AT_FIRST = ("--assert=plain", "-p", "tools.forked_tests", "--forks")
ONCE_MORE = ("--last-failed", "--last-failed-no-failures=none")
WORKERS = {"all": 5, "quick": 2}  # on two cores; of everything, a quarter of the time waits for other processes


def environment() -> dict[str, str]:
    """The environment of a command: Python keeps what it compiles for the processes that tests start, wherever it is
    told not to. It stands beside the sources, as what pip compiled: elsewhere that would be compiled once more."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True, slots=True)
class Stage:
    """What a command came to: *seconds* of wall time, and its output unless it was printed as it came."""

    name: str
    ok: bool
    seconds: float
    output: str = ""


def run(name: str, command: Sequence[str | Path], *, shown: bool = False) -> Stage:
    """Run *command* in the checkout; *shown* passes its output through instead of keeping it."""
    begun = time.monotonic()
    kept = None if shown else subprocess.PIPE
    ran = subprocess.run(
        command, cwd=ROOT, env=environment(), stdout=kept, stderr=subprocess.STDOUT, text=True, check=False
    )
    return Stage(name, ran.returncode == 0, time.monotonic() - begun, ran.stdout or "")


def lint() -> list[Stage]:
    """Run every check of the sources, one after the other, and print what each found."""
    done = []
    for name, command in LINT.items():
        stage = run(name, command)
        print(
            f"== {name}: {'ok' if stage.ok else 'FAILED'}\n{stage.output if not stage.ok else ''}", end="", flush=True
        )
        done.append(stage)
    return done


def run_tests(workers: str, arguments: Sequence[str]) -> list[Stage]:
    """Run the tests that *arguments* of pytest name, and those that failed once more, to show what they compared."""
    stages = [run("pytest", [*PYTEST, *AT_FIRST, workers, *arguments], shown=True)]
    if not stages[0].ok:
        stages.append(run("failures, again", [*PYTEST, *ONCE_MORE, *arguments], shown=True))
    return stages


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the stages and print their times. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="what needs no server: lint, core, config, step, adapters")
    parser.add_argument("--lint", action="store_true", help="no tests")
    parser.add_argument("pytest", nargs="*", help="further arguments for pytest, after --")
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    folders = QUICK if given.quick else ()
    workers = str(WORKERS["quick" if given.quick else "all"])
    with ThreadPoolExecutor(1) as beside:
        linted = beside.submit(lint)
        tested = [] if given.lint else run_tests(workers, [*folders, *given.pytest])
        stages = [*linted.result(), *tested]
    for stage in stages:
        print(f"{stage.name:17} {stage.seconds:6.1f} s  {'ok' if stage.ok else 'FAILED'}")
    print(f"{'in all':17} {time.monotonic() - begun:6.1f} s")
    return 0 if all(stage.ok for stage in stages) else 1


if __name__ == "__main__":
    raise SystemExit(main())
