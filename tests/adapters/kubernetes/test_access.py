"""What `KubernetesCluster` learns of its own rights: by SelfSubjectAccessReviews, which write nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.kubernetes.api import REVIEWS
from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.ports import TryLater, WontWork, WriterLostError
from tests.adapters.kubernetes.kubernetes_objects import a_cluster_at
from tests.adapters.wire import requests_sent


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    def nobody_writes() -> None:
        raise WriterLostError("another replica leads")

    adapter = a_cluster_at(httpserver.url_for(""), before_write=nobody_writes)
    yield adapter
    adapter.close()


def answers(httpserver: HTTPServer, **said: Any) -> None:
    """Answer every review with the status *said*."""
    httpserver.expect_request(REVIEWS, method="POST").respond_with_json({"status": said}, status=201)


def test_it_asks_for_what_a_removal_needs_also_where_it_may_not_write(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    answers(httpserver, allowed=True)
    assert cluster.missing_rights() == ()
    asked = [sent.get_json(force=True)["spec"]["resourceAttributes"] for sent in requests_sent(httpserver, "POST")]
    assert asked == [
        {"verb": "get", "group": "", "resource": "nodes"},
        {"verb": "patch", "group": "", "resource": "nodes"},
        {"verb": "create", "group": "", "resource": "pods", "subresource": "eviction"},
    ]


def test_each_right_that_is_refused_is_named(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    def answer(request: Request) -> Response:
        asked = request.get_json(force=True)["spec"]["resourceAttributes"]
        return Response(f'{{"status": {{"allowed": {str(asked["verb"] == "get").lower()}}}}}', 201)

    httpserver.expect_request(REVIEWS, method="POST").respond_with_handler(answer)
    assert cluster.missing_rights() == ("patch nodes", "create pods/eviction")


@pytest.mark.parametrize(
    ("said", "words"),
    [({"allowed": False, "evaluationError": "webhook is down"}, "webhook is down"), ({}, "did not answer")],
    ids=["an authorizer failed", "no verdict"],
)
def test_what_could_not_be_worked_out_is_no_refusal(
    httpserver: HTTPServer, cluster: KubernetesCluster, said: Mapping[str, Any], words: str
) -> None:
    answers(httpserver, **said)
    with pytest.raises(TryLater, match=words):
        cluster.missing_rights()


def test_a_refusal_in_spite_of_an_authorizer_that_failed_is_one(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    answers(httpserver, allowed=False, denied=True, evaluationError="another webhook is down")
    assert "patch nodes" in cluster.missing_rights()


def test_who_may_not_even_ask_is_told_so(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(REVIEWS, method="POST").respond_with_json({"message": "no"}, status=403)
    with pytest.raises(WontWork, match="selfsubjectaccessreviews"):
        cluster.missing_rights()
