"""Observe mode over HTTP: everything is decided and told, and nothing is written to Civo or to the cluster."""

from pytest_httpserver import HTTPServer

from simulator.server import Simulator
from tests.e2e.clouds import a_cloud, required, submit
from tests.e2e.installing import Install
from tests.e2e.receivers import POOL, a_pool
from tests.e2e.waiting import until
from tests.payloads import a_payload, heartbeat


def test_observe_mode_says_what_it_would_do_and_writes_nothing(
    cloud: Simulator, install: Install, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/notices", method="POST").respond_with_data("")
    address = f"json://{httpserver.host}:{httpserver.port}/notices"
    receiver = install(cloud, mode="observe", tick="1s", environ={"GPU_AUTOSCALER_NOTIFY_URLS": address}).serve()
    submit(cloud)
    submit(cloud, "too-large", gpus_per_pod=9)  # in act mode its owner is told by an Event
    for _ in range(3):
        receiver.deliver(a_payload())
    receiver.until_considered()
    until(lambda: len(httpserver.log) == 2, "a notice of the growth and one of the misfit")
    seen = receiver.health()["steps"]
    until(lambda: receiver.health()["steps"] >= seen + 3, "more steps over the same facts")

    (action,) = receiver.get("/api/v1/actions").json()
    assert action["outcome"]["kind"] == "observed"
    decision = receiver.get(f"/api/v1/decisions/{action['decision']}").json()
    assert (decision["verdict"], decision["from"], decision["to"], decision["pool"]) == ("grow", 0, 1, POOL)
    titles = sorted(request.get_json()["title"] for request, _ in httpserver.log)
    assert titles == [
        "GPU pool l40s: would go 0 -> 1 nodes (observing, nothing was changed)",
        "No GPU pool can hold ml/too-large-0",
    ]
    assert receiver.pool()["mode"] == "observe"

    assert required(cloud) == 0
    assert {e["method"] for e in cloud.log.entries()} == {"GET"}


def test_observe_mode_removes_no_idle_node(install: Install) -> None:
    with a_cloud(count=1) as cloud:
        by_the_second, pools = {"granularity": "1s"}, [a_pool(idle_for="1s")]
        receiver = install(cloud, mode="observe", tick="1s", billing=by_the_second, pools=pools).serve()
        receiver.deliver(heartbeat())
        until(lambda: receiver.get("/api/v1/actions").json(), "an action")
        seen = receiver.health()["steps"]
        until(lambda: receiver.health()["steps"] >= seen + 3, "more steps over the same facts")

        (action,) = receiver.get("/api/v1/actions").json()
        assert (action["kind"], action["outcome"]["kind"]) == ("retire", "observed")
        assert receiver.rows("SELECT title FROM outbox") == [
            ("GPU pool l40s: would go 1 -> 0 nodes (observing, nothing was changed)",)
        ]
        assert required(cloud) == 1
        assert {e["method"] for e in cloud.log.entries()} == {"GET"}
