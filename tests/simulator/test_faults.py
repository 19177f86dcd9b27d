"""Every fault that can be asked for, met by a real caller."""

import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from receiver.adapters.civo.cloud import CivoCloud
from simulator.server import Simulator
from tests.e2e.waiting import until
from tests.simulator.builders import GPU_POOL, KEY, Civo

Starter = Callable[..., Simulator]
PUT = {"method": "PUT", "path": "/pools/"}
NO_COUNT = "its count in required_pools is missing or malformed"


def ask(sim: Simulator, *faults: dict[str, Any]) -> Any:
    response = requests.post(f"{sim.url}/_faults", json=list(faults), timeout=60)
    assert response.status_code == 200, response.text
    return response.json()


def owners(sim: Simulator) -> list[str]:
    return [p["owner"] for p in requests.get(f"{sim.url}/_state", timeout=60).json()["pods"]]


def puts(sim: Simulator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = requests.get(f"{sim.url}/_requests", params={"method": "PUT"}, timeout=60).json()
    return found


# --- of the wire ------------------------------------------------------------------------------------------


def test_an_error_is_met_as_often_as_asked_and_has_no_effect(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "error", **PUT, "times": 2, "status": 500})
    assert [civo.resize(n).status_code for n in (2, 3, 4)] == [500, 500, 200]
    assert civo.required() == 4


def test_a_fault_is_met_only_by_the_calls_it_is_for(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "error", "method": "^PUT$", "path": "/pools/other", "times": None})
    assert civo.resize(2).status_code == 200
    ask(sim, {"kind": "error", "path": "/v2/quota", "times": None, "code": "database_quota_lock_failed"})
    assert civo.call("GET", "/v2/quota").json()["code"] == "database_quota_lock_failed"
    assert civo.call("GET", "/v2/sizes").status_code == 200


def test_a_standing_fault_lasts_until_it_is_cleared(sim: Simulator, civo: Civo) -> None:
    shown = ask(sim, {"kind": "error", "times": None})
    assert {civo.call("GET", "/v2/ping").status_code for _ in range(3)} == {503}
    number = shown["http"][0]["id"]
    assert requests.delete(f"{sim.url}/_faults/{number}", timeout=60).json()["http"] == []
    assert civo.call("GET", "/v2/ping").status_code == 200


def test_an_error_may_come_after_the_call_took_effect(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "error", **PUT, "after_effect": True})
    assert (civo.resize(3).status_code, civo.required()) == (503, 3)


@pytest.mark.parametrize("after_effect, required", [(False, 1), (True, 3)])
def test_a_timeout_comes_before_or_after_the_effect(
    sim: Simulator, civo: Civo, after_effect: bool, required: int
) -> None:
    ask(sim, {"kind": "timeout", **PUT, "seconds": 0, "after_effect": after_effect})
    with pytest.raises(requests.exceptions.ConnectionError):
        civo.resize(3)
    assert civo.required() == required


def test_a_timeout_ends_in_a_closed_connection(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "timeout", "seconds": 0.1})
    with pytest.raises(requests.exceptions.ConnectionError):
        civo.call("GET", "/v2/ping")


def test_a_hung_answer_stalls_in_the_middle_of_its_body(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "hang", **PUT})
    body = '{"count": 2, "region": "lon1"}'
    head = f"PUT {civo.cluster}/pools/{GPU_POOL} HTTP/1.1\r\nAuthorization: bearer {KEY}\r\nContent-Length: {len(body)}"
    url = urlsplit(sim.url)
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall(f"{head}\r\n\r\n{body}".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(4096)
        assert b" 200 OK" in answer
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            b"".join(iter(lambda: connection.recv(4096), b""))
    assert civo.required() == 2


def test_a_slow_answer_is_right_and_late(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "slow", "seconds": "100ms"})
    began = time.monotonic()
    assert civo.get("/v2/ping") == {"result": "success"}
    assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("after", [None, 7, "Wed, 04 Mar 2026 08:00:00 GMT"])
