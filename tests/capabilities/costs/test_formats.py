"""Text, table, JSON and page are one report: each fact is in all four."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

import pytest

from receiver.capabilities.costs import formats
from receiver.capabilities.costs.formats import as_csv, as_text
from receiver.capabilities.costs.page import standalone
from receiver.core.model.text import dollars, percent, span
from receiver.reports.screen import foreseen, minute
from tests.capabilities.costs.full_month import full_document
from tests.core.report.builders import A100_X8, L40S


def parts(report: Mapping[str, Any], name: str, *keys: str) -> Iterator[str]:
    """The amounts and names of the rows of *name*."""
    for row in report[name]:
        yield from (dollars(row[key]) for key in keys if row[key] is not None)
        yield formats.shorter(row["name"], formats.NAME)


def facts(report: Mapping[str, Any]) -> Iterator[str]:
    """What a person who reads the report must find in it, as it is written for people."""
    yield from of_money(report)
    yield from of_budgets(report)
    yield from of_work(report)
    yield from of_right_sizing(report)
    yield from of_capacity(report)
    for day in (day for day in report["days"] if float(day["usd"]) or float(day["idle_usd"])):
        yield from (day["day"], dollars(day["usd"]), dollars(day["idle_usd"]))


def of_money(report: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        report["month"],
        dollars(report["usd"]),
        f"{report['gpu_hours']:,.1f}",
        dollars(report["idle"]["usd"]),
    )
    yield from (minute(report["finalised"]), minute(report["began"]), *report["unpriced"])
    for name, amount in report["paid_for"].items():
        if float(amount["usd"]):
            yield from (name, dollars(amount["usd"]), f"{amount['gpu_hours']:,.1f}")
    for ratio in ("efficiency", "efficiency_target", "memory_waste", "utilization", "measured"):
        yield percent(report[ratio])
    yield from parts(report, "kinds", "usd", "idle_usd")
    yield from parts(report, "consumers", "usd", "idle_usd")
    if report["team"] is None:
        yield from parts(report, "teams", "usd", "idle_usd")
        yield from (dollars(team["burn_usd_per_hour"]) for team in report["teams"] if team["burn_usd_per_hour"])
        yield dollars(report["unlabelled"]["usd"])
    else:
        yield dollars(report["nobodys"]["usd"])


def of_budgets(report: Mapping[str, Any]) -> Iterator[str]:
    for line in report["budgets"]:
        yield from (dollars(line[key]) for key in ("monthly_usd", "spent_usd", "left_usd"))
        yield from (line["stage"], percent(line["ratio"]))
        if foreseen(line) is not None:
            yield dollars(foreseen(line))
    for each in report["standstills"]:
        yield from (minute(each["from"]), each["pool"], each["why"].split()[-1])


def of_work(report: Mapping[str, Any]) -> Iterator[str]:
    yield str(report["jobs"]["seen"])
    yield from (span(report["waits"][key]) for key in ("p50", "p95", "longest"))
    yield from (dollars(report["per_workload_usd"]), dollars(report["per_completed_usd"]))
    for unit in report["units"]:
        yield from (unit["name"], unit["why_not"] if unit["usd_per"] is None else dollars(unit["usd_per"]))


def of_right_sizing(report: Mapping[str, Any]) -> Iterator[str]:
    if report["right_sizes"]:
        yield dollars(report["right_sizes_usd"])
    for size in report["right_sizes"]:
        yield from (formats.shorter(size["workload"], 44), size["to"], dollars(size["saves_usd"]))
        yield from (
            percent(size["peak_memory"]),
            percent(size["peak_engine"]),
            f"{size['hours']:,.1f} h",
        )
        if size["gpus"] is not None:
            yield f"{size['gpus_used']} of {size['gpus']}"
    for peaks in report["tight"]:
        yield from (formats.shorter(peaks["workload"], 36), percent(peaks["peak_memory"]))
    for change in report["pool_changes"]:
        yield change["sentence"]


def of_capacity(report: Mapping[str, Any]) -> Iterator[str]:
    for base in report["baselines"]:
        yield from (base["size"], f"{base['any_hours']:,.1f} h")
    for offer in report["commitments"]:
        yield from (offer["size"], f"{dollars(offer['usd_per_hour'])}/h")
        if offer["recommended"]:
            yield dollars(offer["saves_usd"])
    if report["always_on"] is not None:
        compared = report["always_on"]
        yield from (
            dollars(compared["saved_usd"]),
            dollars(compared["usd"]),
            *compared["peaks"],
            *compared["left_out"],
        )
        yield from (minute(since) for since in compared["since"].values())


def squeezed(said: str) -> str:
    """*said* without white space and tenths of nothing: lines are folded, and the page says 8 h for 8.0 h."""
    return re.sub(r"\s|\.0(?!\d)", "", said)


def leaves(value: Any) -> Iterator[str]:
    """Every value of a document that is not empty."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif value not in (None, ""):
        yield str(value)


@pytest.mark.parametrize(("team", "under_way"), [(None, False), (None, True), ("vision", False)])
def test_each_fact_is_in_text_and_page(team: str | None, under_way: bool) -> None:
    found = full_document(team, under_way)
    told = squeezed("\n".join(as_text(found)))
    page = squeezed(unescape(re.sub(r"<[^>]*>", " ", standalone(found, "1"))))
    wanted = set(facts(found))
    assert len(wanted) > 100
    assert [fact for fact in sorted(wanted) if squeezed(fact) not in told] == []
    assert [fact for fact in sorted(wanted) if squeezed(fact) not in page] == []


@pytest.mark.parametrize(("team", "under_way"), [(None, False), (None, True), ("vision", False)])
def test_the_table_holds_every_value_of_the_document(team: str | None, under_way: bool) -> None:
    found = full_document(team, under_way)
    cells = {cell for row in csv.reader(io.StringIO(as_csv(found))) for cell in row}
    assert [value for value in leaves(found) if value not in cells and f"'{value}" not in cells] == []


def test_what_has_no_price_stands_in_each_format() -> None:
    found = full_document(None, under_way=False)
    assert found["unpriced"] == [A100_X8]
    assert L40S not in found["unpriced"]
    for said in ("\n".join(as_text(found)), as_csv(found), standalone(found, "1")):
        assert A100_X8 in said
