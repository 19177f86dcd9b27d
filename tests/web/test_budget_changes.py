"""POST and DELETE /api/v1/budget: who may set an allowance, what is kept of it, and how a wrong one is refused."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.policy import BudgetChange, Policy, Scope
from receiver.core.money.budget import BudgetStage
from receiver.core.notices.money_notices import budget_changed, stops
from receiver.ports import Store, TryLater
from simulator.store import MemoryStore
from tests.web.builders import L40S, NOW, OPERATOR, TOKEN, Bench, a_policy, showing
from tests.web.stores import failing, outbox

PATH = "/api/v1/budget"
PASSING = "priority classes in budget.passing_priority_classes"
RAISE = {"scope": "cluster", "monthly_usd": "6000", "who": "ada", "why": "a deadline"}


def post(
    store: Store | None = None,
    token: str = OPERATOR,
    policy: Policy | None = None,
    log: list[str] | None = None,
    **said: Any,
) -> Any:
    """Set an allowance; a field of None is left out. The app's calls of the store go to *log*."""
    body = {key: value for key, value in {**RAISE, **said}.items() if value is not None}
    bench = Bench(store=store or showing(), policy=policy or a_policy(), log=[] if log is None else log)
    return bench.client().post(PATH, json=body, headers={"Authorization": f"Bearer {token}"})


def test_an_allowance_is_kept_for_this_month_told_and_acted_upon_at_once() -> None:
    store, log = MemoryStore(), list[str]()
    answer = post(store, log=log)
    [change] = store.allowances_set("2026-03")
    assert change == BudgetChange(
        scope=Scope.CLUSTER,
        name="",
        month="2026-03",
        monthly_usd=Decimal(6000),
        who="ada",
        why="a deadline",
        at=NOW,
    )
    assert outbox(store) == [budget_changed(change, "cluster budget")]
    assert log == ["snapshot", "change_budget", "wake"]
    assert (answer.status_code, answer.json["monthly_usd"], answer.json["who"]) == (200, "6000", "ada")


def test_a_pool_is_kept_by_its_id_and_shown_by_its_name() -> None:
    store = MemoryStore()
    answer = post(store, scope="pool", name="l40s", monthly_usd=12.5)
    [change] = store.allowances_set("2026-03")
    assert (change.name, change.monthly_usd, answer.json["name"]) == (L40S, Decimal("12.5"), "l40s")
    assert outbox(store) == [budget_changed(change, "budget of pool l40s")]


def test_delete_goes_back_to_the_configured_allowance() -> None:
    store = MemoryStore()
    answer: Any = Bench(store=store).client().delete(
        PATH, query_string={"scope": "team", "name": "research", "who": "ada", "why": "done"},
        headers={"Authorization": f"Bearer {OPERATOR}"},
    )  # fmt: skip
    [change] = store.allowances_set("2026-03")
    assert (change.scope, change.name, change.monthly_usd) == (Scope.TEAM, "research", None)
    assert outbox(store) == [budget_changed(change, "budget of team research")]
    assert (answer.status_code, answer.json["monthly_usd"]) == (200, None)


def test_an_amount_below_the_spend_must_be_confirmed_and_changes_nothing_before() -> None:
    store = showing()
    answer = post(store, monthly_usd="600")
    assert (answer.status_code, answer.json["field"]) == (409, "confirm")
    assert answer.json["error"] == "This is below the $3,120.44 spent: no pool grows and all nodes are cordoned"
    assert answer.json["remedy"] == 'add --yes, in JSON "confirm": true'
    assert not store.allowances_set("2026-03")


def test_a_confirmed_amount_is_kept_and_its_message_says_what_it_stops() -> None:
    store = showing()
    assert post(store, monthly_usd="600", confirm=True).status_code == 200
    [change] = store.allowances_set("2026-03")
    assert change.monthly_usd == Decimal(600)
    budget = a_policy().budget
    assert budget is not None
    stopped = stops(Scope.CLUSTER, Decimal(600), Decimal("3120.44"), BudgetStage.WARN, budget, closes=True)
    assert stopped is not None
    assert outbox(store) == [budget_changed(change, "cluster budget", stopped)]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (
            {"monthly_usd": "3800"},
            f"This is at its hold line (80%) by the $3,120.44 spent: no pool grows, except for {PASSING}",
        ),
        ({"monthly_usd": "0"}, "This is below the $3,120.44 spent: no pool grows and all nodes are cordoned"),
        (
            {"scope": "team", "name": "research", "monthly_usd": "80.50"},
            "This is not above the $80.50 spent: no nodes are bought for the team",
        ),
    ],
)
def test_what_must_be_confirmed_is_said_for_each_line_and_scope(said: dict[str, Any], error: str) -> None:
    answer = post(**said)
    assert (answer.status_code, answer.json["error"]) == (409, error)


