"""The table, the summary and the JUnit file of results."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from conformance.report import estimate, line, summary, table, write_junit
from conformance.scenario import Result
from conformance.scenarios import chosen

PASSED = Result(
    name="one pod",
    expected="1 node",
    verdict="passed",
    seen="Civo was asked for [1]",
    seconds=2.5,
    figures={"asked_after": 0.8234, "bought": 1},
)
FAILED = Result(name="burst", expected="40", verdict="failed", seen="41 | of\n40", seconds=3.0, log="a\x1b[31m line")
SKIPPED = Result(name="two replicas", expected="1", verdict="skipped", seen="no initdb", seconds=0.0)


def test_the_table_has_a_row_for_each_scenario_whatever_it_saw() -> None:
    rows = table([PASSED, FAILED, SKIPPED]).splitlines()
    assert rows[2] == "| one pod | 1 node | ok | Civo was asked for [1] | asked_after 0.82, bought 1 | 2 |"
    assert rows[3] == "| burst | 40 | FAILED | 41 / of 40 |  | 3 |"
    assert len(rows) == 5


def test_a_result_is_printed_with_what_was_expected_and_seen_and_its_log() -> None:
    assert line(FAILED, "2 of 3").splitlines() == [
        "FAILED  2 of 3  burst  (3 s)",
        "        expected: 40",
        "        seen: 41 | of",
        "40",
        "        at fault: the autoscaler: it did not do what was expected",
        "        | a\x1b[31m line",
    ]


def test_a_mistake_of_the_suite_says_so_and_shows_its_traceback_only_where_that_is_asked_for() -> None:
    broken = replace(FAILED, verdict="error", log="", traceback="Traceback (most recent call last):\n  a line")
    assert line(broken).startswith("ERROR   burst")
    assert "at fault: the suite or the cluster" in line(broken)
    assert "Traceback" not in line(broken)
    assert "        | Traceback (most recent call last):\n        |   a line" in line(broken, traceback=True)
    assert summary([PASSED, broken]) == "2 scenarios: 1 passed, 1 error, 6 s"


def test_the_time_is_estimated_by_what_was_recorded() -> None:
    recorded = table([replace(PASSED, seconds=30.0), replace(FAILED, seconds=90.0)])
    assert estimate(["one pod"], recorded).startswith("1 scenario, about 30 s; up to 3 times that")
    assert estimate(["one pod", "burst", "new"], recorded).startswith("3 scenarios, about 3 min;")
    assert estimate([s.name for s in chosen()]).startswith("30 scenarios, about 2")


def test_the_summary_counts_verdicts() -> None:
    assert summary([PASSED, FAILED, SKIPPED]) == "3 scenarios: 1 passed, 1 failed, 1 skipped, 6 s"


def test_junit_has_verdicts_figures_and_no_control_characters(tmp_path: Path) -> None:
    file = tmp_path / "reports" / "conformance.xml"
    broken = replace(FAILED, name="broken", verdict="error", traceback="Traceback")
    write_junit([PASSED, FAILED, SKIPPED, broken], file)
    suite = ET.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    assert suite.get("errors") == "1"
    cases = {case.get("name"): case for case in suite}
    figures = {p.get("name"): p.get("value") for p in cases["one pod"].iter("property")}
    assert figures == {
        "expected": "1 node",
        "seen": "Civo was asked for [1]",
        "asked_after": "0.8234",
        "bought": "1",
    }
    failure = cases["burst"].find("failure")
    assert failure is not None
    assert failure.text == "a[31m line"
    assert cases["two replicas"].find("skipped") is not None
    assert cases["one pod"].find("failure") is None
    assert [e.text for e in cases["broken"].iter("error")] == ["a[31m line\nTraceback"]
