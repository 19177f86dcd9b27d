"""/costs and GET /api/v1/report: a month for people and for scripts."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest
from flask.testing import FlaskClient

from receiver.capabilities.costs.api import ONE_AT_A_TIME
from receiver.capabilities.costs.page import standalone
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Budget
from receiver.core.model.usage import Owner
from receiver.core.money.attribution import Watch
from simulator.store import MemoryStore
from tests.clocks import FixedClock
from tests.core.report.builders import AFTER, a_life, a_policy, a_usage, at
from tests.core.report.simulated import COUNTS, SimulatedMonth, a_month
from tests.web.builders import Bench
from tests.web.seen import Page, words
from tests.web.stores import a_store_with

ATTACK = "<script>alert(1)</script>\"'&"
VOID = {"meta", "link", "br", "img", "input", "hr"}


def client_of(month: SimulatedMonth, now: Any = AFTER) -> FlaskClient:
    """A client of a server whose ledger holds *month*."""
    store = a_store_with(
        lives=month.lives,
        usage=month.usage,
        unwatched=month.unwatched,
        workloads=month.workloads,
        counts=month.counted(),
    )
    return Bench(store=store, policy=month.policy, clock=FixedClock(now)).client()


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    """A client of a server with the simulated month."""
    return client_of(a_month())


def page(client: FlaskClient, query: str = "month=2026-10") -> str:
    answer = client.get(f"/costs?{query}")
    assert answer.status_code == 200
    return answer.text


def document(client: FlaskClient, query: str = "month=2026-10") -> dict[str, Any]:
    answer = client.get(f"/api/v1/report?{query}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.get_json()
    return found


class Balanced(HTMLParser):
    """Fails at an element that is not closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]


def well_formed(html: str) -> None:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))


@pytest.mark.parametrize("query", ["month=2026-10", "month=2026-10&team=vision", "month=2026-10&team=", ""])
def test_the_page_is_well_formed_and_has_no_script_and_no_inline_style(client: FlaskClient, query: str) -> None:
    html = page(client, query)
    well_formed(html)
    for tag, attributes in Page(html).elements:
        assert tag not in {"script", "style", "iframe", "form"}
        assert not [a for a in attributes if a == "style" or a.startswith("on")]


def test_the_page_says_what_the_text_says(client: FlaskClient) -> None:
    said = words(page(client))
    found = document(client)
    for amount in (found["usd"], found["idle"]["usd"], found["paid_for"]["unallocated"]["usd"]):
        assert f"${Decimal(amount):,.2f}" in said
    assert "Costs of October 2026: all teams" in said
    assert "1000 requests" in said
    assert "experiment: unknown, its query gave no value for this month" in said


def test_the_document_adds_up(client: FlaskClient) -> None:
    found = document(client)
    assert sum(Decimal(line["usd"]) for line in found["lines"]) == Decimal(found["usd"])
    assert sum(Decimal(part["usd"]) for part in found["kinds"]) == Decimal(found["usd"])
    assert sum(Decimal(part["usd"]) for part in found["paid_for"].values()) == Decimal(found["usd"])
    assert len(found["days"]) == 31


def test_names_are_escaped_on_the_page_and_in_the_file() -> None:
    usage = [a_usage(workload=f"{ATTACK}/Job/{ATTACK}", hours=6, owner=Owner(team=ATTACK, project=ATTACK))]
    client = client_of(SimulatedMonth(lives=[a_life(lasts=8)], usage=usage, policy=a_policy()))
    for html in (page(client), standalone(document(client), "0.1.0")):
        well_formed(html)
        assert "<script" not in html
        assert html.count("&lt;script&gt;") >= 3


def test_the_file_stands_alone() -> None:
    html = standalone({**document(client_of(a_month())), "cluster_name": "prod-lon1"}, "0.1.0")
    well_formed(html)
    assert "<title>Costs of October 2026, all teams – GPU autoscaler · prod-lon1</title>" in html
    assert "Costs of October 2026" in html
    assert "<style>" in html
    assert not [a for tag, a in Page(html).elements if tag in {"link", "script", "img"} or "href" in a or "src" in a]


def test_each_day_has_a_meter_beside_the_dearest_one(client: FlaskClient) -> None:
    html, found = page(client), document(client)
    meters = [a for tag, a in Page(html).elements if tag == "meter"]
    assert [Decimal(str(a["value"])) for a in meters] == [Decimal(day["usd"]) for day in found["days"]]
    assert {float(str(a["max"])) for a in meters} == {max(float(day["usd"]) for day in found["days"])}
    assert "The budget's even pace is $516.13 a day." in words(html)


