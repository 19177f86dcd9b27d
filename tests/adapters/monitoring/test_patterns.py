"""Which regular expressions of other people are evaluated: those that Python is done with in a moment."""

import pytest

from receiver.adapters.monitoring.alertmanager import evaluable


@pytest.mark.parametrize(
    "pattern",
    ["l40s", "l40s|h100", ".+", ".*", "gpu-.*", "(l40s|h100)-.*", "(?i)L40S", "[a-z]+-[0-9]+", r"l40s\.x1", "(foo-)?x"],
)
def test_what_people_write_into_silences_is_evaluated(pattern: str) -> None:
    assert evaluable(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "([a-z-]|[a-z-]|[a-z-]|[a-z-])*!",  # freezes a process for weeks, and no pool has to be called anything special
        "(.*)*!",
        "(a?){50}!",
        "((a|b)+c?)+!",
        ".*.*.*.*!",
        "a" * 2000,
        r"(a)\1",
        "(?=a)a",
        "(?#[)(a|a)*!]",
        "[[:alpha:]]+",
        "a(",
        "a)",
    ],
)
def test_what_python_might_try_for_years_or_reads_as_something_else_is_not(pattern: str) -> None:
    assert not evaluable(pattern)
