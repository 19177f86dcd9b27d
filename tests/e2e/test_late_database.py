"""PostgreSQL that starts after the server: it waits, says so, loses nothing it has answered for, and then works."""

import pytest

from simulator.server import Simulator
from tests.adapters.store.builders import PostgresServer, postgres_process, postgres_programs
from tests.e2e.installing import Install
from tests.e2e.waiting import until
from tests.payloads import a_payload

PROGRAMS = postgres_programs()


@pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL's initdb is not installed")
def test_a_database_that_comes_later_is_waited_for_told_of_and_migrated(cloud: Simulator, install: Install) -> None:
    assert PROGRAMS is not None
    with postgres_process(PROGRAMS) as database:
        receiver = install(cloud, environ={"GPU_AUTOSCALER_DATABASE_URL": database.url}).start()
        until(lambda: receiver.get("/healthz").status_code == 200, "a server that listens")
        assert receiver.health()["loop"] == "starting"
        ready = receiver.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["reason"].startswith("store: not open since this process started: connection failed")
        refused = receiver.post(a_payload())
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert 'gpu_autoscaler_source_up{source="store"} 0.0' in receiver.get("/metrics").text
        assert "does not answer" in receiver.get("/").text
        database.start()
        receiver.until_loop("leading")
        assert receiver.get("/readyz").status_code == 200
        number = receiver.deliver(a_payload())
        server = PostgresServer(database.url)
        server.run(f"DO $$ BEGIN ASSERT (SELECT id FROM deliveries) = {number}; END $$")
        server.close()
        assert receiver.terminate(20) == 0
    assert "Traceback" not in receiver.said()
    assert "Connection refused" in receiver.log("store not open")[0]["error"]
