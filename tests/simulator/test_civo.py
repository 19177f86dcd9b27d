"""Civo's face: what it shows, what a resize does, and what it refuses."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
import requests

from simulator.server import Simulator
from tests.simulator.builders import CLUSTER, CPU_POOL, GPU_POOL, KEY, Civo

Starter = Callable[..., Simulator]


def turn(sim: Simulator, seconds: float) -> None:
    sim.live.turn(timedelta(seconds=seconds))


# --- what it shows ---


def test_clusters_come_in_pages_and_the_rest_in_bare_arrays(civo: Civo) -> None:
    clusters = civo.get("/v2/kubernetes/clusters")
    assert (clusters["page"], clusters["per_page"], clusters["pages"]) == (1, 20, 1)
    assert [c["id"] for c in clusters["items"]] == [CLUSTER]
    for path in ("/v2/sizes", "/v2/regions", "/v2/charges", f"{civo.cluster}/pools", f"{civo.cluster}/instances"):
        assert isinstance(civo.get(path), list), path


def test_a_pool_at_zero_is_only_in_what_is_required(civo: Civo) -> None:
    cluster = civo.get(civo.cluster)
    assert [p["id"] for p in cluster["pools"]] == [GPU_POOL]
    assert {p["id"]: p["count"] for p in cluster["required_pools"]} == {GPU_POOL: 1, CPU_POOL: 0}
    assert [p["id"] for p in civo.get(f"{civo.cluster}/pools")] == [GPU_POOL]
    assert civo.pool(CPU_POOL)["count"] == 0


def test_the_list_of_pools_may_be_switched_to_show_those_at_zero(start: Starter) -> None:
    civo = Civo(start(behaviour={"list_zero_pools": True}).url)
    assert {p["id"] for p in civo.get(f"{civo.cluster}/pools")} == {GPU_POOL, CPU_POOL}
    assert [p["id"] for p in civo.get(civo.cluster)["pools"]] == [GPU_POOL]


def test_a_listed_count_may_be_what_exists_instead_of_what_is_wanted(start: Starter) -> None:
    sim = start(behaviour={"list_count": "actual"}, timings={"create": "30s"})
    civo = Civo(sim.url)
    assert civo.resize(3).json()["count"] == 3
    assert civo.pool()["count"] == 1
    turn(sim, 31)
    assert civo.pool()["count"] == 3


def test_the_region_is_taken_in_either_case_and_shown_in_lower_case(civo: Civo) -> None:
    assert civo.get(civo.cluster, params={"region": "lon1"})["region"] == "lon1"
    assert [r["code"] for r in civo.get("/v2/regions")] == ["lon1"]


def test_answers_carry_the_secrets_that_a_log_must_not(civo: Civo) -> None:
    text = json.dumps(civo.get(civo.cluster))
    assert {"SECRET-initial-password", "SECRET-civostatsd-token", "SECRET-kubeconfig-token"} <= {
        word for word in text.replace("}", " ").replace('"', " ").split() if word.startswith("SECRET")
    }


def test_sizes_have_gpu_counts_and_no_price(civo: Civo) -> None:
    sizes = {s["name"]: s for s in civo.get("/v2/sizes")}
    assert sizes["an.g1.l40s.kube.x1"]["gpu_count"] == 1
    assert sizes["g4s.kube.medium"]["gpu_count"] == 0
    assert not any("price" in key for size in sizes.values() for key in size)


def test_quota_usage_counts_nodes_and_knows_no_gpus(start: Starter) -> None:
    sim = start(quota={"instance_count": 5})
    quota = Civo(sim.url).get("/v2/quota")
    assert (quota["instance_count_limit"], quota["instance_count_usage"]) == (5, 1)
    assert quota["ram_mb_usage"] == 98304
    assert not any("gpu" in key for key in quota)


def test_a_charge_has_hours_and_no_money_and_stays_open_while_its_node_lives(sim: Simulator, civo: Civo) -> None:
    turn(sim, 3700)
    (charge,) = civo.get("/v2/charges")
    assert (charge["code"], charge["num_hours"], charge["to"]) == ("kube-node-an.g1.l40s.kube.x1", 2, None)
    assert not any("price" in key or "total" in key for key in charge)


def test_charges_of_more_than_31_days_are_refused(civo: Civo) -> None:
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
    response = civo.call("GET", "/v2/charges", params=window)
    assert (response.status_code, response.json()["code"]) == (400, "parameter_date_range_too_long")
    response = civo.call("GET", "/v2/charges", params={"from": "yesterday"})
    assert response.json()["code"] == "parameter_time_value"


# --- resizing ---


def test_a_resize_answers_with_the_new_count_and_instances_follow(sim: Simulator, civo: Civo) -> None:
    answer = civo.resize(2).json()
    assert (answer["count"], civo.required()) == (2, 2)
    assert sorted(i["status"] for i in civo.pool()["instances"]) == ["ACTIVE", "BUILDING"]
    turn(sim, 61)
    assert [i["status"] for i in civo.pool()["instances"]] == ["ACTIVE", "ACTIVE"]


def test_a_put_without_a_count_changes_nothing(civo: Civo) -> None:
    response = civo.call("PUT", f"{civo.cluster}/pools/{GPU_POOL}", json={"region": "LON1"})
    assert (response.status_code, civo.required()) == (200, 1)


def test_a_pool_may_go_to_zero(sim: Simulator, civo: Civo) -> None:
    assert civo.resize(0).json()["count"] == 0
    turn(sim, 11)
    assert civo.get(civo.cluster)["pools"] == []


def test_a_body_that_says_gzip_and_is_plain_is_read(civo: Civo) -> None:
    assert civo.resize(2, headers={"Content-Encoding": "gzip"}).json()["count"] == 2


def test_deleting_an_instance_lowers_the_required_count(sim: Simulator, civo: Civo) -> None:
    (instance,) = civo.pool()["instances"]
    path = f"{civo.cluster}/pools/{GPU_POOL}/instances/{instance['id']}"
    assert civo.call("DELETE", path).json() == {"result": "success"}
    assert civo.required() == 0
    assert [i["status"] for i in civo.pool()["instances"]] == ["DELETING"]
    turn(sim, 11)
    gone = civo.call("DELETE", path)
    assert (gone.status_code, gone.json()["code"]) == (404, "database_cluster_pool_instance_not_found")


def test_recycling_replaces_a_node_under_the_same_count(civo: Civo) -> None:
    (before,) = civo.pool()["instances"]
    response = civo.call("POST", f"{civo.cluster}/recycle", json={"hostname": before["hostname"], "region": "LON1"})
    assert (response.json(), civo.required()) == ({"result": "success"}, 1)
    after = [i["hostname"] for i in civo.pool()["instances"] if i["status"] == "BUILDING"]
    assert after
    assert before["hostname"] not in after


def test_null_taints_wipe_a_pools_taints_unless_switched_off(civo: Civo, start: Starter) -> None:
    body = {"count": 1, "taints": None, "region": "LON1"}
    civo.call("PUT", f"{civo.cluster}/pools/{GPU_POOL}", json=body)
    assert "taints" not in civo.pool()
    kind = Civo(start(behaviour={"taints_null_wipes": False}).url)
    kind.call("PUT", f"{kind.cluster}/pools/{GPU_POOL}", json=body)
    assert kind.pool()["taints"] == [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]


def test_a_put_of_the_cluster_deletes_the_pools_it_does_not_list(civo: Civo) -> None:
    civo.call("PUT", civo.cluster, json={"pools": [{"id": CPU_POOL, "count": 1}], "region": "LON1"})
    assert [p["id"] for p in civo.get(civo.cluster)["required_pools"]] == [CPU_POOL]


def test_a_new_pool_is_not_in_the_answer_that_creates_it(civo: Civo) -> None:
    body = {"id": "pool-new", "size": "g4g.kube.small", "count": 1, "region": "LON1"}
    assert civo.call("POST", f"{civo.cluster}/pools", json=body).json() == {"result": "success"}
    assert civo.pool("pool-new")["count"] == 1
    assert civo.call("DELETE", f"{civo.cluster}/pools/pool-new").json() == {"result": "success"}
    assert civo.call("GET", f"{civo.cluster}/pools/pool-new").status_code == 404


# --- what it refuses ---


def test_the_key_may_follow_bearer_in_either_case(sim: Simulator) -> None:
    for scheme in ("bearer", "Bearer"):
        response = requests.get(f"{sim.url}/v2/ping", headers={"Authorization": f"{scheme} {KEY}"}, timeout=60)
        assert response.json() == {"result": "success"}


def test_a_missing_or_wrong_key_is_refused_in_civos_two_ways(sim: Simulator) -> None:
    missing = requests.get(f"{sim.url}/v2/quota", timeout=60)
    assert (missing.status_code, missing.json()["result"]) == (401, "requires_authentication")
    wrong = Civo(sim.url, key="not-it").call("GET", "/v2/quota")
    assert (wrong.status_code, wrong.json()["code"]) == (401, "authentication_invalid_key")


@pytest.mark.parametrize("region", ["NYC1", ""])
def test_a_wrong_or_missing_region_is_refused(civo: Civo, region: str) -> None:
    response = civo.call("GET", civo.cluster, params={"region": region})
    assert (response.status_code, response.json()["code"]) == (400, "region_unavailable")


def test_the_region_may_stand_in_the_body_alone(sim: Simulator, civo: Civo) -> None:
    response = requests.put(
        f"{sim.url}{civo.cluster}/pools/{GPU_POOL}",
        headers=civo.headers,
        json={"count": 1, "region": "lon1"},
        timeout=60,
    )
    assert response.status_code == 200


@pytest.mark.parametrize(
    "path, code",
    [
        ("/v2/kubernetes/clusters/other", "database_kubernetes_cluster_not_found"),
        (f"/v2/kubernetes/clusters/{CLUSTER}/pools/other", "database_cluster_pool_not_found"),
    ],
)
def test_unknown_ids_are_not_found_with_their_own_codes(civo: Civo, path: str, code: str) -> None:
    response = civo.call("GET", path)
    assert (response.status_code, response.json()["code"]) == (404, code)


def test_an_unknown_path_is_answered_in_plain_text(civo: Civo) -> None:
    response = civo.call("GET", "/v2/invoices")
    assert (response.status_code, response.headers["Content-Type"]) == (404, "text/plain")


@pytest.mark.parametrize("body", ['{"count": "two"}', '{"count": true}', "[1]", "{"])
def test_a_body_that_is_no_resize_is_refused_and_changes_nothing(civo: Civo, body: str) -> None:
    response = civo.call("PUT", f"{civo.cluster}/pools/{GPU_POOL}", data=body)
    assert (response.status_code, response.json()["code"]) == (400, "marshaling_objects_to_json")
    assert civo.required() == 1


def test_stock_and_quota_refuse_a_growth_whole(start: Starter) -> None:
    civo = Civo(start(stock={"an.g1.l40s.kube.x1": 2}, quota={"instance_count": 10}).url)
    short = civo.resize(4)
    assert (short.status_code, short.json()["code"], civo.required()) == (403, "gpu_count_exceeded", 1)
    over = civo.resize(12)
    assert (over.status_code, over.json()["code"]) == (403, "quota_limit_reached")
    assert "instance_count" in over.json()["details"]
    assert civo.resize(3).json()["count"] == 3
