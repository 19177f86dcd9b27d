"""The proxy passes calls on, and loses, holds, expires and refuses them where it is told to."""

import json
import threading
from collections.abc import Iterator

import pytest
import requests
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from conformance.levers import Call, Lever

PATIENCE = 30.0  # seconds


@pytest.fixture
def lever(httpserver: HTTPServer) -> Iterator[Lever]:
    """A lever before a server that answers every call of /count with how many came before."""
    counted: list[str] = []

    def answer(request: Request) -> Response:
        counted.append(request.method)
        return Response(json.dumps(len(counted)), content_type="application/json")

    httpserver.expect_request("/count").respond_with_handler(answer)
    found = Lever(httpserver.url_for("").rstrip("/"))
    yield found
    found.close()


def ask(lever: Lever, method: str = "GET", path: str = "/count") -> requests.Response:
    return requests.request(method, lever.url + path, timeout=PATIENCE)


def test_a_call_is_passed_on_and_noted_with_its_answer(lever: Lever) -> None:
    answer = requests.put(f"{lever.url}/count?region=lon1", json={"count": 3}, timeout=PATIENCE)
    assert (answer.json(), answer.headers["Content-Type"]) == (1, "application/json")
    (call,) = lever.sent("PUT", r"/count\?region=lon1")
    assert (call.json, call.status) == ({"count": 3}, 200)
    assert lever.sent("DELETE", "/count") == []


def test_a_lost_answer_is_cut_off_after_the_effect_and_the_next_one_comes(lever: Lever) -> None:
    lever.lose("PUT", "/count")
    assert ask(lever).json() == 1
    with pytest.raises(requests.ConnectionError):
        ask(lever, "PUT")
    assert ask(lever, "PUT").json() == 3


def test_a_held_answer_comes_when_it_is_released(lever: Lever) -> None:
    lever.hold("PUT", "/count", PATIENCE)
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(ask(lever, "PUT").json()))
    asking.start()
    while not (held := lever.sent("PUT", "/count")) or held[0].status is None:
        asking.join(0.01)
    assert ask(lever).json() == 2  # the effect of the first is there
    assert answers == []
    lever.release()
    asking.join(PATIENCE)
    assert answers == [1]


def test_what_shall_happen_after_a_call_happens_before_its_answer(lever: Lever) -> None:
    seen: list[Call] = []
    lever.after("DELETE", "/count", seen.append)
    ask(lever, "DELETE")
    assert [(c.method, c.status) for c in seen] == [("DELETE", 200)]
    ask(lever, "DELETE")
    assert len(seen) == 1


def test_a_watch_is_told_that_its_version_is_too_old(lever: Lever) -> None:
    lever.expire(times=1)
    assert ask(lever, path="/count?limit=5").json() == 1
    event = ask(lever, path="/count?watch=True&resourceVersion=5").json()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert lever.armed() == 0


def test_nobody_answers_while_the_source_is_away(lever: Lever) -> None:
    with requests.Session() as session:
        assert session.get(f"{lever.url}/count", timeout=PATIENCE).json() == 1
        lever.away()
        for asked in (session, requests):
            with pytest.raises(requests.ConnectionError):
                asked.get(f"{lever.url}/count", timeout=PATIENCE)
        lever.back()
        assert session.get(f"{lever.url}/count", timeout=PATIENCE).json() == 2


def test_a_stream_arrives_piece_by_piece_and_is_cut_where_the_source_restarts(httpserver: HTTPServer) -> None:
    more = threading.Event()

    def events() -> Iterator[bytes]:
        yield b"first\n"
        more.wait(PATIENCE)
        yield b"second\n"

    httpserver.expect_request("/watch").respond_with_handler(lambda _: Response(events()))
    lever = Lever(httpserver.url_for("").rstrip("/"))
    try:
        with requests.get(f"{lever.url}/watch", stream=True, timeout=PATIENCE) as answer:
            lines = answer.iter_lines(chunk_size=1)
            assert next(lines) == b"first"
            lever.cut()
            with pytest.raises(requests.RequestException):
                next(lines)
    finally:
        more.set()
        lever.close()


def test_a_source_that_is_not_there_is_a_connection_that_is_cut() -> None:
    lever = Lever("http://127.0.0.1:9")
    try:
        with pytest.raises(requests.ConnectionError):
            ask(lever)
    finally:
        lever.close()