def test_a_rate_limit_may_say_when_to_come_back(sim: Simulator, civo: Civo, after: str | int | None) -> None:
    ask(sim, {"kind": "rate_limit", "retry_after": after})
    response = civo.call("GET", "/v2/ping")
    assert (response.status_code, response.headers.get("Retry-After")) == (429, None if after is None else str(after))


@pytest.mark.parametrize("status", [200, 502])
def test_an_answer_may_be_html(sim: Simulator, civo: Civo, status: int) -> None:
    ask(sim, {"kind": "not_json", "status": status})
    response = civo.call("GET", "/v2/ping")
    assert (response.status_code, response.text[:6]) == (status, "<html>")


def test_the_kubernetes_and_metrics_faces_can_fail_too(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "error", "face": "kubernetes"}, {"kind": "error", "face": "metrics", "path": "kube-state"})
    assert civo.call("GET", "/v2/ping").status_code == 200
    nodes = requests.get(f"{sim.url}/api/v1/nodes", timeout=60)
    assert (nodes.status_code, nodes.json()["kind"]) == (503, "Status")
    assert requests.get(f"{sim.url}/metrics/kube-state-metrics", timeout=60).status_code == 503


def test_clearing_lets_waiting_calls_go(start: Starter) -> None:
    sim = start()
    ask(sim, {"kind": "timeout", "seconds": 3600})
    released = []

    def call() -> None:
        with pytest.raises(requests.exceptions.ConnectionError):
            Civo(sim.url).call("GET", "/v2/ping", timeout=60)
        released.append(True)

    caller = threading.Thread(target=call)
    caller.start()
    until(lambda: any(e["fault"] for e in sim.log.entries()), "the call that waits")
    requests.delete(f"{sim.url}/_faults", timeout=60)
    caller.join(timeout=60)
    assert released == [True]


# --- of the world -----------------------------------------------------------------------------------------


def test_stock_and_quota_can_run_out_while_it_runs(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "stock", "size": "an.g1.l40s.kube.x1", "units": 1})
    assert civo.resize(3).json()["code"] == "gpu_count_exceeded"
    ask(sim, {"kind": "quota", "field": "cpu_core", "limit": 20})
    assert civo.resize(2).json()["code"] == "quota_limit_reached"
    assert civo.get("/v2/quota")["cpu_core_limit"] == 20
    requests.delete(f"{sim.url}/_faults", timeout=60)
    assert civo.resize(3).status_code == 200


def test_a_rescale_can_be_refused(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "refuse_rescale"}, {"kind": "refuse_rescale", "code": "out_of_capacity", "status": 403})
    answers = [civo.resize(2) for _ in range(3)]
    assert [a.status_code for a in answers] == [409, 403, 200]
    assert answers[0].json()["code"] == "cannot_scale_already_rescaling_cluster"


def test_a_build_can_stick_or_end_in_a_status_nobody_documents(sim: Simulator, civo: Civo) -> None:
    ask(
        sim, {"kind": "stuck_building", "pool": GPU_POOL}, {"kind": "odd_status", "pool": GPU_POOL, "status": "SHUTOFF"}
    )
    civo.resize(4)
    sim.live.turn(timedelta(hours=1))
    assert sorted(i["status"] for i in civo.pool()["instances"]) == ["ACTIVE", "ACTIVE", "BUILDING", "SHUTOFF"]


