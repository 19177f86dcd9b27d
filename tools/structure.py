"""The shape of the package, in figures: how many lines of what kind, by package, and what stands out.

``python -m tools.structure`` prints lines and modules by package of receiver/, the entries at its top, functions over
60 lines, and modules under 60 and over 500 lines. A line is code (comments included), docstring, import or blank;
strings below fields that document them count as docstrings.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import receiver

HOME = Path(receiver.__file__).parent
KINDS = ("code", "docstring", "import", "blank")
LONGEST_FUNCTION, SMALLEST_MODULE, LARGEST_MODULE = 60, 60, 500


@dataclass(frozen=True, slots=True)
class Module:
    """One module: its path below the package, its lines by kind, and its functions with their lengths."""

    path: str
    lines: Counter[str]
    functions: tuple[tuple[str, int], ...]

    @property
    def package(self) -> str:
        """The package at the top that holds it; empty for a module at the top."""
        return self.path.partition("/")[0] if "/" in self.path else ""


def measured(path: str, source: str) -> Module:
    """Return the module at *path* with the text *source*. Raises SyntaxError."""
    kind = dict.fromkeys(range(1, len(source.splitlines()) + 1), "code")
    functions: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found = "docstring"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found = "import"
        else:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
            continue
        kind.update(dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), found))
    for number, line in enumerate(source.splitlines(), start=1):
        if not line.strip() and kind[number] == "code":
            kind[number] = "blank"
    return Module(path, Counter(kind.values()), tuple(functions))


def modules(home: Path = HOME) -> list[Module]:
    """Return every module below *home*, by path."""
    return [measured(f.relative_to(home).as_posix(), f.read_text("utf-8")) for f in sorted(home.rglob("*.py"))]


def report(found: Sequence[Module], entries: int) -> Iterator[str]:
    """Yield the figures on *found* as lines of text; *entries* stand at the top of the package."""
    yield f"{'package':<12}{'modules':>8}{'lines':>8}" + "".join(f"{kind:>11}" for kind in KINDS)
    for name in sorted({module.package for module in found}):
        yield _row(name or "(top)", [module for module in found if module.package == name])
    yield _row("all", found)
    yield f"entries at the top: {entries}"
    long = [(length, m.path, name) for m in found for name, length in m.functions if length > LONGEST_FUNCTION]
    yield f"functions over {LONGEST_FUNCTION} lines: {len(long)}"
    yield from (f"  {length} {path} {name}" for length, path, name in sorted(long, reverse=True))
    sizes = sorted((module.lines.total(), module.path) for module in found if not module.path.endswith("__init__.py"))
    small = [(size, path) for size, path in sizes if size < SMALLEST_MODULE]
    large = [(size, path) for size, path in sizes if size > LARGEST_MODULE]
    for words, some in ((f"under {SMALLEST_MODULE}", small), (f"over {LARGEST_MODULE}", large)):
        yield f"modules {words} lines (without __init__): {len(some)}"
        yield from (f"  {size} {path}" for size, path in some)


def _row(name: str, found: Sequence[Module]) -> str:
    lines = sum((module.lines for module in found), Counter[str]())
    return f"{name:<12}{len(found):>8}{lines.total():>8}" + "".join(f"{lines[kind]:>11}" for kind in KINDS)


def main() -> None:
    """Print the figures of receiver/."""
    entries = sum(not path.name.startswith((".", "__pycache__")) for path in HOME.iterdir())
    print("\n".join(report(modules(), entries)))


if __name__ == "__main__":
    main()
