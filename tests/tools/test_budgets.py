"""The budgets of width: what is counted, and what is above its limit."""

import ast
import tomllib

from tools.budgets import exceeded, fields, identifiers, written

SOURCE = """
from receiver.core.model import devices

@dataclass(frozen=True)
class Pool:
    name: str
    size: ClassVar[int] = 1
    label: str = ""

class Plain:
    name: str

def keep_buffers(facts):
    return facts.claims
"""


def test_only_fields_of_dataclasses_count() -> None:
    assert list(fields(ast.parse(SOURCE))) == [("Pool", 2)]


def test_a_module_names_what_it_imports_defines_reads_and_takes() -> None:
    assert {"receiver.core.model", "devices", "keep_buffers", "claims", "facts"} <= identifiers(ast.parse(SOURCE))


def test_a_figure_may_fall_and_not_rise() -> None:
    limits = {"fields": {"Node": 40}, "lines": {"core": 100}}
    assert list(exceeded({"fields": {"Node": 40}, "lines": {"core": 99}}, limits)) == []
    assert list(exceeded({"fields": {"Node": 41}}, limits)) == ["fields of Node: 41, and at most 40"]


def test_a_type_that_becomes_wide_needs_a_limit_of_its_own() -> None:
    assert list(exceeded({"fields": {"Wide": 21}}, {"fields": {}})) == ["fields of Wide: 21, and no limit"]


def test_the_figures_that_are_written_are_the_limits_that_are_read() -> None:
    figures = {"fields": {"Node": 40}, "step": {"changes of file": 7}}
    assert tomllib.loads(written(figures)) == figures
