"""The command line's side of the HTTP API: what is read, and what each way of failing says."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.http.own_api import NotThereError, RefusedError, ServerApi
from receiver.ports import TryLater
from tests.adapters.wire import hanging_server, requests_sent, unused_url

PATH = "/api/v1/pools/l40s"


@pytest.fixture
def api(httpserver: HTTPServer) -> Iterator[ServerApi]:
    """A client of a server whose answers a test writes down."""
    opened = ServerApi(httpserver.url_for("").rstrip("/"), timeout=60)
    yield opened
    opened.close()


def test_a_document_comes_with_the_moment_of_its_step(api: ServerApi, httpserver: HTTPServer) -> None:
    step = {"Gpu-Autoscaler-Snapshot-At": "2026-03-10T14:29:56Z"}
    httpserver.expect_request(PATH, method="GET").respond_with_json({"name": "l40s"}, headers=step)
    answer = api.get("pools", "l40s")
    assert answer.document == {"name": "l40s"}
    assert answer.at == datetime(2026, 3, 10, 14, 29, 56, tzinfo=UTC)


def test_before_the_first_step_there_is_no_moment(api: ServerApi, httpserver: HTTPServer) -> None:
    step = {"Gpu-Autoscaler-Snapshot-At": "none"}
    httpserver.expect_request(PATH).respond_with_json({"name": "l40s"}, headers=step)
    assert api.get("pools", "l40s").at is None


def test_a_name_stays_one_part_of_the_path(api: ServerApi, httpserver: HTTPServer) -> None:
    problem = {"error": "no pool has this id or name", "remedy": "use one of: l40s"}
    httpserver.expect_request("/api/v1/pools/../budget?x").respond_with_json(problem, status=404)
    with pytest.raises(NotThereError):
        api.get("pools", "../budget?x")
    [request] = requests_sent(httpserver, "GET")
    assert request.query_string == b""


def test_what_is_not_there_is_told_in_the_servers_words(api: ServerApi, httpserver: HTTPServer) -> None:
    problem = {"error": "no pool has this id or name", "remedy": "use one of: l40s"}
    httpserver.expect_request(PATH).respond_with_json(problem, status=404)
    with pytest.raises(NotThereError, match="no pool has this id or name") as caught:
        api.get("pools", "l40s")
    assert caught.value.document == problem


def test_a_server_whose_store_is_down_says_so(api: ServerApi, httpserver: HTTPServer) -> None:
    problem = {"error": "the store does not answer: disk full", "remedy": "check the volume"}
    httpserver.expect_request(PATH).respond_with_json(problem, status=503)
    with pytest.raises(
        TryLater, match="answered 503: the store does not answer: disk full; check the volume"
    ) as caught:
        api.get("pools", "l40s")
    assert caught.value.code == "http_503"


@pytest.mark.parametrize(
    ("status", "body"), [(200, "<html>log in</html>"), (200, "[]"), (404, '{"message": "no route"}'), (302, "")]
)
def test_the_answer_of_another_server_is_not_taken_for_ours(
    api: ServerApi, httpserver: HTTPServer, status: int, body: str
) -> None:
    httpserver.expect_request(PATH).respond_with_data(body, status=status, headers={"Location": "/login"})
    with pytest.raises(TryLater, match=f"answered {status}, but not as a GPU autoscaler") as caught:
        api.get("pools", "l40s")
    assert caught.value.code == "malformed"


def test_an_older_server_that_answers_json_is_not_taken_for_csv(api: ServerApi, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/api/v1/report").respond_with_json({"month": "2026-10"})
    with pytest.raises(TryLater, match="it did not answer with CSV: it is an older version or another server"):
        api.get_csv("report", query={"format": "focus"})


def test_a_table_that_is_refused_is_told_in_the_servers_words(api: ServerApi, httpserver: HTTPServer) -> None:
    problem = {"error": "month is not a month that has begun", "remedy": "write it as 2026-10"}
    httpserver.expect_request("/api/v1/report").respond_with_json(problem, status=400)
    with pytest.raises(RefusedError, match="month is not a month that has begun"):
        api.get_csv("report", query={"format": "focus"})


def test_a_server_that_is_not_there_is_told_as_that() -> None:
    with pytest.raises(TryLater) as caught:
        ServerApi(unused_url(), timeout=1).get("pools", "l40s")
    assert caught.value.code == "unreachable"


def test_a_server_that_hangs_is_given_up() -> None:
    with hanging_server(PATH, "GET") as (server, _), pytest.raises(TryLater) as caught:
        ServerApi(server.url_for("").rstrip("/"), timeout=0.2).get("pools", "l40s")
    assert caught.value.code == "timeout"


def test_a_password_in_the_address_is_not_shown() -> None:
    api = ServerApi("http://oncall:secret-word@autoscaler:8080")
    assert (api.shown, repr(api)) == ("http://autoscaler:8080", "ServerApi('http://autoscaler:8080')")


def test_reading_sends_the_token_that_it_was_given(httpserver: HTTPServer) -> None:
    httpserver.expect_request(PATH).respond_with_json({"name": "l40s"})
    with closing(ServerApi(httpserver.url_for("").rstrip("/"), reader="to-read-with")) as api:
        api.get("pools", "l40s")
    [request] = requests_sent(httpserver, "GET")
    assert request.headers["Authorization"] == "Bearer to-read-with"


def test_credentials_in_the_address_are_a_proxys_and_are_read_with(httpserver: HTTPServer) -> None:
    httpserver.expect_request(PATH).respond_with_json({"name": "l40s"})
    address = httpserver.url_for("").rstrip("/").replace("http://", "http://oncall:word@")
    with closing(ServerApi(address, reader="to-read-with")) as api:
        api.get("pools", "l40s")
    [request] = requests_sent(httpserver, "GET")
    assert request.headers["Authorization"].startswith("Basic ")
