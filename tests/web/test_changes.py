"""/api/v1/overrides and /budget: who may change what, what is kept, and how a wrong change is refused."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.overrides import OverrideKind
from receiver.core.model.policy import Budget, BudgetChange, Policy, Scope
from receiver.core.money.budget import BudgetStage
from receiver.core.notices.money_notices import budget_changed, stops
from receiver.core.notices.people_notices import was_ended, was_set
from receiver.ports import Store, StoredOverride, TryLater
from simulator.store import MemoryStore
from tests.metrics.scrapes import scrape
from tests.web.builders import (
    A100,
    L40S,
    NOW,
    OPERATOR,
    TOKEN,
    Bench,
    a_full_store,
    a_picture,
    a_policy,
    a_pool,
    showing,
)
from tests.web.override_form import a_stored_override
from tests.web.stores import a_store_with, add_overrides, failing, outbox, stored_overrides

AUTH = {"Authorization": f"Bearer {OPERATOR}"}
PIN: dict[str, Any] = {"kind": "pin", "pool": "l40s", "nodes": 4, "for": "2h", "who": "alice", "why": "load test"}
PAUSE: dict[str, Any] = {"kind": "pause", "pool": "all", "for": "1h", "who": "alice", "why": "new driver"}


def set_override(body: Any, code: int = 201, bench: Bench | None = None, **headers: str) -> Any:
    response = (bench or Bench()).client().post("/api/v1/overrides", json=body, headers={**AUTH, **headers})
    assert response.status_code == code, response.get_json()
    return response.get_json()


def but(**changes: Any) -> dict[str, Any]:
    """The pin with other fields; None leaves one out."""
    return {key: value for key, value in {**PIN, **changes}.items() if value is not None}


def with_overrides(*overrides: StoredOverride) -> Bench:
    return Bench(store=a_store_with(overrides=overrides))


# --- overrides: setting


def test_an_override_is_kept_told_and_acted_upon_before_the_answer() -> None:
    bench = Bench()
    document = set_override(PIN, bench=bench)
    assert document.pop("id").startswith("pin-l40s-")
    assert document == {
        "kind": "pin",
        "pool": L40S,
        "pool_name": "l40s",
        "nodes": 4,
        "who": "alice",
        "why": "load test",
        "at": "2026-03-10T14:30:00Z",
        "until": "2026-03-10T16:30:00Z",
        "in_force": True,
        "ended_at": None,
        "ended_by": None,
    }
    assert bench.log == ["snapshot", "set_override", "wake"]


def test_a_snooze_is_told_with_the_nodes_that_idle_and_go_when_it_ends() -> None:
    bench = Bench()
    picture = a_picture()
    picture["pools"][0]["nodes"] = [
        {"name": "l40s-0", "idle_since": None},
        {"name": "l40s-1", "idle_since": "2026-03-10T14:00:00+00:00"},
    ]
    bench.store.keep_snapshot(picture, NOW)
    name = set_override(but(kind="snooze", nodes=None), bench=bench)["id"]
    override = stored_overrides(bench.store)[name].override
    assert outbox(bench.store) == [was_set(override, a_policy(), idle=["l40s-1"])]


def test_setting_an_override_is_told() -> None:
    bench = Bench()
    name = set_override(PIN, bench=bench)["id"]
    assert outbox(bench.store) == [was_set(stored_overrides(bench.store)[name].override, a_policy())]


def test_the_answer_says_where_the_override_is() -> None:
    response = Bench().client().post("/api/v1/overrides", json=PIN, headers=AUTH)
    assert response.headers["Location"] == f"/api/v1/overrides/{response.get_json()['id']}"


@pytest.mark.parametrize("pool", [None, "all"])
def test_without_a_pool_an_override_is_of_every_pool(pool: str | None) -> None:
    document = set_override({**{k: v for k, v in PAUSE.items() if k != "pool"}, **({"pool": pool} if pool else {})})
    assert (document["pool"], document["pool_name"], document["nodes"]) == (None, None, None)
    assert document["id"].startswith("pause-all-")


@pytest.mark.parametrize("pool", ["a100", A100])
def test_a_pool_may_be_called_by_name_or_id(pool: str) -> None:
    assert set_override(but(pool=pool, nodes=2))["pool"] == A100


@pytest.mark.parametrize("kind", ["pin", "floor", "ceiling"])
@pytest.mark.parametrize("nodes", [0, 8])
def test_from_no_node_to_the_pools_maximum_any_number_is_taken(kind: str, nodes: int) -> None:
    assert set_override(but(kind=kind, nodes=nodes))["nodes"] == nodes


@pytest.mark.parametrize("kind", ["pause", "snooze"])
def test_a_pause_and_a_snooze_take_no_number(kind: str) -> None:
    assert set_override(but(kind=kind, nodes=None))["nodes"] is None


def test_the_end_of_an_override_is_taken_in_any_zone() -> None:
    assert set_override(but(**{"for": None, "until": "2026-03-10T18:00:00+01:00"}))["until"] == "2026-03-10T17:00:00Z"


@pytest.mark.parametrize(
    ("length", "until"),
    [
        ("2 hours", "2026-03-10T16:30:00Z"),
        ("1h30m", "2026-03-10T16:00:00Z"),
        ("until 18:00", "2026-03-10T17:00:00Z"),
        ("until 09:00", "2026-03-11T08:00:00Z"),
    ],
)
def test_a_length_is_taken_as_people_type_it_with_the_clock_of_the_budgets_zone(length: str, until: str) -> None:
    policy = replace(a_policy(), budget=Budget(monthly_usd=Decimal(5000), timezone="Europe/Berlin"))
    assert set_override(but(**{"for": length}), bench=Bench(policy=policy))["until"] == until


def test_the_longest_time_is_taken_and_a_moment_more_is_not() -> None:
    assert set_override(but(**{"for": "7d"}))["until"] == "2026-03-17T14:30:00Z"
    refused = set_override(but(**{"for": "7d1s"}), code=400)
    assert refused["error"] == "for is more than 168h ahead"
    assert refused["remedy"].startswith("give at most 168h, until 2026-03-17T14:30:00Z")


def test_the_longest_time_is_that_of_the_configuration() -> None:
    policy = Policy(pools=a_policy().pools, longest_override=timedelta(hours=1))
    assert "overrides.longest" in set_override(PIN, code=400, bench=Bench(policy=policy))["remedy"]


def test_white_space_and_control_characters_in_a_reason_become_one_space() -> None:
    assert set_override(but(why="  new\n\tdriver\x07 "))["why"] == "new driver"


# --- what is refused


@pytest.mark.parametrize(
    ("body", "field", "error", "remedy"),
    [
        (but(kind=None), "kind", "kind is missing", "use one of: pin, floor, ceiling, pause, snooze"),
        (but(kind="cieling"), "kind", "unknown kind", "did you mean ceiling?"),
        (but(kind=["pin"]), "kind", "unknown kind", "pin"),
        (but(pool="l4Os"), "pool", "no pool has this id or name", "did you mean l40s? use one of: l40s, a100, or all"),
        (but(pool="h200-xyz"), "pool", "no pool has this id or name", "use one of: l40s, a100, or all for every pool"),
        (but(pool=7), "pool", "no pool has this id or name", "use one of"),
        (but(nodes=None), "nodes", "nodes is missing: a pin needs a number", "give a whole number"),
        (but(nodes=-1), "nodes", "nodes is negative", "give 0 or more"),
        (
            but(nodes=9),
            "nodes",
            "nodes is above max_nodes of l40s (8)",
            "give at most 8, or raise max_nodes in the configuration",
        ),
        (but(nodes=9, pool="all"), "nodes", "nodes is above max_nodes of every pool (8)", "give at most 8"),
        (but(nodes="4"), "nodes", "nodes is not a whole number", "give a number such as 4, without quotes"),
        (but(nodes=True), "nodes", "nodes is not a whole number", "give a number"),
        (but(nodes=1.5), "nodes", "nodes is not a whole number", "give a number"),
        (but(kind="pause"), "nodes", "nodes does not apply to a pause", "leave it empty"),
        (but(**{"for": None}), "until", "until is missing", "give either until (such as"),
        (but(until="2026-03-10T18:00:00Z"), "until", "until and for are both given", "give either until"),
        (but(**{"for": "2 hour s"}), "for", 'for: "2 hour s" is not a length of time', "such as 90 min, 1h30m"),
        (but(**{"for": "90"}), "for", 'for: "90" has no unit', "write 90 min or 90 h"),
        (but(**{"for": "30m 1h"}), "for", 'for: "30m 1h" is ambiguous', "such as 1h30m"),
        (but(**{"for": "09:00"}), "for", 'for: "09:00" may be a length or a time of day', "write until 09:00"),
        (but(**{"for": "0s"}), "for", 'for: "0s" is too short', "write at least 1s"),
        (but(**{"for": 3600}), "for", "for is not text", "such as 90 min, 1h30m"),
        (
            but(**{"for": None, "until": "2026-03-10T14:30:00Z"}),
            "until",
            "until is in the past: it is 2026-03-10T14:30:00Z now",
            "give a later time",
        ),
        (
            but(**{"for": None, "until": "2026-03-10T18:00:00"}),
            "until",
            "until is not a time with a time zone",
            "RFC 3339",
        ),
        (but(**{"for": None, "until": "tomorrow"}), "until", "until is not a time with a time zone", "RFC 3339"),
        (but(**{"for": None, "until": "9999-12-31T23:59:59-08:00"}), "until", "until is not a time", "RFC 3339"),
        (
            but(**{"for": None, "until": "2026-04-10T18:00:00Z"}),
            "until",
            "until is more than 168h ahead",
            "at most 168h",
        ),
        (but(who=None), "who", "who is missing", "give the name of the person, such as alice"),
        (but(who="  "), "who", "who is missing", "give the name"),
        (but(why=None), "why", "why is missing", "give the reason in one sentence"),
        (but(why=["x"]), "why", "why is not text", "give the reason"),
        (but(why="x" * 501), "why", "why is longer than 500 characters", "shorten it"),
        (but(reason="x"), "reason", "unknown field", "use one of: kind, pool, nodes"),
        (but(node=3), "node", "unknown field", "did you mean nodes?"),
        ([PIN], None, "the body is not a JSON object", "send one such as"),
        ("pin", None, "the body is not a JSON object", "send one such as"),
    ],
)
def test_an_override_that_cannot_be_meant_is_refused_with_the_field_and_what_is_taken(
    body: Any, field: str | None, error: str, remedy: str
) -> None:
    bench = Bench()
    document = set_override(body, code=400, bench=bench)
    assert document.get("field") == field
    assert document["error"].startswith(error)
    assert remedy in document["remedy"]
    assert bench.log == []


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(raw: bytes) -> None:
    response = Bench().client().post("/api/v1/overrides", data=raw[:16_000], headers=AUTH)
    assert (response.status_code, response.get_json()["error"]) == (400, "the body is not a JSON object")


def test_a_body_beyond_16_kib_is_refused() -> None:
    set_override(but(why="x" * 17_000), code=413)


# --- who may


@pytest.mark.parametrize("method", ["post", "delete"])
@pytest.mark.parametrize(
    ("header", "error"),
    [
        (None, "the Authorization header is missing"),
        (f"Bearer {TOKEN}", "the bearer token is not the one this server knows"),
        ("Bearer ", "the bearer token is empty"),
        (f"Basic {OPERATOR}", "the Authorization header has another scheme than Bearer"),
    ],
)
def test_without_the_operators_token_no_override_is_changed(method: str, header: str | None, error: str) -> None:
    bench = with_overrides(a_stored_override())
    path = "/api/v1/overrides" + ("/pin-l40s-1" if method == "delete" else "")
    response = getattr(bench.client(), method)(path, json=PIN, headers={"Authorization": header} if header else {})
    assert (response.status_code, response.get_json()["error"]) == (401, error)
    assert "Bearer" in response.headers["WWW-Authenticate"]
    assert bench.log == []


@pytest.mark.parametrize("method", ["post", "delete"])
def test_a_server_without_an_operators_token_says_how_to_set_one(method: str) -> None:
    bench = Bench(operator_token=None)
    response = getattr(bench.client(), method)("/api/v1/overrides" + "/x" * (method == "delete"), headers=AUTH)
    assert response.status_code == 401
    assert response.get_json()["remedy"].startswith("set GPU_AUTOSCALER_OPERATOR_TOKEN for the server")


def test_the_operators_token_is_none_for_the_webhook() -> None:
    assert Bench().client().post("/webhook", json={}, headers=AUTH).status_code == 401


def test_no_refusal_repeats_what_was_sent() -> None:
    response = Bench().client().post("/api/v1/overrides", json=PIN, headers={"Authorization": "Bearer my-own-secret"})
    assert b"my-own-secret" not in response.data


# --- ending


def test_an_override_is_ended_and_told_with_who_did_it() -> None:
    bench = with_overrides(a_stored_override())
    response = bench.client().delete("/api/v1/overrides/pin-l40s-1?who=bob", headers=AUTH)
    document = response.get_json()
    assert (response.status_code, document["ended_by"], document["in_force"]) == (200, "bob", False)
    assert document["ended_at"] == "2026-03-10T14:30:00Z"
    assert bench.log == ["override", "end_override", "wake"]
    assert outbox(bench.store) == [was_ended(a_stored_override().override, "bob", a_policy())]


def test_whoever_does_not_say_who_they_are_is_told_as_the_tokens_holder() -> None:
    response = with_overrides(a_stored_override()).client().delete("/api/v1/overrides/pin-l40s-1", headers=AUTH)
    assert response.get_json()["ended_by"] == "an operator"


@pytest.mark.parametrize("there", [[], [a_stored_override(ended_at=NOW, ended_by="bob")]])
def test_an_override_that_is_not_there_or_has_ended_cannot_be_ended(there: list[StoredOverride]) -> None:
    bench = with_overrides(*there)
    response = bench.client().delete("/api/v1/overrides/pin-l40s-1", headers=AUTH)
    assert (response.status_code, response.get_json()["field"]) == (404, "id")
    assert outbox(bench.store) == []


def test_an_override_that_is_ended_twice_at_the_same_time_is_told_once() -> None:
    class Raced(MemoryStore):
        def end_override(self, *_: Any, **__: Any) -> bool:
            return False

    bench = Bench(store=Raced())
    add_overrides(bench.store, a_stored_override())
    assert bench.client().delete("/api/v1/overrides/pin-l40s-1", headers=AUTH).status_code == 404


# --- reading


def listed(bench: Bench, query: str = "") -> list[str]:
    response = bench.client().get(f"/api/v1/overrides{query}")
    assert response.status_code == 200
    return [document["id"] for document in response.get_json()]


def a_few() -> Bench:
    return with_overrides(
        a_stored_override("mine"),
        a_stored_override("theirs", pool=A100, at=NOW - timedelta(minutes=5)),
        a_stored_override("everybodys", kind=OverrideKind.PAUSE, pool=None, nodes=None, at=NOW - timedelta(minutes=9)),
        a_stored_override("ended", ended_at=NOW - timedelta(minutes=1), ended_by="bob"),
        a_stored_override("over", until=NOW),
    )


def test_an_override_that_is_over_is_not_listed_unless_asked_for() -> None:
    assert listed(a_few()) == ["theirs", "everybodys", "mine"]
    assert listed(a_few(), "?ended=true") == ["theirs", "everybodys", "mine", "over", "ended"]


def test_the_overrides_of_one_pool_include_those_of_every_pool() -> None:
    assert listed(a_few(), "?pool=l40s") == ["everybodys", "mine"]


def test_the_list_of_overrides_can_be_limited() -> None:
    assert listed(a_few(), "?limit=1") == ["theirs"]


def test_overrides_of_other_pools_and_those_that_are_over_take_no_place_of_a_limit() -> None:
    assert listed(a_few(), "?pool=l40s&limit=2") == ["everybodys", "mine"]
    assert listed(a_few(), "?limit=3") == ["theirs", "everybodys", "mine"]


@pytest.mark.parametrize(("query", "field"), [("ended=maybe", "ended"), ("limit=0", "limit")])
def test_a_query_of_overrides_that_cannot_be_meant_is_refused(query: str, field: str) -> None:
    response = Bench().client().get(f"/api/v1/overrides?{query}")
    assert (response.status_code, response.get_json()["field"]) == (400, field)


def test_an_override_can_be_read_and_one_that_does_not_exist_is_404() -> None:
    client = a_few().client()
    assert client.get("/api/v1/overrides/ended").get_json()["ended_by"] == "bob"
    assert client.get("/api/v1/overrides/nobody").status_code == 404


def test_an_override_that_is_to_come_is_not_in_force() -> None:
    bench = with_overrides(a_stored_override(at=NOW + timedelta(minutes=1)))
    assert bench.client().get("/api/v1/overrides/pin-l40s-1").get_json()["in_force"] is False


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_override_is_answered_503_while_the_store_is_down(method: str) -> None:
    bench = Bench(error=TryLater("disk full"))
    response = getattr(bench.client(), method)("/api/v1/overrides", json=PIN, headers=AUTH)
    assert response.status_code == 503


# --- shown elsewhere

SHOWN = {
    "id": "pin-l40s-1",
    "kind": "pin",
    "nodes": 4,
    "who": "alice <b>",
    "why": "load test",
    "at": (NOW - timedelta(hours=1)).isoformat(),
    "until": (NOW + timedelta(hours=1)).isoformat(),
    "every_pool": False,
}


def test_a_pool_shows_the_overrides_in_force() -> None:
    store = a_full_store()
    store.keep_snapshot(a_picture(pools=[a_pool(overrides=[SHOWN])]), NOW)
    assert Bench(store=store).client().get("/api/v1/pools/l40s").get_json()["overrides"] == [SHOWN]


def test_the_status_page_says_who_overrides_what_and_escapes_what_people_wrote() -> None:
    store = a_full_store()
    everybodys = {**SHOWN, "kind": "pause", "nodes": None, "every_pool": True}
    store.keep_snapshot(a_picture(pools=[a_pool(overrides=[SHOWN, everybodys])]), NOW)
    page = Bench(store=store).client().get("/").get_data(as_text=True)
    assert "Pin of 4 nodes by alice &lt;b&gt;, ends" in page
    assert "Pause of every pool by alice" in page
    assert "pin-l40s-1" in page


def test_the_pools_page_says_which_node_is_kept_and_for_whom() -> None:
    store = a_full_store()
    pool = a_pool()
    node = {**pool["nodes"][2], "kept_until": (NOW + timedelta(hours=1)).isoformat(), "kept_for": "ml/train-0"}
    store.keep_snapshot(a_picture(pools=[{**pool, "nodes": [node]}]), NOW)
    page = Bench(store=store).client().get("/pools/l40s").get_data(as_text=True)
    assert "Kept until" in page
    assert "for ml/train-0" in page


def test_metrics_say_which_kinds_of_override_are_in_force() -> None:
    store = a_full_store()
    store.keep_snapshot(a_picture(pools=[a_pool(overrides=[SHOWN])]), NOW)
    text = scrape(store)
    assert f'gpu_autoscaler_override_active{{kind="pin",pool="{L40S}"}} 1.0' in text
    assert f'gpu_autoscaler_override_active{{kind="pause",pool="{L40S}"}} 0.0' in text


# --- the allowance of a month


BUDGET_PATH = "/api/v1/budget"
PASSING = "priority classes in budget.passing_priority_classes"
RAISE = {"scope": "cluster", "monthly_usd": "6000", "who": "ada", "why": "a deadline"}


def set_budget(
    store: Store | None = None,
    token: str = OPERATOR,
    policy: Policy | None = None,
    log: list[str] | None = None,
    **said: Any,
) -> Any:
    """Set an allowance; a field of None is left out. The app's calls of the store go to *log*."""
    body = {key: value for key, value in {**RAISE, **said}.items() if value is not None}
    bench = Bench(store=store or showing(), policy=policy or a_policy(), log=[] if log is None else log)
    return bench.client().post(BUDGET_PATH, json=body, headers={"Authorization": f"Bearer {token}"})


