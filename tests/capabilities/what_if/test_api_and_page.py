"""POST /api/v1/what-if and GET /api/v1/nodes/{name}/what-if: another policy, or one node less, on one step's facts.

A question over a real store and a living world changes nothing: no row, no write, no message, no metric.
"""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest
from prometheus_client import generate_latest
from sqlalchemy import event, select

from receiver.adapters.store import SqlStore, open_in_memory
from receiver.adapters.store.schema import metadata
from receiver.capabilities.registry import step_additions
from receiver.config.settings import FileSettings, load_text
from receiver.config.web import ReadAccess
from receiver.core.model.actions import Outcome, OutcomeKind, VictimStage
from receiver.core.model.model import Spend
from receiver.ports import Leader, StoredAction, TryLater
from receiver.web.parts import LastStep
from tests.clocks import FixedClock
from tests.core.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_busy_node,
    a_due_node,
    a_node,
    a_pod,
    a_removal,
    a_state,
    facts,
    with_fields,
)
from tests.given import lives
from tests.given.life import Life, a_job
from tests.metrics.scrapes import a_registry
from tests.web.builders import READER, Bench
from tests.web.fakes import FakeHealth
from tests.web.last_step import CONFIGURATION, SPEND, a_bench_after_a_step, a_last_step
from tests.web.stores import add_actions


def ask(bench: Bench, text: str, kind: str = "file", **given: Any) -> dict[str, Any]:
    answer = bench.client().post(f"/api/v1/what-if?as={kind}", data=text, **given)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.get_json()
    return document


def the_pool(document: dict[str, Any], name: str = "l40s") -> dict[str, Any]:
    return next(pool for pool in document["pools"] if pool["name"] == name)


def test_the_same_file_decides_the_same() -> None:
    found = ask(a_bench_after_a_step(), CONFIGURATION)
    assert found["changes"] == []
    assert [pool["in_force"] for pool in found["pools"]] == [pool["other"] for pool in found["pools"]]
    assert found["in_force"] == found["other"]
    assert all(work["in_force"] == work["other"] for work in found["waiting"])


def test_another_maximum_is_decided_side_by_side() -> None:
    found = ask(a_bench_after_a_step(), CONFIGURATION.replace("max_nodes: 4", "max_nodes: 3"))
    assert found["changes"] == ["pools.l40s.max_nodes 4 -> 3"]
    pool = the_pool(found)
    assert (pool["nodes"], pool["in_force"]["nodes"], pool["other"]["nodes"]) == (3, 4, 3)
    assert pool["other"]["rule"] == "within_maximum"
    assert pool["in_force"]["usd_per_hour"] == "5.16"
    assert Decimal(found["in_force"]["usd_per_hour"]) > Decimal(found["other"]["usd_per_hour"])
    assert Decimal(found["in_force"]["month_usd"]) > Decimal(found["other"]["month_usd"]) > 1000


def test_who_waits_and_why_is_said_for_both() -> None:
    found = ask(a_bench_after_a_step(), "pools.spare.max_nodes: 0\npools.l40s.max_nodes: 3\n", "changes")
    assert found["waiting_total"] == 3
    first = found["waiting"][0]
    assert (first["in_force"]["state"], first["in_force"]["pool"]) == ("buying", "l40s")
    assert (first["other"]["state"], first["other"]["rule"]) == ("held", "within_maximum")


def test_of_more_workloads_than_are_shown_those_that_fare_otherwise_come_first_and_are_counted() -> None:
    state = a_state(*(a_busy_node(f"n{n}") for n in range(3)), pool="l40s-id")
    waiting = tuple(a_pod(f"wait-{n:03}") for n in range(600))
    found = facts(state, a_state(pool="spare-id"), waiting=waiting, spend=Spend(month="2026-11", usd=Decimal(0)))
    text = CONFIGURATION.replace("monthly_usd: 5000", "monthly_usd: 5000000").replace("max_nodes: 2", "max_nodes: 0")
    bench = a_bench_after_a_step(found, text.replace("max_nodes: 4", "max_nodes: 563"))
    document = ask(bench, "pools.l40s.max_nodes: 553", "changes")
    assert (document["waiting_total"], document["differs_total"], len(document["waiting"])) == (600, 10, 500)
    assert document["waiting"][0]["in_force"]["state"] != document["waiting"][0]["other"]["state"]
    page = bench.client().post("/what-if", data={"text": "pools.l40s.max_nodes: 553"}).text
    assert "10 of 600 would have a different outcome" in page


