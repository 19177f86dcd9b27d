"""GET /api/v1: the fields that others rely on, and refusals that help.

What becomes of each pod that waits, what a pod that does not wait may be doing, and whether an alert has arrived.
"""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.policy import Policy
from receiver.ports import TryLater
from receiver.ports.alert_payload import parse
from simulator.store import MemoryStore
from tests.web.builders import (
    A100,
    L40S,
    NOW,
    Bench,
    a_decision,
    a_full_store,
    a_payload,
    a_policy,
    a_waiting_pod,
    an_action,
    showing,
)
from tests.web.seen import get_api
from tests.web.stores import a_store_with, failing

# Written out, not imported: others rely on these names.
POOL_COUNTS = ["required", "ready", "building", "busy", "idle", "unknown", "pending_gpus", "wanted"]
PATHS = [
    "/pools",
    "/pools/l40s",
    "/waiting",
    "/waiting/research/train-llm-2",
    "/decisions",
    "/decisions/42",
    "/actions",
    "/budget",
    "/charges",
]


def test_pools_have_the_documented_fields() -> None:
    first = get_api("/pools")[0]
    documented = [
        "name",
        "pool",
        "required",
        "ready",
        "building",
        "busy",
        "idle",
        "unknown",
        "pending_gpus",
        "wanted",
        "mode",
    ]
    assert list(first)[: len(documented)] == documented
    assert [first[k] for k in documented] == ["l40s", L40S, 4, 3, 1, 2, 1, 0, 1, 4, "act"]


@pytest.mark.parametrize("called", ["a100", A100])
def test_a_pool_is_found_by_name_and_by_id(called: str) -> None:
    pool = get_api(f"/pools/{called}")
    assert (pool["name"], pool["unknown"], pool["waits"][0]["failures"]) == ("a100", 1, 3)


def test_an_unknown_pool_is_answered_with_the_known_ones() -> None:
    document = get_api("/pools/h100", code=404)
    assert document["field"] == "pool"
    assert document["remedy"] == "use one of: l40s, a100"
    assert {"name": "l40s", "pool": L40S} in document["known"]


def test_a_count_that_the_picture_lacks_is_null_and_not_zero() -> None:
    store = a_store_with(picture=({"pools": [{"name": "l40s", "pool": L40S}]}, NOW))
    pool = get_api("/pools", store)[0]
    assert (pool["required"], pool["mode"]) == (None, "act")


def test_the_answer_says_from_which_step_it_is() -> None:
    response = Bench(store=a_full_store()).client().get("/api/v1/pools")
    assert response.headers["Gpu-Autoscaler-Snapshot-At"] == "2026-03-10T14:29:56Z"


@pytest.mark.parametrize("path", ["/pools", "/waiting", "/decisions", "/actions"])
def test_before_the_first_step_lists_are_empty_and_say_so(path: str) -> None:
    response = Bench().client().get(f"/api/v1{path}")
    assert (response.status_code, response.get_json()) == (200, [])
    assert response.headers["Gpu-Autoscaler-Snapshot-At"] == "none"


def test_before_the_first_step_a_pool_has_a_name_and_no_counts() -> None:
    pool = get_api("/pools/l40s", MemoryStore())
    assert (pool["pool"], pool["required"], pool["wanted"], pool["mode"]) == (L40S, None, None, "act")


def test_a_decision_has_the_documented_fields() -> None:
    document = get_api("/decisions/42")
    documented = {"id", "at", "pool", "from", "to", "verdict", "reasons", "evidence", "reconsider_at"}
    assert documented <= set(document)
    assert document["at"] == "2026-03-10T14:27:00Z"
    assert document["reconsider_at"] == "2026-03-10T15:27:00Z"
    assert (document["from"], document["to"], document["verdict"]) == (3, 4, "grow")
    assert document["evidence"]["spent_usd"] == "3120.44"


def test_a_decision_tells_every_reason_in_order() -> None:
    reasons = get_api("/decisions/42")["reasons"]
    assert [r["rule"] for r in reasons] == ["demand", "within_maximum", "within_limits"]
    assert reasons[2] == {
        "rule": "within_limits",
        "verdict": "limits",
        "target": 4,
        "detail": "1 of 3 fits the hourly limit.",
        "cause": "",
    }


