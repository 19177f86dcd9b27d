"""The budgets of width: figures on the shape of the package that may fall, and rise only with a reason.

``python -m tools.budgets`` measures them and fails if one is above its limit in `budgets.toml`, or stands in no row of
it; ``--write`` stores today's figures as limits, which is how they are lowered. A commit that raises one says why. The
figures:

* fields: of each dataclass with more than `MANY_FIELDS`
* lines and public functions: of each package of receiver/
* step: files and named functions that a growing step enters, and how often it changes file (`tools.trace_step`)
* capabilities: modules outside receiver/capabilities in which an identifier holds one of the words of `CAPABILITIES`
"""

import argparse
import ast
import gc
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path

from tools.structure import HOME
from tools.trace_step import Trace, growing_step

LIMITS = Path(__file__).with_name("budgets.toml")
MANY_FIELDS = 20
ROUNDED_LINES = 100  # lines are rounded up to these, so that a correction needs no new limit
CAPABILITIES = {
    "approvals": "approv|question",
    "bundles": "bundle",
    "capacity buffers": "buffer",
    "device claims": "devices|deviceclass|claims|resourceslice|dra_",
    "idle shutdown": "idle_?shutdown",
    "Kueue's admission check": "admission_?check",
    "patience": "patien|may_?wait",
    "promises": "promise",
    "provisioning requests": "provisioning_?request",
    "queues": "kueue|volcano|pod_?group",
    "repair": "repair",
    "shares of GPUs": "shares",
    "what-if": "what_?if",
}
Figures = dict[str, dict[str, int]]


def measured(step: Trace) -> Figures:
    """Return every figure by kind and name; *step* is a growing one."""
    sources = {f.relative_to(HOME).as_posix(): f.read_text("utf-8") for f in sorted(HOME.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    outside = [tree for path, tree in trees.items() if _package(path) != "capabilities"]
    names = ["\n".join(sorted(identifiers(tree))) for tree in outside]
    return {
        "fields": dict(sorted((name, n) for tree in trees.values() for name, n in fields(tree) if n > MANY_FIELDS)),
        "lines": lines(sources),
        "public functions": public_functions(trees),
        "step": {"files": step.file_count, "named functions": step.named_functions, "changes of file": step.moves},
        "capabilities": {
            capability: sum(re.search(words, module, re.IGNORECASE) is not None for module in names)
            for capability, words in CAPABILITIES.items()
        },
    }


def fields(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each dataclass of a module with the number of its own fields."""
    for node in _classes(tree.body):
        if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            yield node.name, sum(isinstance(line, ast.AnnAssign) and not _is_constant(line) for line in node.body)


def _classes(body: Sequence[ast.stmt]) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module or class, and those inside them; what stands in a function is no shared type."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node
            yield from _classes(node.body)


def _is_constant(line: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(line.annotation)


def lines(sources: Mapping[str, str]) -> dict[str, int]:
    """Return the lines of each package at the top of receiver/, rounded up."""
    sums: dict[str, int] = {}
    for path, source in sources.items():
        sums[_package(path)] = sums.get(_package(path), 0) + len(source.splitlines())
    return {name: ceil(total / ROUNDED_LINES) * ROUNDED_LINES for name, total in sorted(sums.items())}


def public_functions(trees: Mapping[str, ast.Module]) -> dict[str, int]:
    """Return how many functions other modules may call, by package: those at the top of a module without ``_``."""
    sums: dict[str, int] = {}
    for path, tree in trees.items():
        public = sum(isinstance(node, ast.FunctionDef) and not node.name.startswith("_") for node in tree.body)
        sums[_package(path)] = sums.get(_package(path), 0) + public
    return dict(sorted(sums.items()))


def _package(path: str) -> str:
    return path.partition("/")[0] if "/" in path else "(top)"


def identifiers(tree: ast.Module) -> set[str]:
    """Return every identifier of a module, with the names of the modules that it imports."""
    return {
        name
        for node in ast.walk(tree)
        for field in ("id", "attr", "name", "arg", "module")
        if isinstance(name := getattr(node, field, None), str)
    }


def exceeded(figures: Figures, limits: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a line for each of *figures* that is above its limit or has none."""
    for kind, by_name in figures.items():
        for name, figure in by_name.items():
            limit = limits.get(kind, {}).get(name)
            if limit is None or figure > limit:
                yield f"{kind} of {name}: {figure}, and {'no limit' if limit is None else f'at most {limit}'}"


def written(figures: Figures) -> str:
    """Return *figures* as the text of `budgets.toml`."""
    text = ["# The figures of `python -m tools.budgets`, which may only fall. `--write` stores today's."]
    for kind, by_name in figures.items():
        text += ["", f'["{kind}"]', *(f'"{name}" = {figure}' for name, figure in by_name.items())]
    return "\n".join([*text, ""])


def main() -> int:
    """Measure, and compare with the limits or store them. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.budgets", description="The budgets of width.")
    parser.add_argument("--write", action="store_true", help="store today's figures as limits")
    gc.disable()  # the search for cycles among the nodes of syntax trees takes half of the time, and finds none
    figures = measured(growing_step())
    if parser.parse_args().write:
        LIMITS.write_text(written(figures), encoding="utf-8")
        return 0
    above = list(exceeded(figures, tomllib.loads(LIMITS.read_text(encoding="utf-8"))))
    print("\n".join([*above, *(["find a smaller form, or say in the commit why it is worth it"] if above else [])]))
    return 1 if above else 0


if __name__ == "__main__":
    raise SystemExit(main())