@pytest.mark.parametrize(
    ("field", "instead", "read"),
    [
        pytest.param("status", None, ("", True, ""), id="no status"),
        pytest.param("status", "RESIZING", ("RESIZING", True, ""), id="another status"),
        pytest.param("created_at", "0001-01-01T00:00:00Z", ("ACTIVE", False, ""), id="Go's zero time"),
        pytest.param("created_at", None, ("ACTIVE", False, ""), id="no time"),
        pytest.param("count", None, ("ACTIVE", True, NO_COUNT), id="no count"),
        pytest.param("count", "two", ("ACTIVE", True, NO_COUNT), id="text"),
    ],
)
def test_an_answer_can_lack_a_field_of_one_pool(
    sim: Simulator, field: str, instead: str | None, read: tuple[str, bool, str]
) -> None:
    """As the product's own adapter reads it; the other pools stay as they are."""
    config = sim.live.config
    cloud = CivoCloud(sim.url, KEY, config.region, config.cluster.id)
    before = cloud.look()
    ask(sim, {"kind": "partial", "pool": GPU_POOL, "field": field, "instead": instead})
    found = cloud.look()
    [instance, *_] = found.pop(GPU_POOL).instances
    assert (instance.status, instance.created_at is not None, cloud.look()[GPU_POOL].unreadable) == read
    assert found == {pool: shown for pool, shown in before.items() if pool != GPU_POOL}
    requests.delete(f"{sim.url}/_faults", timeout=60)
    assert cloud.look() == before
    cloud.close()


def test_a_gpu_may_never_appear(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "gpu_never", "pool": GPU_POOL})
    civo.resize(2)
    sim.live.turn(timedelta(hours=1))
    nodes = requests.get(f"{sim.url}/_state", timeout=60).json()["nodes"]
    assert sorted((n["ready"], n["gpus"].get("nvidia.com/gpu")) for n in nodes if n["gpus"]) == [(True, 1)]
    assert all(n["ready"] for n in nodes)


def test_telemetry_can_go(sim: Simulator) -> None:
    (target,) = requests.get(f"{sim.url}/sd/dcgm", timeout=60).json()
    path = sim.url + target["labels"]["__metrics_path__"]
    assert requests.get(path, timeout=60).status_code == 200
    ask(sim, {"kind": "telemetry_gone"})
    assert requests.get(path, timeout=60).status_code == 503
    assert requests.get(f"{sim.url}/metrics/kube-state-metrics", timeout=60).status_code == 200


@pytest.mark.parametrize("decrement, counts", [("at_once", (1, 1)), ("15m", (2, 1)), ("never", (2, 2))])
def test_a_count_may_fall_late_or_never_after_a_deletion(
    sim: Simulator, civo: Civo, decrement: str, counts: tuple[int, int]
) -> None:
    ask(sim, {"kind": "behaviour", "switches": {"decrement": decrement}})
    civo.resize(2)
    sim.live.turn(timedelta(minutes=2))
    instance = civo.pool()["instances"][0]["id"]
    civo.call("DELETE", f"{civo.cluster}/pools/{GPU_POOL}/instances/{instance}")
    soon = civo.required()
    sim.live.turn(timedelta(minutes=20))
    assert (soon, civo.required()) == counts


def test_switches_turn_back_when_faults_are_cleared(sim: Simulator, civo: Civo) -> None:
    shown = ask(sim, {"kind": "behaviour", "switches": {"list_zero_pools": True, "list_count": "actual"}})
    assert shown["world"]["behaviour"] == {"list_zero_pools": True, "list_count": "actual"}
    assert len(civo.get(f"{civo.cluster}/pools")) == 2
    cleared = requests.delete(f"{sim.url}/_faults", timeout=60).json()
    assert cleared["world"]["behaviour"] == {}
    assert len(civo.get(f"{civo.cluster}/pools")) == 1


def test_a_right_can_be_taken_away(sim: Simulator) -> None:
    ask(sim, {"kind": "deny", "right": "list nodes"})
    assert requests.get(f"{sim.url}/api/v1/nodes", timeout=60).status_code == 403


@pytest.mark.parametrize(
    "fault, error",
    [
        ({"kind": "explosion"}, "kind: 'explosion' is none of"),
        ({"kind": "error", "path": "("}, "path: is no regular expression"),
        ({"kind": "error", "times": 0}, "times: must be at least 1"),
        ({"kind": "error", "oops": 1}, "oops: Extra inputs"),
        ({"kind": "stock"}, "size: Field required"),
        ({"kind": "stuck_building", "pool": "no"}, "pool: 'no' is none of"),
        ({"kind": "behaviour", "switches": {"decrement": "soon"}}, "switches.decrement: "),
    ],
)
def test_a_fault_that_is_none_is_refused_with_its_reason(sim: Simulator, fault: dict[str, Any], error: str) -> None:
    response = requests.post(f"{sim.url}/_faults", json=fault, timeout=60)
    assert response.status_code == 400
    assert any(e.startswith(error) for e in response.json()["errors"]), response.text