def test_an_allowance_is_kept_for_this_month_told_and_acted_upon_at_once() -> None:
    store, log = MemoryStore(), list[str]()
    answer = set_budget(store, log=log)
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


def test_the_budget_of_a_pool_is_kept_by_its_id_and_shown_by_its_name() -> None:
    store = MemoryStore()
    answer = set_budget(store, scope="pool", name="l40s", monthly_usd=12.5)
    [change] = store.allowances_set("2026-03")
    assert (change.name, change.monthly_usd, answer.json["name"]) == (L40S, Decimal("12.5"), "l40s")
    assert outbox(store) == [budget_changed(change, "budget of pool l40s")]


def test_deleting_a_budget_goes_back_to_the_configured_allowance() -> None:
    store = MemoryStore()
    answer: Any = Bench(store=store).client().delete(
        BUDGET_PATH, query_string={"scope": "team", "name": "research", "who": "ada", "why": "done"},
        headers={"Authorization": f"Bearer {OPERATOR}"},
    )  # fmt: skip
    [change] = store.allowances_set("2026-03")
    assert (change.scope, change.name, change.monthly_usd) == (Scope.TEAM, "research", None)
    assert outbox(store) == [budget_changed(change, "budget of team research")]
    assert (answer.status_code, answer.json["monthly_usd"]) == (200, None)


