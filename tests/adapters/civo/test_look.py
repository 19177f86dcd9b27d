"""What `CivoCloud.look` makes of the cluster object."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.clock import SystemClock
from receiver.ports import TryLater
from tests.adapters.civo.answers import (
    CLUSTER_PATH,
    KEY,
    POOL,
    SECRETS,
    SIZE,
    a_cloud,
    a_cluster,
    a_pool,
    an_instance,
)
from tests.adapters.wire import log_everything, requests_sent, said_by


@pytest.fixture
def cloud(httpserver: HTTPServer) -> Iterator[CivoCloud]:
    adapter = a_cloud(httpserver.url_for(""))
    yield adapter
    adapter.close()


def answer(httpserver: HTTPServer, cluster: object) -> None:
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(cluster)


def test_the_cluster_is_asked_for_once_with_key_region_and_json_headers(
    httpserver: HTTPServer, cloud: CivoCloud
) -> None:
    answer(httpserver, a_cluster())
    cloud.look()
    (request,) = requests_sent(httpserver, "GET")
    assert (request.path, request.args.to_dict()) == (CLUSTER_PATH, {"region": "LON1"})
    assert request.headers["Authorization"] == f"bearer {KEY}"
    assert request.headers["Accept"] == request.headers["Content-Type"] == "application/json"
    assert request.headers["User-Agent"].startswith("civo-gpu-autoscaler")


def test_what_is_required_and_what_exists_are_merged(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    building = an_instance(2, status="BUILDING", created_at="2026-11-20T11:30:00.123456789+01:00")
    answer(httpserver, a_cluster({POOL: 3}, (a_pool(an_instance(1), building),)))
    pool = cloud.look()[POOL]
    assert (pool.id, pool.required, pool.size) == (POOL, 3, SIZE)
    assert [(i.id[-1], i.status) for i in pool.instances] == [("1", "ACTIVE"), ("2", "BUILDING")]
    assert pool.instances[0].hostname == an_instance(1)["hostname"]
    assert pool.instances[0].created_at == datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert pool.instances[1].created_at == datetime(2026, 11, 20, 10, 30, 0, 123456, tzinfo=UTC)


def test_a_pool_at_zero_is_seen_though_only_the_requirement_names_it(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    answer(httpserver, a_cluster({POOL: 0, "other": 1}, (a_pool(an_instance(1), pool="other"),)))
    pools = cloud.look()
    assert (pools[POOL].required, pools[POOL].instances, pools[POOL].size) == (0, (), SIZE)
    assert len(pools["other"].instances) == 1


def test_instances_of_a_pool_that_is_no_longer_required_are_still_seen(
    httpserver: HTTPServer, cloud: CivoCloud
) -> None:
    answer(httpserver, a_cluster({"other": 0}, (a_pool(an_instance(1, status="DELETING")),)))
    pool = cloud.look()[POOL]
    assert (pool.required, [i.status for i in pool.instances]) == (0, ["DELETING"])


@pytest.mark.parametrize("count, read", [(None, 0), ("2", 2), (2, 2)], ids=["absent", "text", "number"])
def test_a_required_count_is_read_as_go_may_write_it(
    httpserver: HTTPServer, cloud: CivoCloud, count: object, read: int
) -> None:
    cluster = a_cluster()
    cluster["required_pools"] = [{"id": POOL} if count is None else {"id": POOL, "count": count}]
    answer(httpserver, cluster)
    assert cloud.look()[POOL].required == read


def test_a_missing_created_at_is_taken_from_the_instance_list(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    answer(httpserver, a_cluster({POOL: 1}, (a_pool(an_instance(1, created_at=None)),)))
    httpserver.expect_request(f"{CLUSTER_PATH}/instances").respond_with_json([an_instance(2), an_instance(1)])
    (instance,) = cloud.look()[POOL].instances
    assert instance.created_at == datetime(2026, 11, 20, 10, tzinfo=UTC)


def test_an_instance_known_by_name_only_is_completed_from_the_instance_list(
    httpserver: HTTPServer, cloud: CivoCloud
) -> None:
    pool = a_pool(an_instance(1), instance_names=[an_instance(1)["hostname"], an_instance(2)["hostname"]])
    answer(httpserver, a_cluster({POOL: 2}, (pool,)))
    httpserver.expect_request(f"{CLUSTER_PATH}/instances").respond_with_json({"items": [an_instance(2)]})
    assert [i.id for i in cloud.look()[POOL].instances] == [an_instance(1)["id"], an_instance(2)["id"]]


def test_the_instance_list_is_not_asked_when_nothing_is_missing(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    answer(httpserver, a_cluster({POOL: 1}, (a_pool(an_instance(1)),)))
    cloud.look()
    assert len(httpserver.log) == 1


def test_an_instance_being_built_without_created_at_counts_from_now(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    raw = an_instance(1, status="BUILDING", created_at="0001-01-01T00:00:00Z")
    answer(httpserver, a_cluster({POOL: 1}, (a_pool(raw),)))
    httpserver.expect_request(f"{CLUSTER_PATH}/instances").respond_with_json([raw])
    (instance,) = cloud.look()[POOL].instances
    assert instance.created_at is not None
    assert timedelta(0) <= SystemClock().now() - instance.created_at < timedelta(minutes=1)


def test_what_no_database_takes_is_not_kept_of_a_name(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    raw = an_instance(1, hostname="gpu-\ud800\x00-1")
    answer(httpserver, a_cluster({POOL: 1}, (a_pool(raw),)))
    (instance,) = cloud.look()[POOL].instances
    assert instance.hostname == "gpu-\ufffd\ufffd-1"


@pytest.mark.parametrize(
    "required", [None, [], "none", [{"size": SIZE}]], ids=["absent", "empty", "text", "no id at all"]
)
def test_an_answer_that_does_not_say_what_is_required_never_reads_as_no_nodes(
    httpserver: HTTPServer, cloud: CivoCloud, required: object
) -> None:
    answer(httpserver, {**a_cluster(), "required_pools": required})
    with pytest.raises(TryLater) as caught:
        cloud.look()
    assert caught.value.code == "malformed"


@pytest.mark.parametrize("body", ["<html>", '"text"', "[1]", ""], ids=["html", "text", "list", "empty"])
def test_an_answer_that_is_no_cluster_says_nothing_of_its_content(
    httpserver: HTTPServer, cloud: CivoCloud, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_everything(caplog)
    httpserver.expect_request(CLUSTER_PATH).respond_with_data(body + SECRETS[1] if body == "<html>" else body)
    with pytest.raises(TryLater) as caught:
        cloud.look()
    assert caught.value.code == "malformed"
    assert not [s for s in SECRETS if s in said_by(caught.value, caplog)]


def test_neither_the_adapter_nor_what_it_returns_shows_a_secret(
    httpserver: HTTPServer, cloud: CivoCloud, caplog: pytest.LogCaptureFixture
) -> None:
    log_everything(caplog)
    answer(httpserver, a_cluster({POOL: 1}, (a_pool(an_instance(1)),)))
    pools = cloud.look()
    everything = f"{cloud!r} {vars(cloud)['_session'].headers} {pools!r} {caplog.text}"
    assert "urllib3" in caplog.text  # the log was on
    assert not [s for s in SECRETS if s in everything]