# --- what happened ----------------------------------------------------------------------------------------


def test_the_log_counts_writes_with_body_status_and_fault(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "error", **PUT})
    civo.resize(2)
    civo.resize(2)
    assert [(p["body"]["count"], p["status"], p["fault"]) for p in puts(sim)] == [(2, 503, "error"), (2, 200, None)]
    assert civo.headers["Authorization"] not in requests.get(f"{sim.url}/_requests", timeout=60).text


def test_a_call_that_was_never_answered_has_no_status_in_the_log(sim: Simulator, civo: Civo) -> None:
    ask(sim, {"kind": "timeout", **PUT, "seconds": 0})
    with pytest.raises(requests.exceptions.ConnectionError):
        civo.resize(2)
    assert [(p["status"], p["fault"]) for p in puts(sim)] == [(None, "timeout")]


def test_kubernetes_writes_are_logged_and_reads_are_not(sim: Simulator) -> None:
    name = next(iter(sim.world.nodes))
    requests.get(f"{sim.url}/api/v1/nodes", timeout=60)
    headers = {"Content-Type": "application/merge-patch+json"}
    requests.patch(
        f"{sim.url}/api/v1/nodes/{name}", data='{"spec":{"unschedulable":true}}', headers=headers, timeout=60
    )
    found = requests.get(f"{sim.url}/_requests", params={"face": "kubernetes"}, timeout=60).json()
    assert [(e["method"], e["status"], e["body"]) for e in found] == [("PATCH", 200, {"spec": {"unschedulable": True}})]


def test_the_state_tells_waits_kills_and_money(sim: Simulator, civo: Civo) -> None:
    job = {"duration": "30s", "tolerations": [{"operator": "Exists"}]}
    answer = requests.post(
        f"{sim.url}/_jobs", json=[{"id": "a", **job}, {"id": "b", **job, "after": "2m", "duration": "1h"}], timeout=60
    )
    assert (answer.status_code, answer.json()) == (201, ["default/a-0"])
    assert requests.post(f"{sim.url}/_advance", json={"by": "3m"}, timeout=60).status_code == 200
    civo.resize(0)
    sim.live.turn(timedelta(minutes=1))
    state = requests.get(f"{sim.url}/_state", timeout=60).json()
    assert [(j["id"], j["wait_seconds"]) for j in state["finished"]] == [("a", 5.2)]
    assert [(k["pod"], k["by"]) for k in state["kills"]] == [("default/b-0", "count")]
    assert state["paid"] == {"usd": "1.29", "node_hours": 1.0}
    assert [c["code"] for c in state["charges"]] == ["kube-node-an.g1.l40s.kube.x1"]
    assert (state["pools"][0]["id"], state["pools"][0]["required"]) == (GPU_POOL, 0)


@pytest.mark.parametrize(
    "job, error",
    [
        ([{"id": "a"}], "0.duration: Field required"),
        ([{"id": "a", "duration": "1m", "x": 1}], "0.x: Extra inputs"),
        (
            [{"id": "a", "duration": "1m"}, {"id": "a", "duration": "1m", "after": "1m"}],
            "id: the job 'a'",
        ),
    ],
)
def test_a_job_that_is_none_is_refused(sim: Simulator, job: list[dict[str, Any]], error: str) -> None:
    response = requests.post(f"{sim.url}/_jobs", json=job, timeout=60)
    assert response.status_code == 400
    assert response.json()["errors"][0].startswith(error)
    assert all(not owner.startswith("Job/") for owner in owners(sim))
