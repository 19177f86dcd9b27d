"""What no workload held, in no team's report or shared among the teams: every form says which, and adds up."""

import csv
import io
from dataclasses import replace
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from flask.testing import FlaskClient

from receiver.capabilities.costs.formats import as_csv, as_text
from receiver.capabilities.costs.page import standalone
from receiver.core.model.policy import Unallocated
from receiver.core.money.shared_cost import shared_out
from receiver.core.notices.money_notices import report_notice
from receiver.core.report.report import Report, report
from tests.clocks import FixedClock
from tests.core.report.builders import AFTER, MONTH
from tests.core.report.simulated import SimulatedMonth, a_month
from tests.web.builders import Bench
from tests.web.seen import words
from tests.web.stores import a_store_with

FORMS = list(Unallocated)
each_form = pytest.mark.parametrize("form", FORMS)
TEAMS = ("vision", "search", "")


def month_in(form: Unallocated) -> SimulatedMonth:
    month = a_month()
    policy = month.policy
    month.policy = replace(policy, attribution=replace(policy.attribution, unallocated=form))
    return month


def client_of(form: Unallocated) -> FlaskClient:
    month = month_in(form)
    store = a_store_with(lives=month.lives, usage=month.usage, unwatched=month.unwatched, workloads=month.workloads)
    return Bench(store=store, policy=month.policy, clock=FixedClock(AFTER)).client()


@pytest.fixture(scope="module")
def clients() -> dict[Unallocated, FlaskClient]:
    return {form: client_of(form) for form in FORMS}


def document(client: FlaskClient, query: str = "") -> Any:
    return client.get(f"/api/v1/report?month={MONTH.name}{query}").get_json()


def shared(month: SimulatedMonth, team: str | None = None) -> Report:
    found = month.found()
    return report(replace(found, attributed=shared_out(found.attributed)), month.policy, MONTH, AFTER, team)


@each_form
def test_the_bills_of_teams_and_what_is_nobodys_add_up_to_the_invoice(
    clients: dict[Unallocated, FlaskClient], form: Unallocated
) -> None:
    whole = document(clients[form])
    bills = [document(clients[form], f"&team={team}") for team in TEAMS]
    assert sum(Decimal(bill["usd"]) for bill in bills) + Decimal(whole["nobodys"]["usd"]) == Decimal(whole["usd"])
    assert [Decimal(bill["usd"]) for bill in bills] == [
        Decimal(next(part["usd"] for part in whole["teams"] if part["name"] == team)) for team in TEAMS
    ]


def test_shared_cost_is_in_the_teams_bills_and_the_invoice_is_the_same(
    clients: dict[Unallocated, FlaskClient],
) -> None:
    separate, whole = (document(clients[form]) for form in (Unallocated.SEPARATE, Unallocated.SHARE))
    assert separate["usd"] == whole["usd"]
    unallocated = Decimal(separate["paid_for"]["unallocated"]["usd"])
    assert unallocated > 0
    gained = sum(Decimal(part["usd"]) for part in whole["teams"]) - sum(Decimal(p["usd"]) for p in separate["teams"])
    assert abs(gained - unallocated) <= Decimal("0.03")  # each level is rounded by itself


def test_team_budgets_count_the_same_in_both_forms(clients: dict[Unallocated, FlaskClient]) -> None:
    spent = {
        form: [line["spent_usd"] for line in document(clients[form])["budgets"] if line["scope"] == "team"]
        for form in FORMS
    }
    assert len(spent[Unallocated.SHARE]) == 1
    assert spent[Unallocated.SHARE] == spent[Unallocated.SEPARATE]


@each_form
def test_report_and_costs_say_which_form_they_show(clients: dict[Unallocated, FlaskClient], form: Unallocated) -> None:
    costs = clients[form].get(f"/api/v1/costs?month={MONTH.name}&by=team").get_json()
    assert (document(clients[form])["unallocated"], costs["unallocated"]) == (form, form)
    assert sum(Decimal(line["usd"]) for line in costs["lines"]) == Decimal(costs["total_usd"])
    shared_lines = [line["key"] for line in costs["lines"] if line["part"] == "unallocated" and line["key"]]
    assert sorted(shared_lines) == (["search", "unlabelled", "vision"] if form is Unallocated.SHARE else [])


SAID = {
    Unallocated.SEPARATE: "in no team's total",
    Unallocated.SHARE: "shared among teams by what they held; not in their budgets",
}


@each_form
@pytest.mark.parametrize("team", ["", "&team=vision"])
def test_text_and_page_say_which_form_they_show(
    clients: dict[Unallocated, FlaskClient], form: Unallocated, team: str
) -> None:
    found = document(clients[form], team)
    assert f"unallocated cost    {SAID[form]}" in list(as_text(found))
    assert f"Unallocated cost: {SAID[form]}." in unescape(words(standalone(found, "1")))
    assert f"Unallocated cost: {SAID[form]}." in unescape(
        words(clients[form].get(f"/costs?month={MONTH.name}{team}").text)
    )


@each_form
def test_the_table_says_which_form_it_shows_and_its_lines_add_up(
    clients: dict[Unallocated, FlaskClient], form: Unallocated
) -> None:
    found = document(clients[form])
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [row["value"] for row in rows if row["fact"] == "unallocated"] == [form]
    lines = [row for row in rows if row["record"] == "line"]
    assert sum(Decimal(row["usd"]) for row in lines) == Decimal(found["usd"])
    owned = [row for row in lines if row["paid_for"] == "unallocated" and row["workload"]]
    assert bool(owned) is (form is Unallocated.SHARE)


@each_form
def test_charges_say_which_form_they_show_and_add_up(
    clients: dict[Unallocated, FlaskClient], form: Unallocated
) -> None:
    text = clients[form].get(f"/api/v1/report?month={MONTH.name}&format=focus").text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["x_Unallocated"] for row in rows} == {form}
    whole = Decimal(document(clients[form])["usd"])
    assert abs(sum(Decimal(row["BilledCost"]) for row in rows) - whole) < Decimal("0.01")
    assert ("its share of what no workload held" in text) is (form is Unallocated.SHARE)


def test_a_closed_report_keeps_its_form_in_every_format() -> None:
    month = month_in(Unallocated.SHARE)
    store = a_store_with(lives=month.lives, usage=month.usage, unwatched=month.unwatched, workloads=month.workloads)
    bench = Bench(store=store, policy=month.policy, clock=FixedClock(AFTER))
    closed = document(bench.client())
    store.close_report(MONTH.name, "everybody", closed, AFTER)
    today = Bench(store=store, policy=a_month().policy, clock=FixedClock(AFTER)).client()
    assert document(today)["unallocated"] == Unallocated.SHARE
    rows = list(csv.DictReader(io.StringIO(today.get(f"/api/v1/report?month={MONTH.name}&format=focus").text)))
    assert {row["x_Unallocated"] for row in rows} == {Unallocated.SHARE}
    assert all(row["ResourceId"] for row in rows if row["x_PaidFor"] == "unallocated")


def test_a_report_that_an_older_version_closed_is_separate() -> None:
    found = document(client_of(Unallocated.SEPARATE))
    del found["unallocated"]
    assert "unallocated cost    in no team's total" in list(as_text(found))
    assert standalone(found, "1")


@pytest.mark.parametrize("team", [None, "vision"])
def test_the_monthly_message_says_that_it_is_shared(team: str | None) -> None:
    said = report_notice(shared(a_month(), team)).body
    assert "for GPUs that no pod held (shared among teams by what they held)" in said
    assert "shared among teams" not in report_notice(a_month().report(team)).body
