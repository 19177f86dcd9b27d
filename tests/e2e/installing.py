"""Receivers installed for a simulated cloud, beside a Prometheus that only beats; all of them end together."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from simulator.server import Simulator
from tests.e2e.receivers import Receiver, a_pool

NEVER = "5m"  # the longest tick there is does not come during a test: what happens, happens because of a webhook
UNWATCHED = {"watch": False}  # and not because the API server told of a pod


class Install(Protocol):
    """Install a receiver for *cloud*; `Receiver.serve` starts it. Keyword arguments are configuration keys."""

    def __call__(
        self, cloud: Simulator, name: str = "receiver", environ: Mapping[str, str] | None = None, **config: Any
    ) -> Receiver:
        """Return the receiver. All of one folder share a store."""


@contextmanager
def installing(folder: Path, prometheus: str) -> Iterator[Install]:
    """Yield what installs receivers below *folder*; every process of theirs is ended at the end."""
    with ExitStack() as ends:

        def install(
            cloud: Simulator, name: str = "receiver", environ: Mapping[str, str] | None = None, **config: Any
        ) -> Receiver:
            said = {"mode": "act", "tick": NEVER, "prometheus": {"url": prometheus}, "pools": [a_pool()]}
            said |= {"kubernetes": UNWATCHED, **config}
            where = {
                "CIVO_API_URL": cloud.url,
                "CIVO_CLUSTER_ID": cloud.config.cluster.id,
                "KUBECONFIG": str(cloud.kubeconfig(folder / f"kubeconfig-{name}")),
            }
            receiver = Receiver(folder / name, said, {**where, **(environ or {})}, folder / "ledger.db")
            ends.callback(receiver.end)
            return receiver

        yield install


@contextmanager
def a_beating_prometheus() -> Iterator[str]:
    """Yield the URL of a Prometheus whose rules are alive and record nothing."""
    with HTTPServer(host="127.0.0.1", port=0, threaded=True) as server:
        server.expect_request("/api/v1/query").respond_with_handler(_answer)
        yield server.url_for("").rstrip("/")


def _answer(request: Request) -> Response:
    beat = {"metric": {"alertname": "GpuAutoscalerHeartbeat", "alertstate": "firing"}, "value": [1_700_000_000, "1"]}
    result = [beat] if "GpuAutoscalerHeartbeat" in request.values.get("query", "") else []
    document = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return Response(json.dumps(document), content_type="application/json")
