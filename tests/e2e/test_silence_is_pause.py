"""A silence set with amtool pauses the pool, says who and until when, and at its end the pool goes on by itself."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from demo.processes import free_port
from receiver.adapters.clock import SystemClock
from simulator.server import Simulator
from tests.e2e.alertmanagers import amtool, an_alertmanager
from tests.e2e.clouds import required, submit, until_running
from tests.e2e.installing import Install
from tests.e2e.receivers import Receiver
from tests.e2e.waiting import until
from tests.payloads import a_payload

SILENCE = ("--author=alice", "--comment=replacing the driver", "component=gpu-autoscaler", "pool=l40s")


def last_decision(receiver: Receiver) -> dict[str, Any]:
    """The decision that is in force for the pool."""
    found: dict[str, Any] = receiver.get(f"/api/v1/decisions/{receiver.pool()['decision']}").json()
    return found


def test_a_silence_holds_the_pool_says_whose_it_is_and_lets_it_go_on_at_its_end(
    cloud: Simulator, install: Install, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    receiver = install(cloud, alertmanager={"urls": [url]})
    alertmanager = an_alertmanager(1, port, receiver, tmp_path)
    try:
        alertmanager.spawn()
        alertmanager.wait_ready()
        receiver.serve()
        number = amtool(url, "silence", "add", "--duration=1h", *SILENCE)
        submit(cloud)
        receiver.deliver(a_payload())
        until(lambda: receiver.pool()["held_by"] == ["not_silenced"], "a growth that is held")

        pool, decision = receiver.pool(), last_decision(receiver)
        over = datetime.fromisoformat(pool["silence"].pop("until"))
        assert pool["silence"] == {"id": number, "by": "alice", "comment": "replacing the driver", "more": 0}
        sentence = f"silenced in Alertmanager by alice until {over:%Y-%m-%d %H:%M} UTC: replacing the driver"
        assert pool["silenced_by"] == sentence
        held = [r for r in decision["reasons"] if r["verdict"] == "holds"]
        assert [(r["rule"], r["detail"]) for r in held] == [("not_silenced", sentence)]
        assert datetime.fromisoformat(pool["reconsider_at"]) <= over
        assert required(cloud) == 0

        over = SystemClock().now() + timedelta(seconds=5)
        amtool(url, "silence", "update", f"--end={over.isoformat()}", number)  # a duration counts from its start
        receiver.deliver(a_payload())
        until_running(cloud)  # no alert after that and no tick: the end of the silence alone
        assert SystemClock().now() >= over
        until(lambda: receiver.pool()["silenced_by"] is None, "a pool that says that it is not silenced")
        assert receiver.pool()["silence"] is None
    finally:
        alertmanager.stop()
