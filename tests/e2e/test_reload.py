"""A changed configuration takes effect while webhooks arrive and steps run: nothing is lost, and no step fails."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from simulator.server import Simulator
from tests.e2e.installing import Install
from tests.e2e.receivers import Receiver, a_pool
from tests.e2e.waiting import until
from tests.payloads import a_payload

CLIENTS = 3
REFUSED = 'gpu_autoscaler_configuration_refused{part="file"}'


@contextmanager
def deliveries(receiver: Receiver) -> Iterator[list[Any]]:
    """Deliver without a pause from several clients until the block ends; yield the answers."""
    answers: list[Any] = []
    over = threading.Event()

    def deliver() -> None:
        while not over.is_set():
            answers.append(receiver.post(a_payload()))
            over.wait(0.02)

    clients = [threading.Thread(target=deliver) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield answers
    finally:
        over.set()
        for client in clients:
            client.join()


def metric(receiver: Receiver, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", receiver.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_good_bad_and_half_written_files_under_load(cloud: Simulator, install: Install) -> None:
    receiver = install(cloud, tick="1s").serve()
    file = Path(receiver.environ["GPU_AUTOSCALER_CONFIG"])
    said = yaml.safe_load(file.read_text())

    def with_most(nodes: int) -> str:
        return yaml.safe_dump({**said, "pools": [a_pool(max_nodes=nodes)]})

    def swap(text: str) -> None:
        """Put *text* in place at once, as the kubelet does."""
        other = file.with_name("other.yaml")
        other.write_text(text)
        other.replace(file)

    with deliveries(receiver) as answers:
        swap(with_most(6))
        until(lambda: receiver.pool()["max_nodes"] == 6, "a step with the new file")
        swap("modus: act\n")
        until(lambda: metric(receiver, REFUSED) == 1, "a refused file")
        receiver.server.signal(signal.SIGHUP)
        half = with_most(5)
        file.write_text(half[: half.index("max_nodes")])
        until(lambda: len(receiver.log("configuration refused")) == 2, "a refused half")
        assert receiver.pool()["max_nodes"] == 6
        file.write_text(half)
        until(lambda: receiver.pool()["max_nodes"] == 5, "a step with the whole file")
        until(lambda: metric(receiver, REFUSED) == 0, "an accepted file")

    receiver.until_considered()
    assert {answer.status_code for answer in answers} == {202}
    assert {row[0] for row in receiver.rows("SELECT id FROM deliveries")} == {a.json()["delivery"] for a in answers}
    assert metric(receiver, "gpu_autoscaler_loop_errors_total") == 0
    assert [line["changes"] for line in receiver.log("configuration changed")] == [
        ["pools.l40s.max_nodes 8 -> 6"],
        ["pools.l40s.max_nodes 6 -> 5"],
    ]
    assert len(re.findall("Booting worker", receiver.said())) == 1
    assert "Traceback" not in receiver.said()
