"""The API server is away, comes back and has forgotten our version: the watch follows the first list that succeeds."""

import json
import re
import threading
from collections.abc import Iterator
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs
from werkzeug import Request, Response

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.metrics.process import WatchCounts, WatchState
from receiver.ports import TryLater
from receiver.runtime.pod_watcher import Lookout
from receiver.server.bootstrap.loops import lookout_of
from tests.adapters.kubernetes_objects import NODES, PODS, a_cluster_at, a_list
from tests.e2e.waiting import until


class ApiServer:
    """One that may be *away*, and that ends its first watch at once with the version to go on from."""

    def __init__(self, server: HTTPServer) -> None:
        self.away, self.ends, self.versions = False, threading.Event(), list[str]()
        for path in (NODES, PODS):
            server.expect_request(path).respond_with_handler(self._answer)
        server.expect_request(re.compile("^/apis/")).respond_with_data("no such API", status=404)

    def _answer(self, request: Request) -> Response:
        if self.away:
            return Response(status=503)
        if "watch" not in request.args:
            return Response(response=_json(a_list()), content_type="application/json")
        self.versions.append(request.args["resourceVersion"])
        if len(self.versions) == 1:
            bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "7"}}
            return Response(_json({"type": "BOOKMARK", "object": bookmark}))
        if self.versions[-1] != "0":
            return Response(_json({"kind": "Status", "message": "too old"}), status=410)
        return Response(self._silence(), content_type="application/json")

    def _silence(self) -> Iterator[str]:
        yield " "
        self.ends.wait(20)


def _json(value: Any) -> str:
    return f"{json.dumps(value)}\n"


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    found = a_cluster_at(httpserver.url_for(""))
    yield found
    found.close()


@pytest.fixture
def lookout(cluster: KubernetesCluster) -> Iterator[Lookout]:
    configuration = SimpleNamespace(kubernetes=SimpleNamespace(watch=True))
    outside: Any = SimpleNamespace(
        sources=SimpleNamespace(cluster=cluster),
        settings=SimpleNamespace(configuration=configuration),
        instruments=SimpleNamespace(watch=WatchCounts()),
    )
    loop: Any = SimpleNamespace(leading=True, wake=lambda: None)
    found = lookout_of(outside, loop)
    assert found is not None
    found._wait = lambda _: 60.0  # as after some failures
    yield found
    found.stop()


def test_the_watch_is_back_within_five_seconds_of_the_first_list(
    httpserver: HTTPServer, cluster: KubernetesCluster, lookout: Lookout
) -> None:
    server = ApiServer(httpserver)
    with capture_logs():
        lookout.start()
        until(lambda: server.versions == ["0"] and lookout._counts.state is WatchState.DOWN, "a watch that ended")
        server.away = True
        with pytest.raises(TryLater):
            cluster.look()
        server.away, began = False, monotonic()
        cluster.look()
        until(lambda: lookout._counts.state is WatchState.UP and len(server.versions) == 3, "a watch that stands")
    assert monotonic() - began < 5
    assert server.versions == ["0", "7", "0"]
    server.ends.set()
