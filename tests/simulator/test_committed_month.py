"""A month with committed nodes: what the product accounts for, and what the simulator's Civo invoices."""

import csv
import io
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import cache

import pytest

from receiver.capabilities.costs.documents import ReportDocument
from receiver.capabilities.costs.focus import as_focus
from receiver.capabilities.costs.formats import as_text
from receiver.core.model.policy import CommittedNodes
from receiver.core.money.attribution import MonthToDate, attribute
from receiver.core.money.cost import committed_more, units_between
from receiver.core.notices.digest import Week, WeekFound, digest
from receiver.core.report.always_on import occupancy
from receiver.core.report.lines import pieces
from receiver.core.report.report import Found, Report, report
from tests.given.life import PRICE
from tests.simulator.committed_month import MONTH, OTHER, RESERVED, PlayedMonth, committed_nodes, played

WHOLE = MONTH.end + timedelta(hours=3)  # by then every paid hour of the month is over
ONE = committed_nodes(1)
ENDING = committed_nodes(3, until=MONTH.start + timedelta(days=12, minutes=25))
KINDS = {"without": (), "one": (ONE,), "three that end": (ENDING,)}


@cache
def month_with(*committed: CommittedNodes) -> PlayedMonth:
    return played(*committed)


def report_of(month: PlayedMonth) -> Report:
    attributed = attribute(month.lives, month.usage, (), MonthToDate(MONTH, WHOLE, month.policy.billing))
    found = Found(lives=month.lives, usage=month.usage, workloads=(), attributed=attributed)
    return report(found, month.policy, MONTH, WHOLE)


def is_within_a_percent(usd: Decimal, invoice: Decimal) -> bool:
    return abs(usd - invoice) <= invoice / 100


@pytest.mark.parametrize("kind", KINDS)
def test_the_months_ledger_is_the_invoice(kind: str, figure: Callable[[str], None]) -> None:
    month = month_with(*KINDS[kind])
    whole = report_of(month).everything.total.usd
    figure(
        f"a month with {kind} committed: ledger USD {whole:.2f}, invoice USD {month.invoice:.2f}; a minute before its "
        f"end spent USD {month.spent:.2f}, invoice USD {month.invoice_until:.2f}"
    )
    assert is_within_a_percent(month.spent, month.invoice_until)
    assert is_within_a_percent(whole, month.invoice)


@pytest.mark.parametrize("kind", KINDS)
def test_every_output_of_the_month_is_the_ledger(kind: str) -> None:
    month = month_with(*KINDS[kind])
    made = report_of(month)
    document = ReportDocument.of(made).document()
    usd = made.everything.total.usd
    assert sum((line.usd for line in made.lines), Decimal(0)) == usd
    assert sum((day.usd for day in made.days), Decimal(0)) == usd
    to_date = MonthToDate(MONTH, WHOLE, month.policy.billing)
    rows = focus_rows(month, document, to_date)
    assert sum((Decimal(row["BilledCost"]) for row in rows), Decimal(0)).quantize(Decimal("0.01")) == usd
    committed = {row["PricingCategory"] for row in rows}
    assert committed == ({"Committed", "Standard"} if KINDS[kind] else {"Standard"})


def focus_rows(month: PlayedMonth, document: dict[str, object], to_date: MonthToDate) -> Sequence[dict[str, str]]:
    attributed = attribute(month.lives, month.usage, (), to_date)
    text = as_focus(document, pieces(attributed, month.policy), month.lives, to_date, account="a", region="LON1")
    return list(csv.DictReader(io.StringIO(text)))


def test_the_list_cost_of_what_a_commitment_pays_for_is_that_of_its_hours() -> None:
    month = month_with(ONE)
    to_date = MonthToDate(MONTH, WHOLE, month.policy.billing)
    rows = focus_rows(month, ReportDocument.of(report_of(month)).document(), to_date)
    with_node = [row for row in rows if row["ResourceId"]]
    hours = sum((Decimal(row["PricingQuantity"]) for row in with_node), Decimal(0))
    assert hours == sum(units_between(x, MONTH.start, MONTH.end, WHOLE, month.policy.billing) for x in month.lives)
    listed = sum((Decimal(row["ListCost"]) for row in with_node), Decimal(0))
    assert listed == pytest.approx(hours * PRICE)


def test_the_digest_of_a_week_has_the_commitment() -> None:
    month = month_with(ONE)
    start = MONTH.start + timedelta(days=1)
    week = Week(name="w", start=start, end=start + timedelta(days=7))
    found = WeekFound(week=week, now=WHOLE, lives=month.lives, workloads=(), minutes={})
    billing = month.policy.billing
    units = sum(units_between(x, week.start, week.end, WHOLE, billing) for x in month.lives)
    more = sum(committed_more(month.lives, week.start, week.end, WHOLE, billing).values())
    assert more > -units * PRICE
    assert f"${units * PRICE + more:,.2f}" in digest(found, month.policy).title


def test_committed_nodes_are_filled_first_and_stay() -> None:
    reserved = [life for life in month_with(ONE).lives if life.pool == RESERVED]
    first = min(life.created_at for life in reserved)
    assert occupancy(reserved, first, MONTH.end).always == 1
    assert {life.pool for life in month_with().lives} == {OTHER}


def test_one_commitment_costs_less_than_the_month_without_it(figure: Callable[[str], None]) -> None:
    without, one = month_with().invoice, month_with(ONE).invoice
    figure(f"the invoice without a commitment is USD {without:.2f}, with one USD {one:.2f}")
    assert one < without


def test_the_report_says_whether_another_number_would_have_paid(figure: Callable[[str], None]) -> None:
    lines = list(as_text(ReportDocument.of(report_of(month_with(ONE))).document()))
    begins = next(n for n, line in enumerate(lines) if line.startswith("  reserved has 1 until 2026-12-01 at $0.89/h:"))
    said = " ".join(line.strip() for line in lines[begins : begins + 2])
    figure(said)
    assert "neither one more nor one fewer would have paid" in said
