"""The first start on a cluster changes nothing for a while and says what it would do; a restart need not wait again."""

from simulator.server import Simulator
from tests.e2e.clouds import calls, required, submit
from tests.e2e.installing import Install
from tests.e2e.waiting import until
from tests.payloads import a_payload

WRITES = "PUT|POST|DELETE|PATCH"


def written(cloud: Simulator) -> list[str]:
    """Every write that Civo or the cluster got."""
    return [f"{c['method']} {c['path']}" for c in cloud.log.entries() if c["method"] in WRITES]


def test_a_new_store_looks_for_a_while_and_a_restart_does_not(cloud: Simulator, install: Install) -> None:
    receiver = install(cloud, warm_up="5m").serve()
    submit(cloud)
    receiver.deliver(a_payload())
    receiver.until_considered()
    assert receiver.rows("SELECT outcome FROM actions") == [("observed",)]
    assert written(cloud) == []
    assert len(receiver.log("warming up")) == 1
    assert receiver.log("step")[-1]["mode"] == "observe"

    receiver.server.kill()
    again = install(cloud, "again", warm_up="1s").serve()
    again.deliver(a_payload())
    until(lambda: required(cloud) == 1, "what was only told is done once the store is old enough")
    assert len(calls(cloud, "PUT")) == 1
