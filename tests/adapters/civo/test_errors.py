"""How Civo's refusals and failures become TryLater or WontWork."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.civo.cloud import CivoCloud
from receiver.ports import Did, TryLater, WontWork
from tests.adapters.civo.answers import CLUSTER, CLUSTER_PATH, KEY, POOL, POOL_PATH, SECRETS, a_cloud, a_cluster
from tests.adapters.wire import came, hanging_server, log_everything, said_by, unused_url


@pytest.fixture
def cloud(httpserver: HTTPServer) -> Iterator[CivoCloud]:
    adapter = a_cloud(httpserver.url_for(""))
    yield adapter
    adapter.close()


@pytest.mark.parametrize("status", [400, 403, 409, 500])
@pytest.mark.parametrize(
    "code, words",
    [
        ("authentication_invalid_key", "put a valid key"),
        ("authentication_access_denied", "CIVO_API_KEY"),
        ("quota_limit_reached", "raise the account's quota"),
        ("gpu_count_exceeded", "not enough GPUs of this kind are free"),
        ("out_of_capacity", "no capacity"),
        ("database_size_not_found", "size"),
        ("database_cluster_pool_not_found", "civo_pool_id"),
        ("account_not_enabled_without_card", "enable the Civo account"),
        ("region_unavailable", "CIVO_REGION"),
        ("something_else_not_found", "something_else_not_found"),
    ],
)
def test_a_code_that_needs_a_person_wont_work_whatever_the_status(
    httpserver: HTTPServer, cloud: CivoCloud, code: str, words: str, status: int
) -> None:
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 1}))
    httpserver.expect_request(POOL_PATH, method="PUT").respond_with_json({"code": code}, status=status)
    with pytest.raises(WontWork, match=words) as caught:
        cloud.resize(POOL, decided_on=1, target=2)
    assert caught.value.code == code


@pytest.mark.parametrize("status", [400, 403, 409, 500])
@pytest.mark.parametrize(
    "code",
    [
        "cannot_scale_already_rescaling_cluster",
        "database_quota_lock_failed",
        "database_cluster_pool_instance_delete_failed",
        "database_cluster_pool_no_sufficient_instances_available",
    ],
)
def test_a_code_that_passes_by_itself_is_tried_later_whatever_the_status(
    httpserver: HTTPServer, cloud: CivoCloud, code: str, status: int
) -> None:
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster({POOL: 1}))
    httpserver.expect_request(POOL_PATH, method="PUT").respond_with_json({"code": code}, status=status)
    with pytest.raises(TryLater) as caught:
        cloud.resize(POOL, decided_on=1, target=2)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "status, expected",
    [(400, WontWork), (403, WontWork), (422, WontWork), (408, TryLater), (409, TryLater), (500, TryLater)],
)
@pytest.mark.parametrize("body", ["not json", '{"code": "something_new"}'], ids=["no JSON", "unknown code"])
def test_without_a_known_code_the_status_decides(
    httpserver: HTTPServer, cloud: CivoCloud, status: int, expected: type[Exception], body: str
) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_data(body, status=status)
    with pytest.raises(expected):
        cloud.look()


def test_a_500_inside_the_body_outranks_the_real_status(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_json({"status": 500}, status=400)
    with pytest.raises(TryLater):
        cloud.look()


@pytest.mark.parametrize(
    "status, body", [(403, '{"result": "requires_authentication"}'), (401, "no"), (401, '{"result": "x"}')]
)
def test_a_key_that_is_not_accepted_is_named_with_its_remedy(
    httpserver: HTTPServer, cloud: CivoCloud, status: int, body: str
) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_data(body, status=status)
    with pytest.raises(WontWork, match=r"Civo refused CIVO_API_KEY .*: put a valid key into"):
        cloud.look()


@pytest.mark.parametrize("odd", [7, ["a"], {"initial_password": SECRETS[1]}, None, True])
def test_explanations_of_any_type_are_tolerated_and_only_text_is_quoted(
    httpserver: HTTPServer, cloud: CivoCloud, odd: object, caplog: pytest.LogCaptureFixture
) -> None:
    log_everything(caplog)
    body = {"code": "quota_limit_reached", "reason": odd, "details": odd, "kubeconfig": SECRETS[3]}
    httpserver.expect_request(CLUSTER_PATH).respond_with_json(body, status=403)
    with pytest.raises(WontWork) as caught:
        cloud.look()
    assert not [s for s in SECRETS if s in said_by(caught.value, caplog)]


def test_each_exceeded_quota_is_named(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    body = {"code": "quota_limit_reached", "reason": "at the limit", "details": "CPU 16 of 16\nRAM 32 of 32"}
    httpserver.expect_request(CLUSTER_PATH).respond_with_json(body, status=403)
    with pytest.raises(WontWork, match=r"at the limit; CPU 16 of 16; RAM 32 of 32"):
        cloud.look()


def test_a_key_that_civo_repeats_is_blotted_out(
    httpserver: HTTPServer, cloud: CivoCloud, caplog: pytest.LogCaptureFixture
) -> None:
    log_everything(caplog)
    body = {"code": "something_new", "reason": f"the key {KEY} is unknown"}
    httpserver.expect_request(CLUSTER_PATH).respond_with_json(body, status=403)
    with pytest.raises(WontWork, match="is unknown") as caught:
        cloud.look()
    assert KEY not in said_by(caught.value, caplog)


@pytest.mark.parametrize(
    "header, delay",
    [("17", timedelta(seconds=17)), ("soon", None), ("", None), (f"Mon, 01 Jan 2024 00:00:00 +{'9' * 30}", None)],
)
def test_too_many_requests_says_how_long_to_wait(
    httpserver: HTTPServer, cloud: CivoCloud, header: str, delay: timedelta | None
) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_data("", status=429, headers={"Retry-After": header})
    with pytest.raises(TryLater) as caught:
        cloud.look()
    assert (caught.value.code, caught.value.delay) == ("http_429", delay)
    assert len(httpserver.log) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_read_is_repeated_twice_before_it_is_given_up(httpserver: HTTPServer, cloud: CivoCloud, status: int) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_data("down", status=status)
    with pytest.raises(TryLater) as caught:
        cloud.look()
    assert (caught.value.code, caught.value.delay) == (f"http_{status}", None)
    assert len(httpserver.log) == 3


READS: dict[str, Callable[[CivoCloud], object]] = {
    "look": CivoCloud.look,
    "charges": lambda cloud: cloud.charges(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)),
    "resize": lambda cloud: cloud.resize(POOL, decided_on=1, target=2),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("wait", ["120", "Fri, 31 Dec 2100 23:59:59 GMT"])
@pytest.mark.parametrize("status", [429, 503])
def test_nothing_is_read_before_the_time_that_civo_named_is_over(
    httpserver: HTTPServer, cloud: CivoCloud, status: int, wait: str, read: str
) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_data("", status=status, headers={"Retry-After": wait})
    asks: tuple[Callable[[], object], ...] = (cloud.look, cloud.look, lambda: READS[read](cloud))
    for again in asks:
        with pytest.raises(TryLater, match="get the cluster") as caught:
            again()
        assert caught.value.code == f"http_{status}"
        assert caught.value.delay is not None
        assert timedelta(minutes=1) < caught.value.delay <= timedelta(hours=1)
    assert len(httpserver.log) == 1


def test_a_write_is_sent_while_reads_wait(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    busy = {"Retry-After": "120"}
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_data("", status=429, headers=busy)
    httpserver.expect_request(f"{POOL_PATH}/instances/i-1", method="DELETE").respond_with_data("")
    with pytest.raises(TryLater):
        cloud.look()
    assert cloud.retire(POOL, "i-1").did is Did.DONE


def test_a_write_that_is_one_request_too_many_makes_reads_wait(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    path = f"{POOL_PATH}/instances/i-1"
    httpserver.expect_request(path).respond_with_data("", status=429, headers={"Retry-After": "120"})
    asks: tuple[Callable[[], object], ...] = (lambda: cloud.retire(POOL, "i-1"), cloud.look)
    for ask in asks:
        with pytest.raises(TryLater, match="delete instance"):
            ask()
    assert len(httpserver.log) == 1


def test_a_read_that_works_the_third_time_has_worked(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    for _ in range(2):
        httpserver.expect_ordered_request(CLUSTER_PATH).respond_with_data("down", status=503)
    httpserver.expect_ordered_request(CLUSTER_PATH).respond_with_json(a_cluster({POOL: 1}))
    assert cloud.look()[POOL].required == 1


def test_a_read_that_times_out_costs_its_timeout_only_once() -> None:
    with hanging_server(CLUSTER_PATH, "GET") as (server, arrivals):
        cloud = a_cloud(server.url_for(""), read_timeout=0.2)
        with pytest.raises(TryLater) as caught:
            cloud.look()
        cloud.close()
        assert came(arrivals) == ["GET"]
    assert caught.value.code == "timeout"


def test_an_unreachable_civo_is_named_by_its_url(caplog: pytest.LogCaptureFixture) -> None:
    log_everything(caplog)
    url = unused_url()
    cloud = a_cloud(url)
    with pytest.raises(TryLater, match=url) as caught:
        cloud.look()
    cloud.close()
    assert caught.value.code == "unreachable"
    assert KEY not in said_by(caught.value, caplog)


def test_credentials_inside_the_url_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    log_everything(caplog)
    cloud = a_cloud(unused_url().replace("://", "://someone:hidden@"))
    with pytest.raises(TryLater) as caught:
        cloud.look()
    cloud.close()
    assert "hidden" not in str(caught.value) + repr(cloud)


def test_a_redirect_is_not_followed(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_data("", status=302, headers={"Location": "/elsewhere"})
    with pytest.raises(WontWork, match="check CIVO_API_URL"):
        cloud.look()
    assert len(httpserver.log) == 1


@pytest.mark.parametrize("url", ["", "api.civo.com", "ftp://api.civo.com", "http://"])
def test_a_url_that_is_none_wont_work(url: str) -> None:
    cloud = a_cloud(url)
    with pytest.raises(WontWork, match="CIVO_API_URL"):
        cloud.look()
    cloud.close()


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "k\u00e9y"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ValueError, match="CIVO_API_KEY") as caught:
        a_cloud("http://127.0.0.1:1", key=key)
    assert not key or key not in str(caught.value)


def test_a_key_may_end_in_a_newline_as_files_do(httpserver: HTTPServer) -> None:
    httpserver.expect_request(CLUSTER_PATH).respond_with_json(a_cluster())
    cloud = a_cloud(httpserver.url_for(""), key=f"{KEY}\n")
    cloud.look()
    cloud.close()
    assert httpserver.log[0][0].headers["Authorization"] == f"bearer {KEY}"


def test_a_cluster_id_that_could_change_the_path_is_refused() -> None:
    with pytest.raises(ValueError, match="CIVO_CLUSTER_ID"):
        CivoCloud("http://127.0.0.1:1", KEY, "LON1", f"{CLUSTER}/pools/x")


def test_a_netrc_file_does_not_replace_the_key(
    httpserver: HTTPServer, cloud: CivoCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {httpserver.host} login someone password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    httpserver.expect_request(CLUSTER_PATH).respond_with_json(a_cluster())
    cloud.look()
    assert httpserver.log[0][0].headers["Authorization"] == f"bearer {KEY}"