def test_an_amount_below_the_spend_must_be_confirmed_and_changes_nothing_before() -> None:
    store = showing()
    answer = set_budget(store, monthly_usd="600")
    assert (answer.status_code, answer.json["field"]) == (409, "confirm")
    assert answer.json["error"] == "This is below the $3,120.44 spent: no pool grows and all nodes are cordoned"
    assert answer.json["remedy"] == 'add --yes, in JSON "confirm": true'
    assert not store.allowances_set("2026-03")


def test_a_confirmed_amount_is_kept_and_its_message_says_what_it_stops() -> None:
    store = showing()
    assert set_budget(store, monthly_usd="600", confirm=True).status_code == 200
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
    answer = set_budget(**said)
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
    assert set_budget(**said).status_code == 200


def test_in_observe_mode_a_budget_below_the_spend_cordons_no_node() -> None:
    store = showing(mode="observe")
    assert set_budget(store, monthly_usd="600").json["error"] == "This is below the $3,120.44 spent: no pool grows"


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
            BUDGET_PATH, query_string={**query, **more}, headers={"Authorization": f"Bearer {OPERATOR}"}
        )
        assert answer.status_code == status
        assert len(store.allowances_set("2026-03")) == (status == 200)
        if status == 409:
            assert answer.json["error"].startswith("The configured $1,000.00 is below the $3,120.44 spent: no pool")