@pytest.mark.parametrize(("target", "verdict"), [(4, "grow"), (3, "hold"), (2, "shrink")])
def test_the_verdict_is_the_direction_of_the_change(target: int, verdict: str) -> None:
    store = a_store_with(decisions=[a_decision(present=3, target=target)])
    assert get_api("/decisions", store)[0]["verdict"] == verdict


def test_decisions_come_newest_first() -> None:
    assert [d["id"] for d in get_api("/decisions")] == [42, 41]


def test_decisions_can_be_asked_for_one_pool_by_its_name() -> None:
    assert [d["id"] for d in get_api("/decisions?pool=a100")] == [41]


def test_decisions_can_be_limited() -> None:
    assert [d["id"] for d in get_api("/decisions?limit=1")] == [42]


@pytest.mark.parametrize("path", ["/waiting", "/decisions", "/actions"])
@pytest.mark.parametrize("limit", ["0", "-1", "501", "ten", "", "1.5", "9" * 5000, "\u0663"])
def test_a_bad_limit_is_refused_with_the_range(path: str, limit: str) -> None:
    document = get_api(f"{path}?limit={limit}", code=400)
    assert document["field"] == "limit"
    assert "from 1 to 500" in document["remedy"]


@pytest.mark.parametrize("limit", ["1", "500"])
def test_both_ends_of_the_limit_are_taken(limit: str) -> None:
    assert get_api(f"/decisions?limit={limit}")


@pytest.mark.parametrize("path", ["/waiting", "/decisions", "/actions"])
def test_a_filter_on_an_unknown_pool_is_refused_with_the_known_ones(path: str) -> None:
    assert "l40s, a100" in get_api(f"{path}?pool=h100", code=404)["remedy"]


@pytest.mark.parametrize("path", ["/waiting", "/decisions", "/actions"])
def test_an_empty_pool_filter_is_refused_instead_of_meaning_all(path: str) -> None:
    assert get_api(f"{path}?pool=", code=404)["field"] == "pool"


@pytest.mark.parametrize("number", ["43", "99999999999999999999999999", "0"])
def test_a_decision_that_is_not_kept_is_answered_404(number: str) -> None:
    assert "no decision" in get_api(f"/decisions/{number}", code=404)["error"]


@pytest.mark.parametrize("number", ["latest", "-1", "4.2"])
def test_a_decision_id_that_is_no_number_is_answered_400(number: str) -> None:
    assert get_api(f"/decisions/{number}", code=400)["field"] == "id"


def test_actions_carry_their_victims_and_outcome() -> None:
    [action] = get_api("/actions?pool=l40s")
    assert (action["kind"], action["from"], action["to"], action["decision"]) == ("retire", 3, 2, 42)
    assert action["victims"][0]["stage"] == "gone"
    assert action["outcome"]["kind"] == "confirmed"


def test_an_open_action_has_no_outcome() -> None:
    store = a_store_with(actions=[an_action(outcome=None, reserved_usd=Decimal("2.58"))])
    [action] = get_api("/actions", store)
    assert (action["outcome"], action["reserved_usd"]) == (None, "2.58")


def test_an_action_of_a_pool_that_policy_no_longer_names_keeps_its_id() -> None:
    store = a_store_with(actions=[an_action(pool="gone-pool")])
    assert get_api("/actions", store)[0]["pool_name"] == "gone-pool"


def test_the_budget_tells_money_as_strings_and_thresholds_as_ratios() -> None:
    budget = get_api("/budget")
    assert budget["configured"] is True
    assert (budget["monthly_usd"], budget["spent_usd"], budget["reserved_usd"]) == ("5000", "3120.44", "412.80")
    assert (budget["stage"], budget["warn_at"], budget["hold_at"], budget["stop_at"]) == ("warn", 0.5, 0.8, 1.0)


def test_the_budget_tells_every_scope_with_its_forecast_and_who_set_it() -> None:
    cluster, team = get_api("/budget")["scopes"]
    assert (cluster["scope"], cluster["forecast_usd"], cluster["set_by"]) == ("cluster", "6100.50", None)
    assert (team["scope"], team["name"], team["stage"], team["set_by"]["who"]) == ("team", "research", "hold", "ada")


def test_the_budget_tells_where_new_work_is_kept_out_and_since_when() -> None:
    kept = [{"place": "ml", "since": "2026-03-14T15:00:00+00:00"}]
    assert get_api("/budget", showing(kept_out=kept))["kept_out"] == kept