def test_days_before_the_first_spend_are_not_listed(client: FlaskClient) -> None:
    found = document(client)
    days = [{**day, "usd": "0.00"} if number < 20 else day for number, day in enumerate(found["days"])]
    meters = [a for tag, a in Page(standalone({**found, "days": days}, "0.1.0")).elements if tag == "meter"]
    assert len([a for a in meters if "max" in a]) == 11


@pytest.mark.parametrize("budget", [None, Budget(monthly_usd=Decimal(0)), Budget(monthly_usd=Decimal("0.01"))])
def test_a_month_of_any_budget_has_a_page(budget: Budget | None) -> None:
    month = SimulatedMonth(lives=[a_life(lasts=8)], usage=[], policy=a_policy(budget=budget))
    well_formed(page(client_of(month)))


def test_a_month_without_anything_has_a_page() -> None:
    said = words(page(client_of(SimulatedMonth(policy=a_policy()))))
    assert "Nothing was paid for." in said
    assert "Nothing to compare: no node existed." in said


def test_a_month_under_way_says_until_when() -> None:
    month = SimulatedMonth(lives=[a_life(lasts=None)], usage=[a_usage(hours=6)], policy=a_policy())
    client = client_of(month, at(7.5))
    assert "so far, until" in words(page(client, ""))
    assert document(client, "")["complete"] is False


def test_a_month_that_was_seen_in_part_says_from_when_on() -> None:
    month = SimulatedMonth(lives=[a_life(lasts=8)], usage=[a_usage(hours=6)], policy=a_policy())
    for since, said in (
        (at(100), "known from 2026-10-05 04:00 UTC on"),
        (None, "GPU usage of this month was not observed"),
    ):
        store = a_store_with(lives=month.lives, watch=Watch(since=since, until=AFTER))
        client = Bench(store=store, policy=month.policy, clock=FixedClock(AFTER)).client()
        assert said in words(page(client))
        assert "ended, not complete" in words(page(client))
        assert document(client)["complete"] is False
        assert 'href="/costs?month=2026-11"' in page(client)


def test_a_page_links_to_other_months_and_teams_and_every_page_to_it(client: FlaskClient) -> None:
    html = page(client)
    assert 'href="/costs?month=2026-09"' in html
    assert 'href="/costs?month=2026-10&amp;team=vision"' in html
    assert 'href="/api/v1/report?month=2026-10"' in html
    assert 'href="/costs"' in client.get("/").text


@pytest.mark.parametrize("month", ["2026-13", "october", "2026-12", "2026-1", "0000-01"])
def test_a_month_that_cannot_be_asked_for_is_refused_with_the_form(client: FlaskClient, month: str) -> None:
    answer = client.get(f"/api/v1/report?month={month}")
    assert answer.status_code == 400
    assert answer.get_json()["field"] == "month"
    assert client.get(f"/costs?month={month}").status_code == 400


def test_a_team_that_the_month_does_not_know_is_a_404_with_those_it_knows(client: FlaskClient) -> None:
    answer = client.get("/api/v1/report?month=2026-10&team=visoin")
    assert answer.status_code == 404
    assert answer.get_json()["known"] == ["search", "vision"]
    assert 'no workload of 2026-10 has the team label "visoin"' in answer.get_json()["error"]


def test_a_team_with_an_allowance_has_a_report_before_its_first_workload() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), teams={"new": Decimal(10)}))
    assert document(client_of(SimulatedMonth(policy=policy)), "month=2026-10&team=new")["usd"] == "0.00"


def test_what_was_counted_of_a_unit_comes_from_the_store(client: FlaskClient) -> None:
    found = {unit["name"]: unit["count"] for unit in document(client)["units"]}
    assert found == {**COUNTS, "experiment": None}


@pytest.mark.parametrize(
    "path", ["/costs", "/api/v1/costs", "/api/v1/report", "/api/v1/report?format=focus"], ids=lambda path: path
)
def test_one_report_is_made_at_a_time(path: str) -> None:
    """Sixteen at once, of a month with 6,000 workloads, took 1 GB: the container may use 512 MiB."""
    held: list[bool] = []

    class Watched(MemoryStore):
        def node_lives(self, since: datetime) -> Sequence[NodeLife]:
            held.append(ONE_AT_A_TIME.locked())
            return super().node_lives(since)

    assert Bench(store=Watched()).client().get(path).status_code == 200
    assert held
    assert all(held)
    assert not ONE_AT_A_TIME.locked()
