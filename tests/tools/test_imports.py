"""No test module imports another: what several tests use stands in a module without tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.lint import none_of

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "campaigns", "conformance", "demo", "simulator", "tests", "tools")
# only these statements are parsed: to parse every module would take seconds
STATEMENT = re.compile(r"^ *((?:from tests[\w.]* import|import tests)\b(?: \([^)]*\)|.*))", re.MULTILINE)
TEST_MODULE = re.compile(r"tests\.(?:[\w.]+\.)?test_\w+")


def imported_tests(source: str) -> Iterator[str]:
    """Yield the test modules that a module imports, in whichever way."""
    for node in ast.parse("\n".join(STATEMENT.findall(source))).body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if TEST_MODULE.fullmatch(name))


def test_every_way_to_import_a_test_module_is_found() -> None:
    ways = (
        "import tests.a.test_b",
        "from tests.a.test_b import c",
        "    from tests.a import (\n  c,\n  test_b as b,\n)",
    )
    assert [list(imported_tests(way)) for way in ways] == [["tests.a.test_b"]] * 3
    assert (
        list(imported_tests("from tests.a.builders import tested\nimport tests.a\n'from tests.a import test_b'")) == []
    )


def test_no_test_module_is_imported() -> None:
    files = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
    assert len(files) > 500
    imports = {file.relative_to(ROOT).as_posix(): set(imported_tests(file.read_text("utf-8"))) for file in files}
    none_of(
        f"{file} imports {name}: move what it needs to a module without tests"
        for file, names in imports.items()
        for name in sorted(names)
    )