@pytest.mark.parametrize("path", ["/what-if", "/api/v1/what-if"])
def test_another_site_cannot_make_the_server_answer(path: str) -> None:
    """Any page that a person in the network opens could keep the processor busy that steps need."""
    answer = (
        a_bench_after_a_step().client().post(path, data={"text": ""}, headers={"Origin": "https://elsewhere.example"})
    )
    assert (answer.status_code, "another site" in answer.text) == (403, True)


def test_a_few_keys_are_enough() -> None:
    whole = ask(a_bench_after_a_step(), CONFIGURATION.replace("max_nodes: 4", "max_nodes: 3"))
    assert ask(a_bench_after_a_step(), "pools.l40s.max_nodes: 3", "changes") == whole
    assert ask(a_bench_after_a_step(), "pools: {l40s: {max_nodes: 3}}", "changes") == whole


def test_a_budget_at_its_stop_shows_its_stage_and_holds() -> None:
    found = ask(a_bench_after_a_step(), "budget.monthly_usd: 900", "changes")
    assert [budget["stage"] for budget in found["in_force"]["budgets"]] == ["ok"]
    assert [budget["stage"] for budget in found["other"]["budgets"]] == ["stop"]
    assert the_pool(found)["other"]["nodes"] == 3


def test_a_pool_that_is_new_has_no_nodes_and_takes_work() -> None:
    text = CONFIGURATION.replace("name: spare\n    civo_pool_id: spare-id", "name: new\n    civo_pool_id: new-id")
    found = ask(a_bench_after_a_step(), text.replace("max_nodes: 4", "max_nodes: 3"))
    new = the_pool(found, "new")
    assert (new["nodes"], new["in_force"], new["other"]["nodes"]) == (0, None, 2)
    assert found["assumptions"] == ["pools that only the other configuration has start without nodes: new"]


def test_a_pool_that_leaves_is_no_longer_managed_and_costs_on() -> None:
    text = CONFIGURATION.replace("name: l40s\n    civo_pool_id: l40s-id", "name: other\n    civo_pool_id: other-id")
    found = ask(a_bench_after_a_step(), text)
    gone = the_pool(found, "l40s")
    assert (gone["nodes"], gone["other"]) == (3, None)
    wanted = sum(Decimal(pool["other"]["usd_per_hour"]) for pool in found["pools"] if pool["other"])
    assert Decimal(found["other"]["usd_per_hour"]) == wanted + 3 * Decimal("1.29")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("billing: {granularity: 1s}", "the spend so far is counted with the billing in force"),
        ("budget.timezone: Asia/Tokyo", "the spend so far is that of the month in UTC"),
        ("pools.l40s.price_usd_per_hour: 2", "nodes bought so far are in the spend at the price of their purchase"),
        ("pools: {l40s: {utilization: {high: 0.9}}}", "alerts fire by the thresholds in force"),
        ("budget.teams: {vision: 100}", "the spend of teams is not attributed yet, so budgets of teams block growth"),
    ],
)
def test_what_cannot_be_derived_anew_is_said(change: str, said: str) -> None:
    assert ask(a_bench_after_a_step(), change, "changes")["assumptions"] == [said]


def test_a_key_that_needs_a_restart_is_named_without_its_value() -> None:
    found = ask(a_bench_after_a_step(), "prometheus: {url: 'http://user:secret@prometheus:9090'}", "changes")
    assert found["changes"] == ["prometheus.url takes effect at the next start"]


def test_a_refused_file_lists_field_problem_and_remedy_of_every_mistake() -> None:
    answer = (
        a_bench_after_a_step()
        .client()
        .post("/api/v1/what-if", data=CONFIGURATION.replace("max_nodes: 4", "max_nodes: -1"))
    )
    document = answer.get_json()
    assert (answer.status_code, document["error"], document["field"]) == (
        400,
        "invalid configuration: 1 mistake",
        "pools[0].max_nodes",
    )
    assert set(document["mistakes"][0]) == {"field", "problem", "remedy"}


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ("pools.l40.max_nodes: 3", "pools.l40.max_nodes", "nothing here is named l40"),
        ("pools.l40s: 3", "pools.l40s", "names no key"),
        ("objective.of.mine: 3", "objective.of.mine", "names no key"),
        ("pools.l40s.most: 3", "pools[0].most", "unknown key"),
        ("[1]", "", "the file is not a mapping"),
    ],
)
def test_a_change_of_what_is_not_there_is_refused(change: str, field: str, said: str) -> None:
    bench = a_bench_after_a_step(text=f"objective: cost\n{CONFIGURATION}")
    answer = bench.client().post("/api/v1/what-if?as=changes", data=change)
    assert answer.status_code == 400
    assert (answer.get_json()["mistakes"][0]["field"], answer.get_json()["mistakes"][0]["problem"]) == (field, said)


