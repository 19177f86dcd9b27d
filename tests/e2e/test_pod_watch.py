"""A pod that finds no room wakes the loop by itself: no alert, no tick. The open watch keeps nobody from stopping."""

from typing import Any

from simulator.server import Simulator
from tests.e2e.clouds import required, submit
from tests.e2e.installing import Install
from tests.e2e.receivers import Receiver
from tests.e2e.waiting import until

LONGEST = 15.0  # seconds; what keeps a server from stopping is killed after 20


def watching(cloud: Simulator, install: Install) -> Receiver:
    """A receiver whose watch stands."""
    receiver = install(cloud, kubernetes={"watch": True}).serve()
    until(lambda: receiver.health()["watch"] == "up", "a watch that stands")
    receiver.until_at_rest()  # a step of its own would find the pod before the watch does
    return receiver


def metric(receiver: Receiver, name: str) -> float:
    """Return the value of one metric without labels."""
    lines = receiver.get("/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def test_a_pod_alone_buys_a_node_and_the_open_watch_ends_with_the_server(cloud: Simulator, install: Install) -> None:
    receiver = watching(cloud, install)
    submit(cloud)
    until(lambda: required(cloud) == 1, "a node asked for")
    actions: list[dict[str, Any]] = receiver.get("/api/v1/actions").json()
    decision = receiver.get(f"/api/v1/decisions/{actions[0]['decision']}").json()
    assert (decision["verdict"], decision["evidence"]["woken_by"]) == ("grow", [])
    assert metric(receiver, "gpu_autoscaler_watch_wakes_total") == 1
    assert metric(receiver, "gpu_autoscaler_watch_up") == 1
    assert receiver.terminate(LONGEST) == 0
    assert "Traceback" not in receiver.said()
