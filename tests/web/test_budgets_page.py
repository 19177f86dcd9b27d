"""/budgets: what is seen of this month's budgets, and what a tap on it does."""

from decimal import Decimal

import pytest

from receiver.core.model.policy import BudgetChange, Scope
from receiver.ports import TryLater
from receiver.web.pages.budgets import offers
from tests.web.builders import L40S, NOW, READER, Bench, a_decision, a_picture, a_pool, showing
from tests.web.override_form import an_operator
from tests.web.people import Person
from tests.web.seen import Page, words
from tests.web.stores import a_store_with, outbox

PATH = "/budgets"
RAISE = {"scope": "cluster", "name": "", "preset": "6300", "reason": "work waits", "who": "ada"}


def a_bench() -> Bench:
    return Bench(store=showing(), reader_token=READER)


def changes(bench: Bench) -> list[BudgetChange]:
    return list(bench.store.allowances_set("2026-03"))


@pytest.mark.parametrize(
    ("monthly", "amounts"),
    [("5000", [5500, 6300, 7500]), ("100", [110, 130, 150]), ("1", [2]), ("0", []), ("12.5", [14, 16, 19])],
)
def test_round_amounts_above_the_allowance_are_offered(monthly: str, amounts: list[int]) -> None:
    assert offers(Decimal(monthly)) == amounts


@pytest.mark.parametrize(
    ("monthly", "needed", "amounts"),
    [("6.45", "10.32", [11, 12, 13]), ("5000", "5015.01", [5100, 5600, 6300]), ("5000", "4000", [5500, 6300, 7500])],
)
def test_the_first_amount_is_enough_for_the_work_that_waits(monthly: str, needed: str, amounts: list[int]) -> None:
    assert offers(Decimal(monthly), Decimal(needed)) == amounts


def test_what_the_work_that_waits_needs_comes_from_the_decision_that_blocks_it() -> None:
    uncovered = {"title": "cluster budget", "monthly_usd": "5000", "raise_usd": "15.01"}
    decision = a_decision(42, evidence={"uncovered": [uncovered]})
    pools = [a_pool(decision=42, held_by=["within_budget"])]
    bench = Bench(store=a_store_with(picture=(a_picture(pools=pools), NOW), decisions=[decision]))
    text = words(an_operator(bench).get(PATH).text)
    assert "Raise to $5,100 Raise to $5,600" in text
    assert "The work that waits needs at least $5,015.01." in text


def test_a_budget_without_an_allowance_is_offered_none() -> None:
    assert offers(None) == []


def test_the_budgets_past_a_line_come_first_each_with_what_is_spent() -> None:
    text = words(an_operator(a_bench()).get(PATH).text)
    assert "Budget of team research $80.50 of $100.00 spent" in text
    assert "Cluster budget $3,120.44 of $5,000.00 spent" in text
    assert "Raise to $6,300" in text
    assert text.index("Budget of team research") < text.index("Cluster budget")


def test_one_tap_raises_this_months_budget_tells_it_and_wakes_the_loop() -> None:
    bench = a_bench()
    person = an_operator(bench)
    response = person.fill_in(PATH, RAISE)
    [change] = changes(bench)
    assert (change.scope, change.monthly_usd, change.who, change.why, change.at) == (
        Scope.CLUSTER,
        Decimal(6300),
        "ada",
        "work waits",
        NOW,
    )
    assert (len(outbox(bench.store)), bench.log[-1]) == (1, "wake")
    assert (response.status_code, response.location) == (303, "/budgets?done=1")
    assert "Set. The next step acts on it." in words(person.get(response.location).text)


def test_another_amount_and_a_sentence_go_before_the_chosen_reason() -> None:
    bench = a_bench()
    typed = {**RAISE, "preset": "", "monthly_usd": "$6,100.50", "why": "paper due on Friday"}
    an_operator(bench).fill_in(PATH, typed)
    [change] = changes(bench)
    assert (change.monthly_usd, change.why) == (Decimal("6100.50"), "paper due on Friday")


def test_the_budget_of_a_team_is_raised_by_its_own_form() -> None:
    bench = a_bench()
    an_operator(bench).fill_in(PATH, {**RAISE, "scope": "team", "name": "research", "preset": "150"})
    [change] = changes(bench)
    assert (change.scope, change.name, change.monthly_usd) == (Scope.TEAM, "research", Decimal(150))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"preset": "", "monthly_usd": "much"}, "monthly_usd: "),
        ({"who": ""}, "who is missing"),
        ({"preset": "600"}, "This is below the $3,120.44 spent: no pool grows and all nodes are cordoned"),
    ],
    ids=["no amount", "nobody", "below the spend"],
)
def test_a_mistake_is_told_and_changes_nothing(wrong: dict[str, str], problem: str) -> None:
    bench = a_bench()
    response = an_operator(bench).fill_in(PATH, {**RAISE, **wrong})
    assert (response.status_code, problem in words(response.text), changes(bench)) == (400, True, [])
    elements = Page(response.text).elements
    [field] = [a["href"] for tag, a in elements if tag == "a" and (a.get("href") or "").startswith("#cluster--")]
    assert field in [f"#{a['id']}" for _, a in elements if a.get("id")]  # the summary leads to the field


def test_an_amount_below_the_spend_is_kept_once_it_is_confirmed() -> None:
    bench = a_bench()
    person = an_operator(bench)
    asked = person.fill_in(PATH, {**RAISE, "preset": "", "monthly_usd": "600"}).text
    assert "confirm" in {a.get("name") for tag, a in Page(asked).elements if tag == "input"}
    person.fill_in(PATH, {**RAISE, "preset": "", "monthly_usd": "600", "confirm": "yes"})
    assert [change.monthly_usd for change in changes(bench)] == [Decimal(600)]


@pytest.mark.parametrize("token", [None, READER])
def test_who_is_no_operator_gets_no_form_and_changes_nothing(token: str | None) -> None:
    bench = a_bench()
    person = Person.at(bench)
    if token:
        person.log_in(token)
    html = person.get(PATH).text
    assert PATH not in [a.get("action") for tag, a in Page(html).elements if tag == "form"]
    assert person.send(PATH, {"form_token": "guess", **RAISE}).status_code == 403
    assert changes(bench) == []


def test_a_form_of_an_earlier_session_changes_nothing() -> None:
    bench = a_bench()
    assert an_operator(bench).send(PATH, {"form_token": "old", **RAISE}).status_code == 403
    assert changes(bench) == []


def test_what_was_typed_is_not_lost_while_the_store_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = a_bench()
    person = an_operator(bench)

    def fails(*_: object) -> None:
        raise TryLater("database is locked", code="locked")

    monkeypatch.setattr(type(bench.store), "change_budget", fails)
    response = person.fill_in(PATH, {**RAISE, "preset": "", "monthly_usd": "6100"})
    assert (response.status_code, "Send the form again later" in response.text) == (503, True)
    assert 'value="6100"' in response.text


def test_a_problem_that_the_budget_makes_leads_there_in_one_tap() -> None:
    held = {"kind": "held", "level": "bad", "pool": L40S, "what": "does not grow", "page": "budgets"}
    html = Person.at(Bench(store=showing(concerns=[held]))).get("/").text
    assert PATH in [a["href"] for tag, a in Page(html).elements if tag == "a"]
