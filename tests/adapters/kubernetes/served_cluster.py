"""A cluster whose API server shows what a test says, and what the adapter reads and asks of it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.core.model.pods import Pod
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, PODS_OF_ML, a_cluster_at, a_list


@contextmanager
def served_cluster(httpserver: HTTPServer, *pods: dict[str, Any], **lists: Any) -> Iterator[KubernetesCluster]:
    """Serve *pods*, and *lists* of custom resources by path; what is not given is not served."""
    httpserver.expect_request(NODES).respond_with_json(a_list())
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))
    for path, objects in lists.pop("served", {}).items():
        httpserver.expect_request(path).respond_with_json(a_list(*objects))
    httpserver.expect_request(PODS_OF_ML).respond_with_json(a_list(*lists.pop("finished", ())))
    httpserver.expect_request(re.compile("^/apis/resource.k8s.io/")).respond_with_data("no such API", status=404)
    cluster = a_cluster_at(httpserver.url_for(""), **lists)
    try:
        yield cluster
    finally:
        cluster.close()


def requested_paths(httpserver: HTTPServer) -> list[str]:
    """The paths that the adapter requested, without those of resource.k8s.io."""
    return [request.path for request, _ in httpserver.log if "resource.k8s.io" not in request.path]


def seen_pods(httpserver: HTTPServer, *pods: dict[str, Any], **lists: Any) -> dict[str, Pod]:
    """The pods that the adapter sees, by name."""
    with served_cluster(httpserver, *pods, **lists) as cluster:
        return {p.name: p for p in cluster.look().pods}