@pytest.mark.parametrize("token", ["", TOKEN, "guess"], ids=["none", "the webhook's", "a wrong one"])
def test_without_the_operators_token_no_budget_is_changed(token: str) -> None:
    store = MemoryStore()
    assert set_budget(store, token).status_code == 401
    assert not store.allowances_set("2026-03")


def test_a_server_without_an_operators_token_takes_no_budget() -> None:
    bench = Bench(operator_token=None)
    answer = bench.client().delete(BUDGET_PATH, headers={"Authorization": f"Bearer {OPERATOR}"})
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
def test_a_budget_that_cannot_be_meant_is_refused_and_names_the_field(
    said: dict[str, Any], field: str, error: str
) -> None:
    store = MemoryStore()
    answer = set_budget(store, **said)
    assert (answer.status_code, answer.json["field"], answer.json["error"]) == (400, field, error)
    assert answer.json["remedy"]
    assert not store.allowances_set("2026-03")


def test_without_a_configured_budget_there_is_nothing_to_change() -> None:
    answer = set_budget(policy=Policy(pools=a_policy().pools))
    assert (answer.status_code, answer.json["error"]) == (400, "no budget is configured")


def test_a_budget_that_is_no_object_is_refused() -> None:
    answer: Any = Bench().client().post(BUDGET_PATH, data="[]", headers={"Authorization": f"Bearer {OPERATOR}"})
    assert (answer.status_code, answer.json["error"]) == (400, "the body is not a JSON object")


def test_a_budget_is_answered_503_while_the_store_is_down() -> None:
    assert set_budget(failing(TryLater("locked"))).status_code == 503
