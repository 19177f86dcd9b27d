"""``python -m campaigns.without [NAMES ...]``: delete each capability, and play the core's tests and frozen outputs.

For each it prints what the tests of the core came to, and of the frozen outputs (`campaigns.frozen`) how many are the
same, how many are gone and how many differ: those that the capability has a part in. The exit status is 1 where a test
of the core fails. ``tests/capabilities/test_deleted.py`` deletes each in `make test`, and plays a small life.
"""

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

from receiver.capabilities.registry import NAMES
from tests.given.without import ROOT, product_without

WORDS = "passed", "failed", "error"


def ran(arguments: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the product in *home*."""
    path = os.pathsep.join((str(home), str(ROOT)))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def core_tests(home: Path) -> tuple[bool, str]:
    """Whether the core's tests pass with the product in *home*, and pytest's last line."""
    where = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-o", f"pythonpath={home} {ROOT}"]
    options = ["-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal"]
    done = ran(["-m", "pytest", *where, *options, str(ROOT / "tests" / "core")], home)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()]
    told = [line for line in lines if any(word in line for word in WORDS)]
    return done.returncode == 0, (told or lines)[-1]


def frozen(home: Path, folder: Path) -> dict[str, str]:
    """The frozen outputs of the product in *home*, by file."""
    done = ran(["-m", "campaigns.frozen", str(folder)], home)
    assert done.returncode == 0, done.stderr
    return {str(f.relative_to(folder)): f.read_text("utf-8") for f in folder.rglob("*") if f.is_file()}


def main() -> int:
    """Delete each capability. Returns the exit code."""
    parser = ArgumentParser(prog="python -m campaigns.without", description="Each capability deleted.")
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--core-alone", action="store_true", help="play the core's tests, and write no outputs")
    asked, all_well = parser.parse_args(), True
    with tempfile.TemporaryDirectory() as scratch:
        whole = {} if asked.core_alone else frozen(ROOT, Path(scratch, "whole"))
        for name in asked.names:
            began, home = time.monotonic(), Path(scratch, name)
            product_without(name, home)
            well, told = core_tests(home)
            all_well &= well
            figures = ""
            if whole:
                rest = frozen(home, home / "frozen")
                same = sum(rest.get(file) == text for file, text in whole.items())
                gone = sum(file not in rest for file in whole)
                figures = f"; frozen: {same} the same, {gone} gone, {len(whole) - same - gone} differ"
            line = f"without {name}: {told.strip('= ')}{figures}; {time.monotonic() - began:.0f} s"
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 0 if all_well else 1


if __name__ == "__main__":
    raise SystemExit(main())
