"""How Civo is asked to resize a pool or to delete an instance, on the wire.

When a count is sent is promised by the port: tests/contracts/test_cloud.py.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import requests
from pytest_httpserver import HTTPServer
from urllib3 import Timeout

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import Calls
from receiver.ports import Did, TryLater, WontWork
from tests.adapters.civo.answers import (
    CLUSTER,
    CLUSTER_PATH,
    KEY,
    POOL,
    POOL_PATH,
    a_cloud,
    a_cluster,
    a_pool,
    an_instance,
)
from tests.adapters.wire import came, hanging_server, requests_sent

INSTANCE = an_instance(1)["id"]
INSTANCE_PATH = f"{POOL_PATH}/instances/{INSTANCE}"


@pytest.fixture
def cloud(httpserver: HTTPServer) -> Iterator[CivoCloud]:
    adapter = a_cloud(httpserver.url_for(""))
    yield adapter
    adapter.close()


def required(httpserver: HTTPServer, *counts: int) -> None:
    """Answer successive reads of the cluster with these required counts."""
    for count in counts:
        httpserver.expect_ordered_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: count}))


def test_growth_sends_exactly_count_and_region_to_the_pool(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    required(httpserver, 1)
    httpserver.expect_ordered_request(POOL_PATH, method="PUT").respond_with_json(a_pool())
    required(httpserver, 3)
    receipt = cloud.resize(POOL, decided_on=1, target=3)
    assert (receipt.did, receipt.required) == (Did.DONE, 3)
    (put,) = requests_sent(httpserver, "PUT")
    assert put.get_json() == {"count": 3, "region": "LON1"}
    assert (put.path, put.args.to_dict()) == (POOL_PATH, {"region": "LON1"})
    assert "Content-Encoding" not in put.headers
    assert [r.method for r, _ in httpserver.log] == ["GET", "PUT", "GET"]


@pytest.mark.parametrize("count", [None, "two", -1], ids=["null", "text", "negative"])
def test_nothing_is_sent_where_the_count_of_the_pool_cannot_be_read(
    httpserver: HTTPServer, cloud: CivoCloud, count: object
) -> None:
    cluster = a_cluster({POOL: 1, "other": 1})
    cluster["required_pools"][0]["count"] = count
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(cluster)
    with pytest.raises(TryLater) as caught:
        cloud.resize(POOL, decided_on=1, target=3)
    assert caught.value.code == "malformed"
    assert not requests_sent(httpserver, "PUT")


def test_nothing_is_sent_where_the_instances_of_the_pool_cannot_be_read(
    httpserver: HTTPServer, cloud: CivoCloud
) -> None:
    cluster = a_cluster({POOL: 1}, (a_pool(an_instance(1), an_instance(2, id=None)),))
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(cluster)
    httpserver.expect_request(f"{CLUSTER_PATH}/instances").respond_with_json([])
    httpserver.expect_request(POOL_PATH, method="PUT").respond_with_json(a_pool())
    with pytest.raises(TryLater) as caught:
        cloud.resize(POOL, decided_on=1, target=3)
    assert (caught.value.code, requests_sent(httpserver, "PUT")) == ("malformed", [])


def test_another_pool_that_cannot_be_read_keeps_no_pool_from_growing(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    cluster = a_cluster({POOL: 1, "other": 1}, (a_pool(an_instance(2, id=None), pool="other"),))
    cluster["required_pools"][1]["count"] = None
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(cluster)
    httpserver.expect_request(f"{CLUSTER_PATH}/instances").respond_with_json([])
    httpserver.expect_request(POOL_PATH, method="PUT").respond_with_json(a_pool())
    assert cloud.resize(POOL, decided_on=1, target=3).did is Did.DONE


def test_a_count_that_reads_back_differently_is_told(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    required(httpserver, 1)
    httpserver.expect_ordered_request(POOL_PATH, method="PUT").respond_with_json(a_pool())
    required(httpserver, 1)
    receipt = cloud.resize(POOL, decided_on=1, target=3)
    assert (receipt.did, receipt.required) == (Did.DONE, 1)
    assert "reads 1" in receipt.sentence


def test_a_count_that_cannot_be_read_back_leaves_the_receipt_without_it(
    httpserver: HTTPServer, cloud: CivoCloud
) -> None:
    required(httpserver, 1)
    httpserver.expect_ordered_request(POOL_PATH, method="PUT").respond_with_json(a_pool())
    httpserver.expect_ordered_request(CLUSTER_PATH, method="GET").respond_with_data("down", status=400)
    receipt = cloud.resize(POOL, decided_on=1, target=3)
    assert (receipt.did, receipt.required) == (Did.DONE, None)


def test_a_put_that_times_out_is_sent_once_and_left_to_the_next_step() -> None:
    with hanging_server(POOL_PATH, "PUT") as (server, arrivals):
        server.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 1}))
        cloud = a_cloud(server.url_for(""), read_timeout=0.2)
        with pytest.raises(TryLater) as caught:
            cloud.resize(POOL, decided_on=1, target=3)
        cloud.close()
        assert came(arrivals) == ["PUT"]
    assert caught.value.code == "timeout"


@pytest.mark.parametrize(("path", "method"), [(POOL_PATH, "PUT"), (CLUSTER_PATH, "GET"), (INSTANCE_PATH, "DELETE")])
def test_a_call_that_changes_a_pool_waits_for_less_than_a_look(path: str, method: str) -> None:
    with hanging_server(path, method) as (server, arrivals):
        if method == "PUT":
            server.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 1}))
        cloud = CivoCloud(server.url_for(""), KEY, "LON1", CLUSTER, calls=Calls(timeouts=(1, 30), write_seconds=0.2))
        change = partial(cloud.retire, POOL, INSTANCE)
        if method != "DELETE":
            change = partial(cloud.resize, POOL, decided_on=1, target=3)
        began = time.monotonic()
        with pytest.raises(TryLater) as caught:
            change()
        took = time.monotonic() - began
        cloud.close()
        assert came(arrivals) == [method]
    assert caught.value.code == "timeout"
    assert took < 25  # a look may take thirty


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_a_put_is_never_repeated_on_its_own(httpserver: HTTPServer, cloud: CivoCloud, status: int) -> None:
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 1}))
    httpserver.expect_request(POOL_PATH, method="PUT").respond_with_data("down", status=status)
    with pytest.raises(TryLater) as caught:
        cloud.resize(POOL, decided_on=1, target=3)
    assert caught.value.code == f"http_{status}"
    assert len(requests_sent(httpserver, "PUT")) == 1


def test_a_put_answered_without_json_is_left_to_the_next_step(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 1}))
    httpserver.expect_request(POOL_PATH, method="PUT").respond_with_data("<html>")
    with pytest.raises(TryLater):
        cloud.resize(POOL, decided_on=1, target=3)


def test_a_pool_that_the_cluster_does_not_have_wont_work(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    required(httpserver, 1)
    with pytest.raises(WontWork, match="check civo_pool_id"):
        cloud.resize("other-pool", decided_on=1, target=3)


def test_an_instance_is_deleted_by_its_id_in_its_pool(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_json({"result": "success"})
    assert cloud.retire(POOL, INSTANCE).did is Did.DONE
    ((request, _),) = httpserver.log
    assert (request.method, request.path, request.args.to_dict()) == ("DELETE", INSTANCE_PATH, {"region": "LON1"})
    assert request.get_data() == b""


def test_a_delete_answered_with_nothing_at_all_is_done(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_data("", status=204)
    assert cloud.retire(POOL, INSTANCE).did is Did.DONE


@pytest.mark.parametrize(
    "code",
    ["database_cluster_pool_instance_not_found", "database_instance_not_found", "database_cluster_pool_not_found"],
)
def test_a_gone_instance_counts_as_retired(httpserver: HTTPServer, cloud: CivoCloud, code: str) -> None:
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_json({"code": code}, status=404)
    assert cloud.retire(POOL, INSTANCE).did is Did.ALREADY


def test_a_cluster_that_is_not_found_does_not_count_as_retired(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    body = {"code": "database_kubernetes_cluster_not_found"}
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_json(body, status=404)
    with pytest.raises(WontWork, match="CIVO_CLUSTER_ID"):
        cloud.retire(POOL, INSTANCE)


def test_a_bare_404_counts_as_retired_when_the_pools_do_not_list_the_instance(
    httpserver: HTTPServer, cloud: CivoCloud
) -> None:
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_data("not found", status=404)
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 0}))
    assert cloud.retire(POOL, INSTANCE).did is Did.ALREADY


def test_a_bare_404_wont_work_while_the_pools_list_the_instance(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_data("not found", status=404)
    listed = a_cluster({POOL: 1}, (a_pool(an_instance(1)),))
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(listed)
    with pytest.raises(WontWork, match="CIVO_API_URL"):
        cloud.retire(POOL, INSTANCE)


def test_a_delete_that_times_out_is_sent_once_and_left_to_the_next_step() -> None:
    with hanging_server(INSTANCE_PATH, "DELETE") as (server, arrivals):
        cloud = a_cloud(server.url_for(""), read_timeout=0.2)
        with pytest.raises(TryLater) as caught:
            cloud.retire(POOL, INSTANCE)
        cloud.close()
        assert came(arrivals) == ["DELETE"]
    assert caught.value.code == "timeout"


@pytest.mark.parametrize("bad", ["", "..", "a/b", "../instances", "a?b", "a b", "%2e%2e"])
def test_an_id_that_could_change_the_path_is_never_sent(httpserver: HTTPServer, cloud: CivoCloud, bad: str) -> None:
    with pytest.raises(WontWork):
        cloud.retire(POOL, bad)
    with pytest.raises(WontWork):
        cloud.retire(bad, INSTANCE)
    with pytest.raises(WontWork):
        cloud.resize(bad, decided_on=1, target=2)
    assert not httpserver.log


class NotOurs(Exception):
    """What the caller raises when it may not write any more."""


def _never() -> None:
    raise NotOurs


def test_the_right_to_write_is_asked_for_after_the_count_was_read_again(httpserver: HTTPServer) -> None:
    cloud = CivoCloud(httpserver.url_for(""), KEY, "LON1", CLUSTER, calls=Calls(before_write=_never))
    required(httpserver, 1)
    with pytest.raises(NotOurs):
        cloud.resize(POOL, decided_on=1, target=3)
    with pytest.raises(NotOurs):
        cloud.retire(POOL, INSTANCE)
    cloud.close()
    assert [r.method for r, _ in httpserver.log] == ["GET"]


@pytest.mark.parametrize("sends", [0, 1], ids=["before the head", "between head and body"])
def test_a_process_that_was_frozen_after_it_asked_does_not_send_what_it_was_about_to(
    sends: int, httpserver: HTTPServer
) -> None:
    """The clock is looked at once more in the instant in which the bytes leave."""
    left = [sends]

    def too_late() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise NotOurs

    cloud = CivoCloud(
        httpserver.url_for(""), KEY, "LON1", CLUSTER, calls=Calls(before_write=lambda: None, last_word=too_late)
    )
    required(httpserver, 1, 1)
    with pytest.raises(NotOurs):
        cloud.resize(POOL, decided_on=1, target=3)
    cloud.look()  # what reads is not looked at, and finds a connection
    cloud.close()
    assert {r.method for r, _ in httpserver.log} == {"GET"}


def test_the_limit_of_a_write_is_for_connecting_and_for_the_answer_together(httpserver: HTTPServer) -> None:
    """A takeover waits no longer than that for a write that a former leader began."""
    seen: list[Timeout] = []

    class Session(requests.Session):
        def request(self, *given: Any, **options: Any) -> requests.Response:
            seen.append(options["timeout"])
            return super().request(*given, **options)

    cloud = CivoCloud(
        httpserver.url_for(""), KEY, "LON1", CLUSTER, Session(), calls=Calls(timeouts=(5, 30), write_seconds=8)
    )
    httpserver.expect_request(INSTANCE_PATH, method="DELETE").respond_with_json({"result": "success"})
    cloud.retire(POOL, INSTANCE)
    cloud.close()
    assert [(limit.connect_timeout, limit.total) for limit in seen] == [(5, 8)]


def test_a_write_that_is_not_too_late_is_sent_through_the_same_door(httpserver: HTTPServer) -> None:
    asked: list[str] = []
    cloud = CivoCloud(
        httpserver.url_for(""), KEY, "LON1", CLUSTER, calls=Calls(last_word=lambda: asked.append("asked"))
    )
    required(httpserver, 1)
    httpserver.expect_ordered_request(POOL_PATH, method="PUT").respond_with_json(a_pool())
    required(httpserver, 3)
    assert cloud.resize(POOL, decided_on=1, target=3).did is Did.DONE
    cloud.close()
    assert [r.method for r, _ in httpserver.log] == ["GET", "PUT", "GET"]
    assert asked
