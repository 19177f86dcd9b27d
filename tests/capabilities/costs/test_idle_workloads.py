"""The part of a month's report on idle workloads: from the store to API, text, table and page."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.costs.documents import ReportDocument
from receiver.capabilities.costs.formats import as_csv, as_text
from receiver.capabilities.costs.page import standalone
from receiver.core.report.report import report
from tests.clocks import FixedClock
from tests.core.report.builders import AFTER, L40S, MONTH, PRICES, an_idle_span, at
from tests.core.report.simulated import SimulatedMonth, a_month
from tests.web.builders import Bench
from tests.web.seen import words
from tests.web.stores import a_store_with

SPANS = (
    an_idle_span("vision/StatefulSet/lab", 10, until=at(14)),
    an_idle_span("vision/StatefulSet/lab", 40, ended=True, until=at(50)),
    an_idle_span("search/Job/index", 100, team="search", until=at(109), gpus=4.0, usd_per_hour=4 * PRICES[L40S]),
)


def document(*spans: Any, team: str | None = None) -> dict[str, Any]:
    month: SimulatedMonth = a_month()
    found = replace(month.found(), idle_spans=spans)
    return ReportDocument.of(report(found, month.policy, MONTH, AFTER, team)).document()


def test_the_api_says_what_was_held_and_saved_by_namespace_and_workload() -> None:
    idle = document(*SPANS)["idle_workloads"]
    assert idle["held"] == {"gpu_hours": 40.0, "usd": "51.60"}
    assert idle["saved"] == {"gpu_hours": 10.0, "usd": "12.90"}
    assert [(row["workload"], row["ended"], row["usd"]) for row in idle["workloads"]] == [
        ("search/Job/index", False, "46.44"),
        ("vision/StatefulSet/lab", False, "5.16"),
        ("vision/StatefulSet/lab", True, "12.90"),
    ]
    for of in ("held", "saved"):
        assert sum(Decimal(space[of]["usd"]) for space in idle["namespaces"]) == Decimal(idle[of]["usd"])


def test_the_months_cost_is_the_same_with_and_without() -> None:
    assert document(*SPANS)["usd"] == document()["usd"]


def test_a_teams_report_has_its_own_idle_workloads() -> None:
    idle = document(*SPANS, team="vision")["idle_workloads"]
    assert [space["name"] for space in idle["namespaces"]] == ["vision"]


def test_without_any_the_report_says_nothing_of_them() -> None:
    assert document()["idle_workloads"] is None
    assert not [line for line in as_text(document()) if "Idle workloads" in line]
    assert "Idle workloads" not in standalone(document(), "1")


@pytest.mark.parametrize("closed", [False, True], ids=["now", "closed by an older version"])
def test_a_report_without_the_part_is_shown(closed: bool) -> None:
    found = document()
    if closed:
        del found["idle_workloads"]
    assert list(as_text(found))
    assert standalone(found, "1")


def test_text_table_and_page_show_it() -> None:
    found = document(*SPANS)
    lines = list(as_text(found))
    assert "Idle workloads: $51.60 (40.0 h) held, $12.90 (10.0 h) saved (estimate)" in lines
    assert "  vision/StatefulSet/lab: scaled to zero, saved $12.90 (10.0 h)" in lines
    assert "idle_workloads.held.usd,51.60" in as_csv(found)
    assert "$51.60 held for too long, $12.90 saved" in words(standalone(found, "1"))


def test_more_workloads_than_are_listed_are_counted() -> None:
    found = document(*(an_idle_span(f"ml/Job/{number:02}", number) for number in range(60)))
    assert len(found["idle_workloads"]["workloads"]) == 50
    assert found["idle_workloads"]["workloads_total"] == 60
    assert "  and 50 more workloads" in list(as_text(found))


def test_the_server_reads_them_from_the_store() -> None:
    month = a_month()
    store = a_store_with(lives=month.lives, usage=month.usage, workloads=month.workloads)
    store.keep_idle(SPANS)
    client = Bench(store=store, policy=month.policy, clock=FixedClock(AFTER)).client()
    answer = client.get(f"/api/v1/report?month={MONTH.name}").get_json()
    assert answer["idle_workloads"]["held"]["usd"] == "51.60"
