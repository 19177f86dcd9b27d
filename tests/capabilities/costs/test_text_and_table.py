"""A report as text of 80 columns and as CSV."""

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from html import unescape
from typing import Any

import pytest

from receiver.capabilities.costs.documents import ReportDocument
from receiver.capabilities.costs.formats import COLUMNS, as_csv, as_text, shorter
from receiver.capabilities.costs.page import standalone
from receiver.core.model.policy import Billing, Budget, CommittedNodes, ReportPolicy, UnitOfWork
from receiver.core.model.usage import Owner
from receiver.core.report.report import Report, Spoke, report
from tests.core.report.builders import AFTER, H100, L40S, MONTH, a_life, a_policy, a_usage, a_workload, at
from tests.core.report.simulated import SimulatedMonth, a_month

LONG = "research-and-development/Deployment/" + "a-very-long-name-of-a-workload-" * 4


def document(found: Report) -> dict[str, Any]:
    """What the API answers."""
    return ReportDocument.of(found).document()


def text(found: Report) -> str:
    """What the command prints."""
    return "\n".join(as_text(document(found)))


def lines_of(report: Any) -> list[dict[str, str]]:
    """The cost lines of a table."""
    return [row for row in csv.DictReader(io.StringIO(as_csv(report))) if row["record"] == "line"]


def facts_of(report: Any) -> dict[str, str]:
    """What else a table says."""
    rows = csv.DictReader(io.StringIO(as_csv(report)))
    return {row["fact"]: row["value"] for row in rows if row["record"] == "fact"}


def small(**changes: Any) -> SimulatedMonth:
    """A month of one node, held for six of its eight hours, two of them at rest."""
    policy = changes.pop("policy", None) or a_policy()
    given: dict[str, Any] = {"lives": [a_life(lasts=8)], "usage": [a_usage(hours=6, idle=2 * 3600.0)], "policy": policy}
    return SimulatedMonth(**{**given, **changes})


@pytest.mark.parametrize("team", [None, "vision", "search", ""])
def test_no_line_of_a_simulated_month_is_longer_than_80_columns(team: str | None) -> None:
    lines = text(a_month().report(team)).splitlines()
    assert len(lines) > 20
    assert [line for line in lines if len(line) > 80] == []


def test_the_report_begins_with_the_clusters_name_and_a_table_has_it_as_a_fact() -> None:
    found = ReportDocument.of(small().report(), cluster_name="prod-lon1").document()
    assert next(as_text(found)).startswith("prod-lon1: GPU report 2026-10")
    assert facts_of(found)["cluster_name"] == "prod-lon1"


def test_a_report_of_an_older_server_has_no_clusters_name() -> None:
    assert next(as_text(document(small().report()))).startswith("GPU report 2026-10")


def test_a_closed_report_of_an_older_version_has_no_pools_to_change() -> None:
    found = document(small().report())
    del found["pool_changes"]
    assert "Pools to add or merge" not in "".join(as_text(found))
    assert "Pools to add or merge" not in standalone(found, "1")


def test_long_names_do_not_widen_a_line_and_keep_both_their_ends() -> None:
    usage = [a_usage(workload=LONG, hours=6, owner=Owner(team="t" * 63), peak_memory=0.99)]
    units = (UnitOfWork(name="word " * 40, query="q"), UnitOfWork(name="w" * 200, query="q"))
    said = text(small(usage=usage, policy=a_policy(reports=ReportPolicy(units=units))).report())
    assert [line for line in said.splitlines() if len(line) > 80] == []
    assert "research-and-d\N{HORIZONTAL ELLIPSIS}" in said
    assert shorter("abcdefghij", 5) == "ab\N{HORIZONTAL ELLIPSIS}ij"


