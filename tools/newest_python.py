"""What may differ between versions of Python, with the newest one that is installed: `make newest`.

It looks on PATH and where pyenv and uv keep theirs, for versions up to the newest that pyproject.toml names. That one
gets a virtual environment of its own below .build, and runs `make check`, failures of steps and the tests of the store:
these plant bugs, and open and close what Python warns of when it stays open. Where none is newer than the Python of
.venv, with which `make test` runs, it says so and passes.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests/campaigns/test_step_failures.py", "tests/adapters/store")  # beside what `make check` runs
ASKS = "import sys; print(*sys.version_info[:2], sys.version_info.releaselevel)"


def main() -> int:
    """Run the checks with the newest Python. Returns the exit code."""
    ours, newest = sys.version_info[1], supported()[-1]
    found = newest_of(candidates(), newest)
    if found is None or found[0] <= ours:
        print(f"no Python newer than 3.{ours}, up to 3.{newest}, is installed: `make test` has run what there is")
        return 0
    minor, python = found
    print(f"with Python 3.{minor}: {python}", flush=True)
    venv = f".build/venv-3.{minor}"
    made = subprocess.run([str(python), "-m", "tools.make_venv", venv], cwd=ROOT, check=False)
    if made.returncode:
        return made.returncode
    command = [f"{venv}/bin/python", "-m", "tools.run_checks", "--quick", "--", *TESTS]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def supported() -> list[int]:
    """The minor versions of Python 3 that pyproject.toml names, the newest last."""
    named = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    return sorted(map(int, named))


def candidates() -> Iterable[Path]:
    """The programs that may be a Python: on PATH, of pyenv, of uv."""
    home = Path.home()
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders += sorted(Path(os.environ.get("PYENV_ROOT", home / ".pyenv")).glob("versions/*/bin"))
    folders += sorted((home / ".local" / "share" / "uv" / "python").glob("*/bin"))
    return [folder / f"python3.{minor}" for folder in folders for minor in supported()]


def newest_of(programs: Iterable[Path], newest: int) -> tuple[int, Path] | None:
    """The minor version and the path of the newest of *programs* that runs, is released and is no newer than *newest*;
    the first one of several."""
    best: tuple[int, Path] | None = None
    for program in programs:
        minor = _minor_version(program)
        if minor is not None and minor <= newest and (best is None or minor > best[0]):
            best = minor, program
    return best


def _minor_version(program: Path) -> int | None:
    try:
        ran = subprocess.run([program, "-c", ASKS], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match ran.stdout.split():
        case ["3", minor, "final"]:
            return int(minor)
    return None


if __name__ == "__main__":
    sys.exit(main())