def test_the_charges_tell_each_difference_with_its_cause() -> None:
    charges = get_api("/charges")
    assert (charges["month"], charges["account_usd"], charges["differences_total"]) == ("2026-03", "1301.22", 1)
    assert [(d["name"], d["cause"], d["usd"]) for d in charges["differences"]] == [("l40s-7", "seen_late", "-3.87")]
    assert charges["unpriced"] == [{"code": "dbaas-small", "hours": 12.0}]


def test_before_civo_was_asked_for_its_charges_every_field_is_null() -> None:
    charges = get_api("/charges", showing(charges=None))
    assert set(charges.values()) == {None}


def test_without_a_budget_every_field_is_null() -> None:
    store = showing(budget=None, budgets=[])
    budget = get_api("/budget", store, policy=Policy(pools=a_policy().pools))
    assert budget.pop("configured") is False
    assert set(budget.values()) == {None}


def test_before_the_first_step_the_budget_is_known_and_the_spend_is_not() -> None:
    budget = get_api("/budget", MemoryStore())
    assert (budget["monthly_usd"], budget["spent_usd"], budget["stage"]) == ("5000", None, None)


@pytest.mark.parametrize("path", PATHS)
def test_a_store_that_is_down_is_answered_503_with_a_time_to_come_back(path: str) -> None:
    bench = Bench(error=TryLater("disk full", delay=timedelta(seconds=3)))
    response = bench.client().get(f"/api/v1{path}")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "3")
    assert "disk full" in response.get_json()["error"]


@pytest.mark.parametrize("path", PATHS)
def test_a_bug_is_answered_500_in_json_without_a_trace(path: str) -> None:
    document = get_api(path, failing(RuntimeError("secret detail")), code=500)
    assert "secret detail" not in str(document)


@pytest.mark.parametrize("path", PATHS)
def test_the_api_only_reads(path: str) -> None:
    bench = Bench(store=a_full_store())
    bench.client().get(f"/api/v1{path}")
    assert set(bench.log) <= {"snapshot", "decisions", "decision", "actions", "beside", "followed"}


def test_an_unknown_path_of_the_api_is_answered_in_json() -> None:
    assert get_api("/nodes", code=404)["error"] == "not found"


def test_a_write_to_the_api_is_answered_405_in_json() -> None:
    response = Bench().client().delete("/api/v1/pools")
    assert (response.status_code, response.content_type) == (405, "application/json")


# --- pods that wait


def test_waiting_pods_come_in_the_order_of_service() -> None:
    assert [pod["name"] for pod in get_api("/waiting")] == ["train-llm-2", "needs-mig"]


@pytest.mark.parametrize("called", ["l40s", L40S])
def test_waiting_pods_can_be_asked_for_by_their_pool(called: str) -> None:
    assert [pod["name"] for pod in get_api(f"/waiting?pool={called}")] == ["train-llm-2"]
    assert get_api("/waiting?pool=a100") == []


def test_the_list_of_waiting_pods_can_be_limited() -> None:
    assert [pod["name"] for pod in get_api("/waiting?limit=1")] == ["train-llm-2"]


def test_the_list_of_waiting_pods_says_how_many_wait_in_all() -> None:
    response = Bench(store=showing(waiting_total=812)).client().get("/api/v1/waiting?limit=1")
    assert response.headers["Gpu-Autoscaler-Waiting-Total"] == "812"


def test_one_waiting_pod_is_found_by_its_namespace_and_name() -> None:
    pod = get_api("/waiting/research/train-llm-2")
    assert (pod["state"], pod["rule"], pod["pool"], pod["pool_name"]) == ("held", "within_budget", L40S, "l40s")
    assert pod["what_to_do"].startswith("raise the budget (gpu-autoscaler budget set USD --why REASON --who YOU)")
    assert pod["fits"][1] == {
        "pool": A100,
        "name": "a100",
        "why_not": "its node selector wants gpu=l40s, nodes carry gpu=a100",
    }


def test_a_pod_that_no_pool_fits_waits_for_no_pool() -> None:
    pod = get_api("/waiting/research/needs-mig")
    assert (pod["pool"], pod["pool_name"]) == (None, None)


def test_in_observe_mode_a_purchase_is_nothing_to_wait_for() -> None:
    store = showing(mode="observe", waiting=[a_waiting_pod(state="buying", rule=None)])
    assert "mode: act" in get_api("/waiting/research/train-llm-2", store)["what_to_do"]