def test_the_first_screen_says_what_was_spent_and_what_lay_idle() -> None:
    said = text(small().report())
    assert "GPU report 2026-10 - all teams - complete" in said
    assert "cost                $10.32 for 8.0 GPU-hours" in said
    assert "budget              $10.32 of $5,000.00 (0%): ok" in said
    assert "  used                     $5.16        4.0 h  held, not observed idle" in said
    assert "  idle                     $2.58        2.0 h  held, engine and memory idle" in said
    assert "  unallocated              $2.58        2.0 h  not held by any workload" in said
    assert "efficiency          50%, below the target of 70%: $5.16 and 4.0 h were unused" in said


@pytest.mark.parametrize(
    ("observed_from", "words"),
    [
        (None, "GPU usage of this month was not observed: the cost of nodes is unwatched."),
        (at(100), "GPU usage is known from 2026-10-05 04:00 UTC on; earlier cost is unwatched."),
    ],
)
def test_a_month_that_was_seen_in_part_says_so(observed_from: datetime | None, words: str) -> None:
    found = replace(small().report(), complete=False, observed_from=observed_from)
    said = text(found)
    assert "GPU report 2026-10 - all teams - over, not complete" in said
    assert words in said


def test_what_nobody_configured_is_left_out_and_not_shown_as_zero() -> None:
    said = text(small(policy=a_policy(budget=None, reports=ReportPolicy())).report())
    assert "budget              none is set" in said
    assert not [words for words in ("Cost per", "Right-sizing", "/h: ", "configured") if words in said]
    assert "cost per completed  none completed" in said
    assert "queue wait          no workload started" in said


def test_a_month_without_anything_can_be_read() -> None:
    said = text(SimulatedMonth(policy=a_policy()).report())
    assert "efficiency          unknown: no GPU-hours were paid (target 70%)" in said
    assert "utilization         not measured" in said
    assert "always-on" not in said
    assert "DAY" not in said


def test_days_without_costs_are_left_out() -> None:
    rows = text(small().report()).partition("\nDAY ")[2].splitlines()[1:]
    assert [row.split() for row in rows] == [["2026-10-01", "$10.32", "$5.16"]]


def test_a_month_under_way_says_until_when() -> None:
    month = small(lives=[a_life(lasts=None)])
    assert "all teams - so far, until 2026-10-01 07:30 UTC" in text(month.report(now=at(7.5)))


def test_what_was_spent_before_the_ledger_began_is_a_line_and_a_row() -> None:
    said = text(small().report(seeded=Decimal("40.00")))
    assert "cost                $50.32 for 8.0 GPU-hours" in said
    assert "  seeded                  $40.00        0.0 h  from before the ledger began" in said
    assert "before the ledger began               0.0        $40.00        $0.00           -" in said


def test_a_ledger_that_began_in_the_month_says_when_and_over_which_time_it_compares() -> None:
    month = small(lives=[a_life(begins=5, lasts=8)])
    found = replace(month.found(), watched={"pool-l40s": at(6)})
    said = text(report(found, month.policy, MONTH, AFTER))
    assert "The ledger began on 2026-10-01 06:00 UTC: earlier costs are missing" in said
    assert "  l40s since 2026-10-01 06:00 UTC: not in the ledger before" in said
    assert "This ledger began" not in text(month.report())


def test_a_size_without_a_price_is_the_first_thing_that_is_said() -> None:
    month = small(lives=[a_life(lasts=8), a_life("i-2", size=H100, price_usd_per_hour=None)])
    assert f"MISSING in every amount: nodes of {H100}, which have no price." in text(month.report()).splitlines()[2]


def test_a_teams_report_says_whose_it_is_and_what_is_not_in_it() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), teams={"vision": Decimal(10)}))
    said = text(small(policy=policy).report("vision"))
    assert "GPU report 2026-10 - team vision - complete" in said
    assert "budget              $7.74 of $10.00 (77%): warn" in said
    assert "in no team's report $2.58 not held by any workload" in said
    assert "Savings against always-on" not in said


