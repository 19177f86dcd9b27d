"""The tests that need no server, with the lowest versions that pyproject.toml allows: `make lowest`.

A virtual environment of its own below .build gets the lowest version of each dependency, with what these need, and the
tools of the tests as `.venv` has them. If one of them requires more of another than our bound, pip says which bound of
pyproject.toml to raise.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from tools.make_venv import NotMade, pip

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".build" / "lowest"
# Of the development tools only what these tests import: others would pull newer versions in.
TOOLS = (
    "setuptools",
    "pytest",
    "pytest-httpserver",
    "responses",
    "hypothesis",
    "jsonschema",
    "openapi-spec-validator",
)
TESTS = ("tests/config", "tests/web", "tests/adapters", "tests/core/money", "tests/cli")
BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?P<extra>\[[a-z,]+\])?>=(?P<lowest>[0-9.]+)(?:,<[0-9.]+)?")


def lowest(requirements: Iterable[str]) -> list[str]:
    """Return *requirements* pinned to their lower bounds. Raises ValueError for one without."""
    found = []
    for requirement in requirements:
        bound = BOUND.fullmatch(requirement)
        if bound is None:
            raise ValueError(f"{requirement} has no lower bound")
        found.append(f"{bound['name']}{bound['extra'] or ''}=={bound['lowest']}")
    return found


def pins() -> list[str]:
    """Return the lowest versions of everything that runs, PostgreSQL's client too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return lowest([*project["dependencies"], *project["optional-dependencies"]["postgres"]])


def tools() -> list[str]:
    """Return the tools of the tests in the versions of the Python that runs this."""
    return [f"{name}=={version(name)}" for name in TOOLS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the lowest versions and run the tests, or those in *arguments*. Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    python = FOLDER / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    print(f"with the lowest versions: {' '.join(pins())}", flush=True)
    try:
        install = [*pip(FOLDER), "install", "-q", "--disable-pip-version-check"]
    except NotMade as error:
        print(error, file=sys.stderr)
        return 1
    for what in ([*pins(), *tools()], ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]):
        if subprocess.run([*install, *what], cwd=ROOT, check=False).returncode:
            return 1
    # Old versions warn of what new versions of Python deprecate: that is not judged here.
    tests = [str(python), "-m", "pytest", "-q", "-W", "default", *(given or TESTS)]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