def test_no_file_of_the_server_is_read() -> None:
    answer = a_bench_after_a_step().client().post("/api/v1/what-if", data=f"prices_file: /etc/passwd\n{CONFIGURATION}")
    assert answer.status_code == 400
    assert "only the prices_file in force is read" in answer.get_json()["mistakes"][0]["problem"]


def test_a_few_lines_of_aliases_do_not_stand_for_billions() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    answer = a_bench_after_a_step().client().post("/api/v1/what-if", data=bomb)
    assert answer.get_json()["mistakes"][0]["problem"] == "the file holds more than 20000 values"


MANY = range(1_000)
LONG = "x" * 50_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"a: &a {LONG}\nqueue_wait: {{{', '.join(f'c{n}: *a' for n in MANY)}}}", "more than 1000000 characters"),
        (f"? {LONG}\n: {{{', '.join(f'c{n}: ' for n in MANY)}}}", "a key of more than 1024 characters"),
    ],
)
def test_mistakes_do_not_repeat_a_long_text_thousands_of_times(text: str, said: str) -> None:
    answer = a_bench_after_a_step().client().post("/api/v1/what-if", data=text)
    assert (answer.status_code, len(answer.get_json()["mistakes"])) == (400, 1)
    assert said in answer.get_json()["mistakes"][0]["problem"]


@pytest.mark.parametrize(
    "change", ["", f"{CONFIGURATION}notify: {{destinations: {{all: {{kinds: [{'x, ' * 5_000}]}}}}}}"]
)
def test_of_thousands_of_mistakes_the_first_hundred_are_shown(change: str) -> None:
    nothing = "".join(f"key{n}:\n" for n in MANY)
    found = a_bench_after_a_step().client().post("/api/v1/what-if", data=change or nothing).get_json()["mistakes"]
    assert len(found) == 101
    assert found[-1]["problem"] == "there are more than 100 mistakes"


def test_of_thousands_of_changes_of_what_is_not_there_the_first_hundred_are_shown() -> None:
    changes = "".join(f"pools.none{n}.max_nodes: 1\n" for n in MANY)
    found = a_bench_after_a_step().client().post("/api/v1/what-if?as=changes", data=changes).get_json()["mistakes"]
    assert len(found) == 101
    assert found[-1]["problem"] == "there are more than 100 mistakes"


CLOSE = "}" * 90
DEEP = "".join(f"k{n}: &k{n} {'{a: ' * 90}{f'*k{n - 1}' if n else '1'}{CLOSE}\n" for n in range(9))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("file", DEEP),
        ("changes", DEEP),
        ("changes", f"{'a.' * 400}b: 1"),
        *(("file", part * 10_000) for part in ("[", "{a: ", "- ", "? ", "&a [")),  # libyaml composes by recursion
    ],
)
def test_text_that_is_nested_deep_is_a_mistake_and_no_error_of_the_server(kind: str, text: str) -> None:
    assert a_bench_after_a_step().client().post(f"/api/v1/what-if?as={kind}", data=text).status_code == 400


def test_a_form_holds_no_larger_configuration_than_the_api_takes() -> None:
    assert a_bench_after_a_step().client().post("/what-if", data={"text": "a" * 300_000}).status_code == 413


def test_the_page_and_the_api_answer_one_question_at_a_time_together() -> None:
    bench = a_bench_after_a_step()
    second: list[int] = []

    def slow(text: str, changes: bool) -> FileSettings:
        again = client.application.test_client().post("/what-if", data={"text": CONFIGURATION, "as": "file"})
        second.append(again.status_code)
        return load_text(text)

    bench.other = slow  # type: ignore[method-assign]
    client = bench.client()
    assert client.post("/api/v1/what-if", data=CONFIGURATION).status_code == 200
    assert second == [503]


