"""Which versions `make lowest` runs the tests with."""

import re
import tomllib

import pytest

from tests.lint import none_of
from tools.lowest_versions import ROOT, TESTS, TOOLS, lowest, pins


def test_a_requirement_is_pinned_to_its_lower_bound() -> None:
    assert lowest(["flask>=3.1.0,<4", "psycopg[binary]>=3.2.3,<4", "tzdata>=2025.2"]) == [
        "flask==3.1.0",
        "psycopg[binary]==3.2.3",
        "tzdata==2025.2",
    ]


def test_a_requirement_without_a_lower_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="flask has no lower bound"):
        lowest(["flask"])


def test_everything_that_runs_is_pinned_to_a_version_that_can_be_named_whole() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(pins()) == len(project["dependencies"]) + len(project["optional-dependencies"]["postgres"])
    none_of(pin for pin in pins() if not re.search(r"==\d+\.\d+", pin))


def test_its_tests_exist_and_its_tools_are_those_of_development() -> None:
    assert all((ROOT / folder).is_dir() for folder in TESTS)
    development = str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"])
    none_of(tool for tool in TOOLS if f"'{tool}" not in development)
