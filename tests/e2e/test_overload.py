"""More than can be taken: nothing is acknowledged that was not kept, and health checks are answered meanwhile."""

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor, wait

from simulator.server import Simulator
from tests.e2e.installing import Install
from tests.e2e.waiting import until
from tests.payloads import a_payload, an_alert

SENDERS = 40  # more than the server has threads


def test_while_the_store_is_stuck_deliveries_are_told_to_come_again_health_is_told_and_the_loop_goes_on(
    cloud: Simulator, install: Install
) -> None:
    receiver = install(cloud, tick="1s").serve()
    kept = receiver.deliver(a_payload())
    with (
        contextlib.closing(sqlite3.connect(receiver.store, isolation_level=None)) as other,
        ThreadPoolExecutor(SENDERS) as senders,
    ):
        other.execute("BEGIN IMMEDIATE")
        before = receiver.health()["steps"]
        storm = [senders.submit(receiver.post, a_payload()) for _ in range(SENDERS)]
        while wait(storm, timeout=0.1).not_done:
            assert receiver.health()["status"] == "ok"
        answers = [answer.result() for answer in storm]
        assert {answer.status_code for answer in answers} == {503}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers)
        until(lambda: receiver.health()["steps"] > before, "a step while the store is stuck")
        other.execute("ROLLBACK")
    assert receiver.rows("SELECT id FROM deliveries") == [(kept,)]
    until(lambda: receiver.post(a_payload()).status_code == 202, "deliveries taken again")


def test_ten_thousand_alerts_in_one_message_are_kept(cloud: Simulator, install: Install) -> None:
    receiver = install(cloud).serve()
    alert = an_alert(workload="x" * 200)
    receiver.deliver(a_payload(*({**alert, "fingerprint": f"{n:016x}"} for n in range(10_000))))
    assert receiver.rows("SELECT count(*), count(DISTINCT fingerprint) FROM alerts") == [(10_000, 10_000)]
    receiver.until_considered()