def test_a_number_of_nodes_that_would_take_the_server_hours_is_refused() -> None:
    answer = a_bench_after_a_step().client().post("/api/v1/what-if?as=changes", data="pools.l40s.max_nodes: 999999999")
    assert (answer.status_code, answer.get_json()["field"]) == (400, "pools")


POOLS = "{name: p%d, civo_pool_id: i%d, size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, max_nodes: 1%s}"
WINDOWS = f", windows: [{', '.join(f'{{name: w{n}, max_nodes: 0}}' for n in range(50))}]"


def many(pools: int = 1, more: str = "", teams: int = 0) -> str:
    """A file with as many of each."""
    listed = ", ".join(POOLS % (n, n, more) for n in range(pools))
    allowances = ", ".join(f"t{n}: 1" for n in range(teams))
    return f"pools: [{listed}]\nbudget: {{monthly_usd: 5000, teams: {{{allowances}}}}}\nlimits: {{max_gpus: 9}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (many(pools=101), "101 pools"),
        (many(pools=7, more=WINDOWS), "350 windows"),
        (many(teams=301), "301 teams"),
    ],
)
def test_a_configuration_that_would_take_seconds_of_the_processor_is_refused(text: str, said: str) -> None:
    answer = a_bench_after_a_step().client().post("/api/v1/what-if", data=text)
    assert answer.status_code == 400
    assert said in answer.get_json()["error"]


def test_as_many_as_the_configuration_in_force_has_may_be_asked_about() -> None:
    allowances = ", ".join(f"t{n}: 1" for n in range(301))
    text = CONFIGURATION.replace("monthly_usd: 5000", f"monthly_usd: 5000, teams: {{{allowances}}}")
    ask(a_bench_after_a_step(text=text), text)


def test_a_body_that_is_too_large_or_no_text_is_refused() -> None:
    client = a_bench_after_a_step().client()
    assert client.post("/api/v1/what-if", data="#" * 300_000).status_code == 413
    assert client.post("/api/v1/what-if", data=b"\xff").status_code == 400
    assert client.post("/api/v1/what-if?as=poem", data=CONFIGURATION).status_code == 400


def test_before_the_first_step_it_is_asked_to_wait() -> None:
    answer = Bench(health=FakeHealth(leader=None)).client().post("/api/v1/what-if", data=CONFIGURATION)
    assert (answer.status_code, answer.get_json()["error"]) == (503, "no step has finished yet")
    assert answer.headers["Retry-After"]


def test_a_replica_that_does_not_lead_names_the_one_that_does() -> None:
    health = FakeHealth(leader=Leader(name="gpu-autoscaler-1", term=3, mine=False))
    answer = Bench(health=health).client().post("/api/v1/what-if", data=CONFIGURATION)
    assert answer.get_json()["remedy"] == "ask the replica that leads, gpu-autoscaler-1"


def test_where_reading_takes_a_token_so_does_this() -> None:
    bench = a_bench_after_a_step(reading=ReadAccess.TOKEN, reader_token=READER)
    assert bench.client().post("/api/v1/what-if", data=CONFIGURATION).status_code == 401
    assert ask(bench, CONFIGURATION, headers={"Authorization": f"Bearer {READER}"})["changes"] == []


def test_in_observe_mode_the_other_may_act() -> None:
    last = a_last_step(text=CONFIGURATION.replace("mode: act", "mode: observe"), mode="observe")
    found = ask(a_bench_after_a_step(last_step=last), CONFIGURATION)
    assert found["changes"] == ["mode observe -> act"]
    assert found["assumptions"] == ["the RBAC permissions to remove nodes are not checked in observe mode"]


@pytest.mark.parametrize(("mode", "nodes"), [("act", 3), ("observe", 4)])
def test_only_where_it_acts_does_growth_wait_for_an_approval(mode: str, nodes: int) -> None:
    last = a_last_step(text=CONFIGURATION.replace("mode: act", f"mode: {mode}"), mode=mode)
    bench = a_bench_after_a_step(last_step=replace(last, additions=step_additions()))
    found = ask(bench, "pools.l40s: {approval: {growth_above_usd_per_hour: 1}}", "changes")
    assert (the_pool(found)["in_force"]["nodes"], the_pool(found)["other"]["nodes"]) == (4, nodes)


def node(bench: Bench, name: str) -> dict[str, Any]:
    answer = bench.client().get(f"/api/v1/nodes/{name}/what-if")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.get_json()
    return document


