"""The figures of `tools.structure`: each line has one kind, and what stands out is listed."""

from pathlib import Path

from tools.structure import HOME, Module, measured, modules, report

SOURCE = '''"""A module
of two lines."""

import ast
from os import (
    path,
)


class Thing:
    """A thing."""

    field: int = 1
    """What the field means."""


def long(one: int) -> str:
    # why it is long
    text = """not
    a docstring"""
    return text
'''


def test_every_line_has_one_kind() -> None:
    found = measured("web/thing.py", SOURCE)
    assert found.package == "web"
    assert dict(found.lines) == {"docstring": 4, "import": 4, "code": 7, "blank": 6}
    assert found.lines.total() == len(SOURCE.splitlines())


def test_the_lengths_of_functions_are_known() -> None:
    assert measured("thing.py", SOURCE).functions == (("long", 5),)


def test_long_functions_and_small_and_large_modules_are_listed() -> None:
    found = [
        Module("core/small.py", measured("", "x = 1\n" * 59).lines, (("short", 60), ("long", 61))),
        Module("core/large.py", measured("", "x = 1\n" * 501).lines, ()),
        Module("core/__init__.py", measured("", "x = 1\n").lines, ()),
    ]
    lines = list(report(found, entries=2))
    assert lines[1].split() == ["core", "3", "561", "561", "0", "0", "0"]
    assert lines[3:] == [
        "entries at the top: 2",
        "functions over 60 lines: 1",
        "  61 core/small.py long",
        "modules under 60 lines (without __init__): 1",
        "  59 core/small.py",
        "modules over 500 lines (without __init__): 1",
        "  501 core/large.py",
    ]


def test_every_module_of_the_package_is_measured(tmp_path: Path) -> None:
    (tmp_path / "core" / "money").mkdir(parents=True)
    for name in ("entry.py", "core/__init__.py", "core/money/budget.py"):
        (tmp_path / name).write_text(SOURCE, encoding="utf-8")
    assert [(module.path, module.package) for module in modules(tmp_path)] == [
        ("core/__init__.py", "core"),
        ("core/money/budget.py", "core"),
        ("entry.py", ""),
    ]
    assert (HOME / "core" / "__init__.py").is_file()
