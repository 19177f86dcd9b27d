"""Which tests belong to a module, nearest first, by the names of files and by what they import."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "receiver.core",
    "receiver.capabilities",
    "receiver.step",
    "receiver.adapters",
    "receiver.web.auth",
    "receiver.config",
)
LEFT_OUT = ("receiver.adapters.migrations",)  # runs on import, and a released revision is never edited
# Tests that start servers, swap code themselves, or draw random worlds for minutes.
TOO_LARGE = (
    "browser",
    "campaigns",
    "capabilities/test_deleted.py",
    "dashboards",
    "demo",
    "e2e",
    "rules",
    "server",
    "step/failures",
    "tools",
    "victoria",
)
# Folders and files for a package or module beside those found by the rule.
EXTRA = {
    "receiver.core.scaling": ("core/explain", "core/money"),
    "receiver.adapters.civo.cloud": ("contracts/test_cloud.py",),
    "receiver.adapters.kubernetes": ("contracts/test_cluster.py",),
    "receiver.step": ("step/stories",),
}

MOST_ELSEWHERE = 30  # test files in other folders that import the module; those that import least are nearest

Rings = list[list[Path]]


def modules(packages: Sequence[str] = PACKAGES, root: Path = ROOT) -> Iterator[str]:
    """Every module of *packages* that mutants are planted in."""
    for package in packages:
        for path in sorted((root / package.replace(".", "/")).rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            if not any(_within(module, left_out) for left_out in LEFT_OUT):
                yield module


def rings(module: str, root: Path = ROOT) -> Rings:
    """The test files of *module*: those named after it; those that import it, in the folder that mirrors its own; the
    rest of that folder; those elsewhere that import it; the extra ones. No file is in two rings, no ring is empty."""
    tests = root / "tests"
    parts = module.split(".")[1:]
    folder = next(f for n in range(len(parts) - 1, -1, -1) if (f := tests.joinpath(*parts[:n])).is_dir())
    named = [*folder.glob(f"test_{parts[-1]}*.py"), *_tests_in(folder / parts[-1])]
    importing = [path for path in _all_tests(tests) if module in _imports(path)]
    beside = [path for path in importing if path.is_relative_to(folder)]
    elsewhere = sorted(importing, key=lambda path: (path in beside, len(_imports(path)), path))[:MOST_ELSEWHERE]
    mirrored = list(folder.glob("test_*.py")) if folder != tests else []
    extra = [p for package, places in EXTRA.items() if _within(module, package) for p in _places(tests, places)]
    taken: set[Path] = set()
    found = []
    for ring in (sorted(named), beside, sorted(mirrored), elsewhere, extra):
        new = [path for path in dict.fromkeys(ring) if path not in taken and _is_small(path, tests)]
        taken.update(new)
        found.append(new)
    return [ring for ring in found if ring]


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _tests_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))


def _places(tests: Path, places: Iterable[str]) -> Iterator[Path]:
    for place in places:
        path = tests / place
        yield from [path] if path.is_file() else _tests_in(path)


def _is_small(path: Path, tests: Path) -> bool:
    return not any(path.is_relative_to(tests / folder) for folder in TOO_LARGE)


@cache
def _all_tests(tests: Path) -> list[Path]:
    return [path for path in _tests_in(tests) if _is_small(path, tests)]


@cache
def _imports(path: Path) -> frozenset[str]:
    """The names of the modules, and of what is imported from them, that the file at *path* imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)