@pytest.mark.parametrize(
    "said",
    [
        {"monthly_usd": "4000"},  # warns
        {"scope": "team", "name": "research", "monthly_usd": "90"},  # the team's is at hold already
        {"scope": "team", "name": "speech", "monthly_usd": "1"},  # nothing is known of its spend
    ],
)
def test_an_amount_that_stops_nothing_more_needs_no_confirmation(said: dict[str, Any]) -> None:
    assert post(**said).status_code == 200


def test_in_observe_mode_no_node_is_cordoned() -> None:
    store = showing(mode="observe")
    assert post(store, monthly_usd="600").json["error"] == "This is below the $3,120.44 spent: no pool grows"


def test_a_reset_to_an_amount_below_the_spend_must_be_confirmed_too() -> None:
    policy = a_policy()
    assert policy.budget is not None
    policy = replace(policy, budget=replace(policy.budget, monthly_usd=Decimal(1000)))
    store = showing()
    client = Bench(store=store, policy=policy).client()
    query = {"scope": "cluster", "who": "ada", "why": "over"}
    for confirm, status in ((None, 409), ("false", 409), ("perhaps", 400), ("true", 200)):
        more = {} if confirm is None else {"confirm": confirm}
        answer: Any = client.delete(
            PATH, query_string={**query, **more}, headers={"Authorization": f"Bearer {OPERATOR}"}
        )
        assert answer.status_code == status
        assert len(store.allowances_set("2026-03")) == (status == 200)
        if status == 409:
            assert answer.json["error"].startswith("The configured $1,000.00 is below the $3,120.44 spent: no pool")


@pytest.mark.parametrize("token", ["", TOKEN, "guess"], ids=["none", "the webhook's", "a wrong one"])
def test_without_the_operators_token_nothing_is_changed(token: str) -> None:
    store = MemoryStore()
    assert post(store, token).status_code == 401
    assert not store.allowances_set("2026-03")


def test_a_server_without_an_operators_token_takes_no_change() -> None:
    bench = Bench(operator_token=None)
    answer = bench.client().delete(PATH, headers={"Authorization": f"Bearer {OPERATOR}"})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("said", "field", "error"),
    [
        ({"scope": None}, "scope", "scope is missing"),
        ({"scope": "clutser"}, "scope", "unknown scope"),
        ({"name": "l40s"}, "name", "there is one cluster only"),
        ({"scope": "pool"}, "name", "name is missing: which pool?"),
        ({"scope": "pool", "name": "l40"}, "name", "no pool has this id or name"),
        ({"scope": "team", "name": "not a label"}, "name", 'name: "not a label" is not a label value'),
        ({"monthly_usd": None}, "monthly_usd", "monthly_usd is missing"),
        ({"monthly_usd": "-1"}, "monthly_usd", 'monthly_usd: "-1" is too low'),
        ({"monthly_usd": "9" * 32}, "monthly_usd", 'monthly_usd: "99999999999999999999999999999999" is too high'),
        ({"monthly_usd": "much"}, "monthly_usd", 'monthly_usd: "much" is not a number'),
        ({"monthly_usd": True}, "monthly_usd", "monthly_usd is not an amount of USD"),
        ({"who": " "}, "who", "who is missing"),
        ({"why": None}, "why", "why is missing"),
        ({"until": "tomorrow"}, "until", "unknown field"),
        ({"confirm": "yes"}, "confirm", "confirm is neither true nor false"),
    ],
)
def test_a_change_that_cannot_be_meant_is_refused_and_names_the_field(
    said: dict[str, Any], field: str, error: str
) -> None:
    store = MemoryStore()
    answer = post(store, **said)
    assert (answer.status_code, answer.json["field"], answer.json["error"]) == (400, field, error)
    assert answer.json["remedy"]
    assert not store.allowances_set("2026-03")


def test_without_a_configured_budget_there_is_nothing_to_change() -> None:
    answer = post(policy=Policy(pools=a_policy().pools))
    assert (answer.status_code, answer.json["error"]) == (400, "no budget is configured")


def test_a_body_that_is_no_object_is_refused() -> None:
    answer: Any = Bench().client().post(PATH, data="[]", headers={"Authorization": f"Bearer {OPERATOR}"})
    assert (answer.status_code, answer.json["error"]) == (400, "the body is not a JSON object")


def test_while_the_store_is_down_the_answer_is_503() -> None:
    assert post(failing(TryLater("locked"))).status_code == 503
