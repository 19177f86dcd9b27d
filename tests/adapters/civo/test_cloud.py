"""What `CivoCloud` makes of its key, its session and answers that are none; what it reports of a call."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from pytest_httpserver import HTTPServer

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import Calls
from receiver.ports import Did, TryLater, WontWork
from tests.adapters.civo.answers import CLUSTER, CLUSTER_PATH, POOL, POOL_PATH, a_cloud, a_cluster, a_pool, an_instance
from tests.adapters.wire import requests_sent

INSTANCE = an_instance()["id"]
INSTANCE_PATH = f"{POOL_PATH}/instances/{INSTANCE}"


@pytest.fixture
def cloud(httpserver: HTTPServer) -> Iterator[CivoCloud]:
    adapter = a_cloud(httpserver.url_for(""))
    yield adapter
    adapter.close()


def serve(httpserver: HTTPServer, count: int = 1) -> None:
    """Serve a cluster that requires *count* nodes of the pool."""
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: count}))


def test_each_request_has_the_key_that_is_valid_then(httpserver: HTTPServer) -> None:
    keys = ["old"]
    serve(httpserver)
    cloud = CivoCloud(httpserver.url_for(""), lambda: keys[0], "LON1", CLUSTER)
    cloud.look()
    keys[0] = "new"
    cloud.look()
    cloud.close()
    sent = [request.headers["Authorization"] for request in requests_sent(httpserver, "GET")]
    assert sent == ["bearer old", "bearer new"]


class ASession(requests.Session):
    """Notes that it was closed."""

    closed = False

    def close(self) -> None:
        """Close, and note it."""
        super().close()
        self.closed = True


def test_a_session_that_is_given_is_used_as_it_is_and_closed(httpserver: HTTPServer) -> None:
    session, mounted = ASession(), dict(ASession().adapters)
    serve(httpserver)
    cloud = CivoCloud(
        httpserver.url_for(""), "key", "LON1", CLUSTER, session=session, calls=Calls(last_word=lambda: None)
    )
    cloud.look()
    assert [type(adapter) for adapter in session.adapters.values()] == [type(each) for each in mounted.values()]
    cloud.close()
    assert session.closed


def test_a_count_that_reads_back_as_it_was_sent_needs_no_word(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_ordered_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 1}))
    httpserver.expect_ordered_request(POOL_PATH, method="PUT").respond_with_json(a_pool())
    httpserver.expect_ordered_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 3}))
    receipt = cloud.resize(POOL, decided_on=1, target=3)
    assert (receipt.did, receipt.sentence) == (Did.DONE, "requested 3 nodes from Civo instead of 1")


@pytest.mark.parametrize("readable", [True, False])
def test_an_instance_is_gone_only_where_every_pool_can_be_read(
    httpserver: HTTPServer, cloud: CivoCloud, readable: bool
) -> None:
    """A 404 without Civo's code may come from a wrong URL."""
    other = an_instance(2) if readable else an_instance(2, id=None)
    pools = (a_pool(an_instance(3)), a_pool(other, pool="other"))
    httpserver.expect_request(CLUSTER_PATH).respond_with_json(a_cluster({POOL: 1, "other": 1}, pools))
    httpserver.expect_request(f"{CLUSTER_PATH}/instances").respond_with_json([])
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_data("not found", status=404)
    if readable:
        assert cloud.retire(POOL, INSTANCE).did is Did.ALREADY
        return
    with pytest.raises(WontWork) as refused:
        cloud.retire(POOL, INSTANCE)
    assert refused.value.code == "http_404"


def test_a_redirection_is_no_answer(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_json(a_cluster(), status=300)
    with pytest.raises(WontWork) as refused:
        cloud.look()
    assert refused.value.code == "http_300"


def test_a_write_that_is_to_be_sent_later_keeps_no_read_back(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    serve(httpserver)
    later = {"Retry-After": "60"}
    httpserver.expect_request(POOL_PATH, method="PUT").respond_with_data("down", status=503, headers=later)
    with pytest.raises(TryLater):
        cloud.resize(POOL, decided_on=1, target=3)
    assert cloud.look()[POOL].required == 1


@pytest.mark.parametrize("content", ["", "<html>"], ids=["empty", "a page"])
def test_a_read_without_json_is_malformed(httpserver: HTTPServer, cloud: CivoCloud, content: str) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_data(content)
    with pytest.raises(TryLater) as refused:
        cloud.look()
    assert refused.value.code == "malformed"


def test_a_growth_that_is_answered_with_nothing_is_not_taken_for_accepted(
    httpserver: HTTPServer, cloud: CivoCloud
) -> None:
    serve(httpserver)
    httpserver.expect_request(POOL_PATH, method="PUT").respond_with_data("")
    with pytest.raises(TryLater) as refused:
        cloud.resize(POOL, decided_on=1, target=3)
    assert refused.value.code == "malformed"


def test_a_deletion_may_be_answered_with_nothing_and_not_with_a_page(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_oneshot_request(INSTANCE_PATH, method="DELETE").respond_with_data("")
    assert cloud.retire(POOL, INSTANCE).did is Did.DONE
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_data("<html>")
    with pytest.raises(TryLater) as refused:
        cloud.retire(POOL, INSTANCE)
    assert refused.value.code == "malformed"


def test_a_call_is_reported_with_the_seconds_that_it_took(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, calls = iter([100.0, 101.5]), list[Any]()
    monkeypatch.setattr("receiver.adapters.civo.cloud.monotonic", lambda: next(clock))
    serve(httpserver)
    cloud = CivoCloud(
        httpserver.url_for(""), "key", "LON1", CLUSTER, calls=Calls(ended=lambda *call: calls.append(call))
    )
    cloud.look()
    cloud.close()
    assert calls == [("GET", "ok", 1.5)]