def test_for_a_waiting_pod_what_the_step_says_to_do_goes_before_what_the_rule_advises() -> None:
    store = showing(waiting=[a_waiting_pod(what_to_do="let it take an old pod away first")])
    assert get_api("/waiting/research/train-llm-2", store)["what_to_do"] == "let it take an old pod away first"


def test_a_waiting_pod_of_another_version_has_null_for_what_it_lacks() -> None:
    store = showing(waiting=[{"namespace": "ml", "name": "p"}])
    pod = get_api("/waiting/ml/p", store)
    assert (pod["state"], pod["what_to_do"], pod["fits"]) == (None, None, None)


@pytest.mark.parametrize("path", ["/waiting/research/train-llm-9", "/waiting/ml/train-llm-2"])
def test_a_pod_that_does_not_wait_is_answered_with_all_that_this_can_mean(path: str) -> None:
    document = get_api(path, code=404)
    assert "does not wait for a GPU as of the last step" in document["error"]
    said = "; ".join(document["can_mean"])
    for meaning in ("it runs", "gated", "finished", "no GPU", "after the last step", "no pod of this name"):
        assert meaning in said
    assert "wait behind" not in said


def test_the_404_of_a_pod_says_from_which_step_it_is() -> None:
    response = Bench(store=a_full_store()).client().get("/api/v1/waiting/ml/p")
    assert response.headers["Gpu-Autoscaler-Snapshot-At"] == "2026-03-10T14:29:56Z"


def test_a_pod_that_is_bound_to_a_node_is_answered_with_the_node() -> None:
    document = get_api("/waiting/research/train-llm-0", code=404)
    assert document["error"] == "pod research/train-llm-0 does not wait: it is bound to node l40s-0 of GPU pool l40s"
    assert "kubectl describe pod -n research train-llm-0" in document["remedy"]


def test_a_pod_that_may_be_one_of_those_that_are_not_kept_is_answered_so() -> None:
    document = get_api("/waiting/ml/p", showing(waiting_total=812), code=404)
    assert document["can_mean"][0] == "it is one of the 810 waiting pods beyond the 2 stored here"


def test_while_kubernetes_is_silent_nobody_says_that_a_pod_does_not_wait() -> None:
    sources = [{"source": "kubernetes", "up": False, "detail": "timed out", "configured": True}]
    document = get_api("/waiting/ml/p", showing(sources=sources), code=404)
    assert document["error"] == "pod ml/p is not known to wait, and Kubernetes did not answer: timed out"


def test_before_the_first_step_nobody_knows_which_pods_wait() -> None:
    assert "no step has finished yet" in get_api("/waiting/ml/p", MemoryStore(), code=404)["error"]


# --- alerts that arrived


def delivered(bench: Bench, ago: timedelta = timedelta(0), **labels: str) -> None:
    """Let the store have one delivery that came so long *ago*."""
    payload = a_payload(**labels)
    payload["alerts"][0]["fingerprint"] = "-".join(labels.values()) or "none"
    body = json.dumps(payload).encode()
    bench.store.remember(parse(body, received_at=NOW), NOW - ago)


def alerts(bench: Bench, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bench.client().get(f"/api/v1/alerts{query}").get_json()
    return found


def test_an_alert_that_was_delivered_is_told_with_its_labels_and_the_deliverys_number() -> None:
    bench = Bench()
    delivered(bench, test="one")
    (alert,) = alerts(bench)
    assert (alert["alertname"], alert["labels"]["test"]) == ("GpuPoolPendingPods", "one")
    assert (alert["delivery"], alert["firing"]) == (1, True)


def test_the_newest_alert_comes_first_and_what_is_older_than_an_hour_not_at_all() -> None:
    bench = Bench()
    delivered(bench, timedelta(hours=1), test="old")
    delivered(bench, timedelta(minutes=9), test="before")
    delivered(bench, test="last")
    assert [alert["labels"]["test"] for alert in alerts(bench)] == ["last", "before"]


def test_a_name_asks_for_the_alerts_of_that_name() -> None:
    bench = Bench()
    delivered(bench, alertname="GpuAutoscalerHeartbeat")
    delivered(bench)
    assert [alert["alertname"] for alert in alerts(bench, "?alertname=GpuAutoscalerHeartbeat")] == [
        "GpuAutoscalerHeartbeat"
    ]
    assert alerts(bench, "?alertname=Nothing") == []
