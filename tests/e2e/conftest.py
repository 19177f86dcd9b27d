"""A simulated cloud, a Prometheus that only beats, and receivers as processes; all of them end with the test."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from simulator.server import Simulator
from tests.e2e.clouds import a_cloud
from tests.e2e.receivers import Receiver, a_pool

NEVER = "1h"  # a tick that does not come during a test: what happens, happens because of a webhook

StartReceiver = Callable[..., Receiver]


def _answer(request: Request) -> Response:
    """Say that the rules are evaluated, and nothing else."""
    beat = {"metric": {"alertname": "GpuAutoscalerHeartbeat", "alertstate": "firing"}, "value": [1_700_000_000, "1"]}
    result = [beat] if "GpuAutoscalerHeartbeat" in request.values.get("query", "") else []
    document = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return Response(json.dumps(document), content_type="application/json")


@pytest.fixture(scope="session")
def prometheus() -> Iterator[str]:
    """The URL of a Prometheus whose rules are alive and record nothing."""
    with HTTPServer(host="127.0.0.1", port=0, threaded=True) as server:
        server.expect_request("/api/v1/query").respond_with_handler(_answer)
        yield server.url_for("").rstrip("/")


@pytest.fixture
def cloud() -> Iterator[Simulator]:
    """A cloud with one pool at zero nodes."""
    with a_cloud() as simulator:
        yield simulator


@pytest.fixture
def install(tmp_path: Path, prometheus: str) -> Iterator[StartReceiver]:
    """Install receivers (`Receiver.start` starts one) for a cloud; keyword arguments are configuration keys."""
    with ExitStack() as ends:

        def one(
            cloud: Simulator, name: str = "receiver", environ: Mapping[str, str] | None = None, **config: Any
        ) -> Receiver:
            said = {"mode": "act", "tick": NEVER, "prometheus": {"url": prometheus}, "pools": [a_pool()], **config}
            where = {
                "CIVO_API_URL": cloud.url,
                "CIVO_CLUSTER_ID": cloud.config.cluster.id,
                "KUBECONFIG": str(cloud.kubeconfig(tmp_path / f"kubeconfig-{name}")),
            }
            receiver = Receiver(tmp_path / name, said, {**where, **(environ or {})}, tmp_path / "ledger.db")
            ends.callback(receiver.end)
            return receiver

        yield one


@pytest.fixture
def receiver(cloud: Simulator, install: StartReceiver) -> Receiver:
    """A receiver that leads and has stepped once."""
    return install(cloud).serve()
