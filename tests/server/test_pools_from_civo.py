"""A server whose file leaves its pools to Civo: complete once Civo answered, and after a restart without Civo."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from receiver.server.bootstrap import EXTENSION, Running, create_app, stop
from simulator.http_faults import HttpFault
from simulator.server import Simulator
from tests.config.builders import ENVIRONMENT, one_pool
from tests.simulator.builders import CLUSTER, GPU_POOL, KEY, starting
from tests.web.builders import a_payload

QUIET = "kubernetes: {enabled: false}\nwarm_up: 0s\n"
MINIMAL = one_pool(top=QUIET, pool=f"\n  - {{civo_pool_id: {GPU_POOL}, max_nodes: 4}}\n")


class Started:
    """One start of the application on *simulator*; no thread runs but the one that opened the store."""

    def __init__(self, folder: Path, simulator: Simulator, text: str = MINIMAL, cluster: str = CLUSTER) -> None:
        file = folder / "config.yaml"
        file.write_text(text)
        self.app = create_app(
            {
                **ENVIRONMENT,
                "CIVO_API_KEY": KEY,
                "CIVO_CLUSTER_ID": cluster,
                "CIVO_API_URL": simulator.url,
                "GPU_AUTOSCALER_CONFIG": str(file),
                "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{folder}/store.db",
            }
        )
        self.running: Running = self.app.extensions[EXTENSION]

    def read(self) -> None:
        """Let Civo be asked once, and what it said be taken."""
        self.running.pools.look()
        self.running.reloader.look()

    def get(self, path: str) -> Any:
        return self.app.test_client().get(path)

    @property
    def may_step(self) -> bool:
        return self.running.loop._terms.may_begin()


@pytest.fixture
def civo() -> Iterator[Simulator]:
    with starting() as start:
        yield start()


@pytest.fixture
def started(tmp_path: Path, civo: Simulator, own_logs: None) -> Iterator[Started]:
    found = Started(tmp_path, civo)
    yield found
    stop(found.app)


def silence(civo: Simulator) -> None:
    civo.faults.add(HttpFault(kind="error", status=503, times=None))


def test_until_civo_answers_nothing_is_decided_and_readiness_says_why(started: Started) -> None:
    assert not started.may_step
    reason = started.get("/readyz").json["reason"]
    assert reason == (f"nothing is decided until Civo has said size and GPUs of {GPU_POOL}: Civo has not answered yet")
    assert 'gpu_autoscaler_configuration_refused{part="file"} 1.0' in started.get("/metrics").text
    assert "Nothing is decided until Civo has said size and GPUs of" in started.get("/").text
    assert started.get("/healthz").status_code == 200
    assert started.get("/readyz?exclude=steps").status_code == 200
    headers = {"Authorization": f"Bearer {ENVIRONMENT['GPU_AUTOSCALER_WEBHOOK_TOKEN']}"}
    taken = started.app.test_client().post("/webhook", json=a_payload(), headers=headers)
    assert taken.status_code == 202


def test_once_civo_answered_the_pool_is_there_with_all_that_civo_says(started: Started) -> None:
    started.read()
    assert started.may_step
    assert started.get("/readyz").json["reason"] == ""
    assert 'gpu_autoscaler_configuration_refused{part="file"} 0.0' in started.get("/metrics").text
    pool = started.get("/api/v1/pools/l40s").json
    assert (pool["name"], pool["pool"], pool["size"]) == ("l40s", GPU_POOL, "an.g1.l40s.kube.x1")


def test_the_step_decides_for_the_pool_that_was_read(started: Started) -> None:
    started.read()
    started.running.loop._step(started.running.loop._clock.now())
    [pool] = started.get("/api/v1/pools").json
    assert (pool["required"], pool["max_nodes"]) == (1, 4)


def test_a_restart_without_civo_still_knows_the_pools(tmp_path: Path, civo: Simulator, started: Started) -> None:
    started.read()
    stop(started.app)
    silence(civo)
    with capture_logs() as logs:
        again = Started(tmp_path, civo)
        assert again.may_step
        again.read()
    assert again.get("/api/v1/pools/l40s").json["pool"] == GPU_POOL
    assert "configuration changed" not in {line["event"] for line in logs}
    stop(again.app)


def test_a_restart_for_another_cluster_knows_none_of_its_pools(
    tmp_path: Path, civo: Simulator, started: Started
) -> None:
    started.read()
    stop(started.app)
    silence(civo)
    again = Started(tmp_path, civo, cluster="another")
    again.read()
    assert not again.may_step
    stop(again.app)


def test_a_pool_that_an_older_answer_lacks_is_named_beside_the_silence_of_civo(
    tmp_path: Path, civo: Simulator, started: Started
) -> None:
    started.read()
    stop(started.app)
    silence(civo)
    again = Started(tmp_path, civo, f"{MINIMAL}  - {{civo_pool_id: new, max_nodes: 1}}\n")
    again.read()
    reason = again.get("/readyz").json["reason"]
    assert "the cluster has no pool new" in reason
    assert "internal_error" in reason
    stop(again.app)


def test_a_silent_civo_is_logged_once_and_named(civo: Simulator, started: Started) -> None:
    silence(civo)
    with capture_logs() as logs:
        started.read()
        started.read()
    told = [line for line in logs if line["event"] == "pools not read from Civo"]
    assert [line["detail"] for line in told] == ["nothing is decided until it answers"]
    assert "internal_error" in started.get("/readyz").json["reason"]
    assert not started.may_step


def test_a_pool_without_gpus_is_named_with_its_remedy(tmp_path: Path, civo: Simulator, own_logs: None) -> None:
    found = Started(tmp_path, civo, MINIMAL.replace(GPU_POOL, "pool-cpu"))
    found.read()
    assert not found.may_step
    assert (
        "g4s.kube.medium, the size of pool pool-cpu, has no GPU at Civo; remove the pool"
        in (found.get("/readyz").json["reason"])
    )
    stop(found.app)


def test_a_file_that_says_everything_asks_nothing(tmp_path: Path, civo: Simulator, own_logs: None) -> None:
    found = Started(tmp_path, civo, one_pool("labels: {}", "taints: []", top=QUIET))
    assert found.may_step
    assert not found.running.pools._live.asks_civo
    stop(found.app)