def test_budgets_and_standstills_are_told_as_rows() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(12), teams={"vision": Decimal(10)}))
    month = small(policy=policy)
    spoken = [Spoke(pool="pool-l40s", at=at(3), detail="within_budget: no money"), Spoke(pool="pool-l40s", at=at(4))]
    said = text(report(replace(month.found(), spoken=spoken), policy, MONTH, AFTER))
    assert "cluster                     $12.00      $10.32       $1.68   86% hold          -" in said
    assert "team vision                 $10.00       $7.74       $2.26   77% warn          -" in said
    assert "  2026-10-01 03:00 UTC to 2026-10-01 04:00 UTC, l40s: within_budget: no money" in said


def test_waits_and_ends_are_told() -> None:
    workloads = [
        a_workload("a", 1, 10, ended_at=at(3), completed=True),
        a_workload("b", 1, 20, ended_at=at(3), completed=False),
        a_workload("c", 740, None),
    ]
    said = text(small(workloads=workloads).report())
    assert "workloads           3 seen: 1 completed, 1 failed, 1 waiting" in said
    assert "queue wait          p50 10 min, p95 20 min, longest 20 min (2 starts)" in said
    assert "1 still waiting, the longest for 4 h so far" in said


def test_the_csv_has_a_header_and_a_line_per_cost_line_that_add_up() -> None:
    found = a_month().report()
    rows = lines_of(document(found))
    assert len(rows) == len(found.lines) > 100
    assert tuple(rows[0]) == COLUMNS
    assert sum(Decimal(row["usd"]) for row in rows) == found.everything.total.usd
    assert abs(sum(float(row["gpu_hours"]) for row in rows) - found.everything.total.gpu_hours) < 0.5
    assert {row["month"] for row in rows} == {"2026-10"}


def test_a_column_of_the_csv_adds_up_although_facts_stand_below_its_lines() -> None:
    table = as_csv(document(a_month().report()))
    rows = list(csv.DictReader(io.StringIO(table)))
    assert sum(Decimal(row["usd"] or 0) for row in rows) == a_month().report().everything.total.usd
    assert {row["record"] for row in rows} == {"line", "fact"}


def test_what_has_no_price_is_in_the_csv_too() -> None:
    month = small(lives=[a_life(lasts=8), a_life("i-2", size=H100, price_usd_per_hour=None)])
    assert facts_of(document(month.report()))["unpriced.0"] == H100


def test_names_with_commas_and_quotes_come_back_as_they_were() -> None:
    odd = 'a "quoted", name'
    usage = [a_usage(hours=6, owner=Owner(team=odd))]
    rows = lines_of(document(small(usage=usage).report()))
    assert rows[0]["team"] == odd


def test_an_amount_below_zero_is_a_number_in_the_csv() -> None:
    spent = document(small(lives=[a_life(lasts=8)]).report())
    line = {**spent["budget"], "left_usd": "-5.32"}
    facts = facts_of({**spent, "budget": line, "budgets": [line]})
    assert (facts["budget.left_usd"], facts["budgets.0.left_usd"]) == ("-5.32", "-5.32")


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_name_is_no_formula_for_a_spreadsheet(formula: str) -> None:
    usage = [a_usage(hours=6, owner=Owner(team=formula))]
    rows = lines_of(document(small(usage=usage).report()))
    assert rows[0]["team"] == f"'{formula}"


def test_text_and_page_say_whether_another_number_of_committed_nodes_would_have_paid() -> None:
    term = CommittedNodes(
        pool="pool-l40s", size=L40S, nodes=1, usd_per_hour=Decimal("1.09"), until=datetime(2027, 6, 1, tzinfo=UTC)
    )
    found = document(small(policy=a_policy(billing=Billing(committed=(term,)))).report())
    words = "has 1 until 2027-06-01 at $1.09/h: one fewer would have saved $"
    assert words in " ".join(" ".join(as_text(found)).split())
    assert words in unescape(standalone(found, "1").replace("<code>l40s</code> ", "l40s "))


def test_a_closed_report_of_an_older_version_has_no_committed_nodes() -> None:
    found = document(small().report())
    del found["committed"]
    assert "would have paid" not in " ".join(as_text(found))
    assert "would have paid" not in standalone(found, "1")