def test_an_idle_node_at_the_end_of_its_hour_may_go_and_saves_its_price() -> None:
    bench = a_bench_after_a_step(
        facts(a_state(a_due_node("n1")), a_state(pool="spare-id"), spend=SPEND),
        CONFIGURATION + "billing: {removal_margin: 5m}\n",
    )
    found = node(bench, "n1")
    assert (found["blocks"], found["moved"], found["bought"]) == ([], [], [])
    assert (found["usd_per_hour"], found["saves_usd_per_hour"]) == ("1.29", "1.29")
    assert found["unused_usd"] == "0.06"
    assert found["may_go_at"] == "2026-11-20T12:00:00Z"


def test_the_work_of_a_busy_node_waits_for_a_new_one_at_its_price() -> None:
    train = a_pod("train", node="n1", owner="Job/train", phase="running")
    busy = a_node("n1", pods=(train,), idle_since=None)
    found = node(a_bench_after_a_step(facts(a_state(busy), a_state(pool="spare-id"), spend=SPEND)), "n1")
    assert [(turn["workload"], turn["after"]["state"]) for turn in found["moved"]] == [("ml/train", "buying")]
    assert found["bought"] == [{"pool": "l40s", "nodes": 1, "usd_per_hour": "1.29"}]
    assert found["saves_usd_per_hour"] == "0.00"
    assert found["blocks"][0] == "it runs pods without consent to be moved: ml/train"


def test_work_moves_to_a_free_node_by_name() -> None:
    train = a_pod("train", node="n1", owner="Job/train", phase="running")
    busy = a_node("n1", pods=(train,), idle_since=None)
    found = node(a_bench_after_a_step(facts(a_state(busy, a_node("n2")), a_state(pool="spare-id"), spend=SPEND)), "n1")
    after = found["moved"][0]["after"]
    assert (after["state"], after["node"], found["bought"]) == ("fits_free_node", "n2", [])


def test_waiting_work_that_would_use_the_node_is_affected() -> None:
    bench = a_bench_after_a_step(
        facts(a_state(a_node("n1")), a_state(pool="spare-id"), waiting=(a_pod("next"),), spend=SPEND)
    )
    found = node(bench, "n1")
    turn = found["affected"][0]
    assert (turn["workload"], turn["before"]["node"], turn["after"]["state"]) == ("ml/next", "n1", "buying")
    assert "waiting work would use it" in found["blocks"]


def test_a_pod_without_a_controller_is_lost() -> None:
    found = node(a_bench_after_a_step(facts(a_state(a_busy_node("n1")), a_state(pool="spare-id"), spend=SPEND)), "n1")
    assert (found["lost"], found["moved"]) == (["ml/on-n1"], [])


def test_an_unknown_node_is_named_beside_those_there_are() -> None:
    answer = a_bench_after_a_step().client().get("/api/v1/nodes/n9/what-if")
    assert (answer.status_code, answer.get_json()["known"]) == (404, ["n0", "n1", "n2"])


def test_a_protected_node_says_so() -> None:
    found = a_state(with_fields(a_due_node("n1"), protected=True))
    answer = node(a_bench_after_a_step(facts(found, a_state(pool="spare-id"), spend=SPEND)), "n1")
    assert answer["blocks"][0] == "it is protected"
    assert answer["may_go_at"] is None


def test_a_node_that_a_disruption_budget_kept_names_it_and_when_it_is_tried_again() -> None:
    held = "PodDisruptionBudget web blocks the eviction of ml/web-0 from node n1"
    idle = a_node("n1", created_at=NOW - HOUR / 2, idle_since=NOW - HOUR / 2)
    bench = a_bench_after_a_step(facts(a_state(idle), a_state(pool="spare-id"), spend=SPEND))
    removal = a_removal("n1", stage=VictimStage.SPARED)
    why = f"{held}; then its next paid hour began"
    victim = replace(removal.victims[0], why=why, waited_for=held, since=NOW - 5 * MINUTE)
    withdrawn = Outcome(kind=OutcomeKind.WITHDRAWN, at=NOW - 5 * MINUTE, detail=held)
    add_actions(bench.store, StoredAction(action=replace(removal, victims=(victim,)), outcome=withdrawn))
    found = node(bench, "n1")
    assert found["blocks"][0] == f"its removal failed at 11:55:00 UTC: {held}"
    assert found["blocks"][1].startswith("it is tried again at 12:2")
    assert found["may_go_at"].startswith("2026-11-20T12:2")


