"""Never do two loops write: a second server on the same store waits, says so, and leads when the first is gone."""

from simulator.server import Simulator
from tests.e2e.clouds import calls, required, submit, until_running
from tests.e2e.installing import Install
from tests.e2e.waiting import until
from tests.payloads import a_payload


def test_a_second_server_on_the_store_waits_and_leads_when_the_first_is_killed(
    cloud: Simulator, install: Install
) -> None:
    first, second = (install(cloud, name, tick="1s") for name in ("first", "second"))
    first.serve()
    second.start().until_loop("waiting")

    submit(cloud)
    second.deliver(a_payload())
    first.until_considered()
    until_running(cloud)
    assert (first.health()["loop"], second.health()["loop"]) == ("leading", "waiting")
    assert second.health()["steps"] == 0
    assert second.get("/healthz").status_code == 200
    assert second.log("waiting")[0]["detail"].startswith("another loop holds the store's writer lock")

    first.server.kill()
    second.until_loop("leading")
    until(lambda: second.health()["steps"] >= 2, "steps of the new leader")
    second.deliver(a_payload())
    second.until_considered()
    assert [c["body"]["count"] for c in calls(cloud, "PUT")] == [1]
    assert required(cloud) == 1
