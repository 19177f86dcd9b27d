"""Two Alertmanagers that do not know of each other send the same group at once: one PUT."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import requests

from demo.processes import free_port
from simulator.server import Simulator
from tests.e2e.alertmanagers import an_alertmanager
from tests.e2e.clouds import calls, required, submit, until_running
from tests.e2e.installing import Install
from tests.e2e.waiting import until
from tests.payloads import an_alert


def _raise_alert(url: str) -> int:
    """Send one alert as Prometheus does; return the answer's status."""
    given: dict[str, Any] = an_alert(namespace="gpu-autoscaler", severity="warning")
    body = [{k: given[k] for k in ("labels", "annotations", "startsAt", "generatorURL")}]
    return requests.post(f"{url}/api/v2/alerts", json=body, timeout=60).status_code


def test_two_alertmanagers_that_send_the_same_group_at_once_buy_one_node(
    cloud: Simulator, install: Install, tmp_path: Path
) -> None:
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    receiver = install(cloud, alertmanager={"urls": urls})
    with ExitStack() as ends, ThreadPoolExecutor(2) as threads:
        peers = [an_alertmanager(n, port, receiver, tmp_path) for n, port in enumerate(ports)]
        for peer in peers:
            ends.callback(peer.stop)
            peer.spawn()
        receiver.serve()
        for peer in peers:
            peer.wait_ready()
        submit(cloud)
        assert list(threads.map(_raise_alert, urls)) == [200, 200]
        until(lambda: receiver.rows("SELECT count(*) FROM deliveries") == [(2,)], "a delivery of each")
        receiver.until_considered()
        until_running(cloud)
        fingerprints = receiver.rows("SELECT delivery, fingerprint FROM alerts ORDER BY delivery")
        assert [d for d, _ in fingerprints] == [1, 2]
        assert len({f for _, f in fingerprints}) == 1
        assert [c["body"]["count"] for c in calls(cloud, "PUT")] == [1]
        assert required(cloud) == 1