def send(bench: Bench, text: str, kind: str = "changes") -> Any:
    return bench.client().post("/what-if", data={"text": text, "as": kind})


def test_the_page_has_a_form_that_answers_below_what_was_sent() -> None:
    bench = a_bench_after_a_step()
    assert "Compare as changes" in bench.client().get("/what-if").text
    answer = send(bench, "pools.l40s.max_nodes: 3")
    assert answer.status_code == 200
    for said in ("pools.l40s.max_nodes 4 -&gt; 3", "within_maximum", "$5.16", ">pools.l40s.max_nodes: 3</textarea>"):
        assert said in answer.text


def test_the_page_takes_a_whole_file_that_is_larger_than_other_forms() -> None:
    assert send(a_bench_after_a_step(), f"{CONFIGURATION}{'# a long comment' * 2_000}", "file").status_code == 200


def test_the_page_lists_mistakes_and_keeps_what_was_typed() -> None:
    answer = send(a_bench_after_a_step(), "pools.l40.max_nodes: 3 # <b>")
    assert answer.status_code == 400
    assert "nothing here is named l40; did you mean l40s?" in answer.text
    assert "pools.l40.max_nodes: 3 # &lt;b&gt;</textarea>" in answer.text


def test_the_page_says_when_no_step_has_finished() -> None:
    assert send(a_bench_after_a_step(last_step=None), "objective: cost").status_code == 503


# --- what a question leaves as it is


YAML = """\
mode: act
pools:
  - name: l40s
    civo_pool_id: l40s-id
    size: an.g1.l40s.kube.x1
    resources: {nvidia.com/gpu: 1}
    max_nodes: 8
    price_usd_per_hour: 1.29
"""


def never() -> None:
    raise AssertionError("the loop was woken")


@pytest.fixture
def life() -> Iterator[Life]:
    """A pool with a busy node and work that waits."""
    store = open_in_memory()
    found = lives.waiting(store, a_job("one", duration=2 * HOUR))
    found.run(HOUR / 6)
    found.submit(*(a_job(name) for name in ("two", "three")))
    found.step()
    yield found
    store.close()


def rows(store: SqlStore) -> dict[str, list[Any]]:
    with store._database.engine.connect() as connection:
        return {table.name: list(connection.execute(select(table))) for table in metadata.sorted_tables}


@pytest.mark.parametrize(
    ("method", "path", "body", "reads"),
    [
        ("POST", "/api/v1/what-if", YAML.replace("max_nodes: 8", "max_nodes: 1"), []),
        ("POST", "/api/v1/what-if?as=changes", "budget.monthly_usd: 1", []),
        ("POST", "/api/v1/what-if?as=changes", "pools.l40s: {approval: {growth_above_usd_per_hour: 1}}", []),
        ("GET", "/api/v1/nodes/{node}/what-if", None, ["SELECT actions"]),  # what its last removal failed on
    ],
)
def test_a_what_if_question_writes_nothing(
    life: Life, method: str, path: str, body: str | None, reads: list[str]
) -> None:
    store, stepped, said = cast("SqlStore", life.store), life.steps[-1], []
    registry = a_registry(store, life.policy)
    last = LastStep(facts=stepped.facts, settings=load_text(YAML), mode="act")
    bench = Bench(store=store, policy=life.policy, clock=FixedClock(life.now), last_step=last, wake=never)
    client, before, scraped, done = bench.client(), rows(store), generate_latest(registry), life.writes()
    for port in (life.cloud, life.cluster, life.telemetry, life.alarms, life.accounts):
        port.fail_always(TryLater("a port was called", code="test"))
    event.listen(store._database.engine, "before_cursor_execute", lambda *args: said.append(args[2]))
    address = path.format(node=stepped.facts.pools[0].nodes[0].name)
    answer = client.open(address, method=method, data=body)
    assert answer.status_code == 200, answer.text
    assert [statement.partition(".")[0] for statement in said] == reads
    assert rows(store) == before
    assert life.writes() == done
    assert generate_latest(registry) == scraped


@pytest.mark.parametrize("path", ["/what-if", "/api/v1/what-if"])
def test_another_site_cannot_have_us_work_out_what_would_be(path: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert a_bench_after_a_step().client().post(path, headers=headers).status_code == 403
