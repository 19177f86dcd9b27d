"""Observe mode over HTTP: everything is decided and told, and nothing is written to Civo or to the cluster."""

from pytest_httpserver import HTTPServer

from simulator.server import Simulator
from tests.e2e.clouds import required, submit
from tests.e2e.installing import Install
from tests.e2e.payloads import a_payload
from tests.e2e.receivers import POOL
from tests.e2e.waiting import until


def test_observe_mode_says_what_it_would_do_and_writes_nothing(
    cloud: Simulator, install: Install, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/notices", method="POST").respond_with_data("")
    address = f"json://{httpserver.host}:{httpserver.port}/notices"
    receiver = install(cloud, mode="observe", tick="1s", environ={"GPU_AUTOSCALER_NOTIFY_URLS": address}).serve()
    submit(cloud)
    for _ in range(3):
        receiver.deliver(a_payload())
    receiver.until_considered()
    until(lambda: httpserver.log, "a notice")
    seen = receiver.health()["steps"]
    until(lambda: receiver.health()["steps"] >= seen + 3, "more steps over the same facts")

    (action,) = receiver.get("/api/v1/actions").json()
    assert action["outcome"]["kind"] == "observed"
    decision = receiver.get(f"/api/v1/decisions/{action['decision']}").json()
    assert (decision["verdict"], decision["from"], decision["to"], decision["pool"]) == ("grow", 0, 1, POOL)
    (notice,) = [request.get_json() for request, _ in httpserver.log]
    assert "would go 0 -> 1 nodes (observing, nothing was changed)" in notice["title"]
    assert receiver.pool()["mode"] == "observe"

    assert required(cloud) == 0
    assert {e["method"] for e in cloud.log.entries()} == {"GET"}
