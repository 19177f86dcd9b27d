"""Connections of the simulator stay open between answers, as those of Civo and of an API server do."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from simulator.connections import Server
from simulator.server import Simulator
from tests.e2e.waiting import until

NODES = "/api/v1/nodes"
WATCH = f"{NODES}?watch=1&timeoutSeconds=0.01"


@pytest.fixture
def connection(sim: Simulator) -> Iterator[http.client.HTTPConnection]:
    """One connection to the simulator, which is not opened again by itself."""
    address = urlsplit(sim.url)
    with closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)) as opened:
        opened.connect()
        opened.auto_open = 0
        yield opened


def asked(connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    connection.request(method, path, body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def until_the_end(sim: Simulator, request: str) -> tuple[bytes, bytes]:
    """Send *request* and return head and body of all that comes until the simulator closes the connection."""
    address = urlsplit(sim.url)
    with socket.create_connection((str(address.hostname), address.port or 0), timeout=10) as opened:
        opened.sendall(request.encode())
        head, _, body = opened.makefile("rb").read().partition(b"\r\n\r\n")
    return head, body


def test_one_connection_serves_request_after_request(connection: http.client.HTTPConnection) -> None:
    assert [asked(connection, "GET", NODES)[0] for _ in range(3)] == [200, 200, 200]


def test_an_answer_without_a_body_leaves_the_connection_open(connection: http.client.HTTPConnection) -> None:
    assert asked(connection, "HEAD", NODES) == (200, b"")
    assert asked(connection, "GET", NODES)[0] == 200


def test_the_head_of_a_watch_has_no_body_not_even_the_last_chunk(sim: Simulator) -> None:
    head, body = until_the_end(sim, f"HEAD {WATCH} HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b""


@pytest.mark.parametrize(("path", "refusal"), [("/v2/instances", 401), ("/_no-such-page", 404)])
def test_a_body_that_no_page_reads_is_not_taken_for_the_next_request(
    connection: http.client.HTTPConnection, path: str, refusal: int
) -> None:
    assert asked(connection, "POST", path, "GET / HTTP/1.1\r\n\r\n")[0] == refusal
    assert asked(connection, "GET", NODES)[0] == 200


def test_a_watch_that_ends_leaves_the_connection_open(connection: http.client.HTTPConnection) -> None:
    status, lines = asked(connection, "GET", WATCH)
    assert status == 200
    assert {json.loads(line)["type"] for line in lines.splitlines()} == {"ADDED"}
    assert asked(connection, "GET", NODES)[0] == 200


def test_a_client_that_wants_no_further_answer_is_told_of_the_end(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", NODES, headers={"Connection": "close"})
    answer = connection.getresponse()
    assert answer.headers["Connection"] == "close"
    answer.read()
    with pytest.raises(http.client.NotConnected):
        asked(connection, "GET", NODES)


def test_a_client_of_http_1_0_reads_a_watch_to_the_end_of_the_connection(sim: Simulator) -> None:
    head, lines = until_the_end(sim, f"GET {WATCH} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b"chunked" not in head
    assert {json.loads(line)["type"] for line in lines.splitlines()} == {"ADDED"}


def test_a_fault_that_hangs_up_closes_the_connection(sim: Simulator, connection: http.client.HTTPConnection) -> None:
    sim.fault(kind="timeout", face="kubernetes", seconds="0s")
    with pytest.raises(http.client.RemoteDisconnected):
        asked(connection, "GET", NODES)


def test_an_answer_that_breaks_off_ends_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    def app(_: object, start_response: Callable[..., object]) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"half"
        raise ValueError("a bug")

    server = Server("127.0.0.1", 0, app)
    serving = threading.Thread(target=server.handle_request)
    serving.start()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        with pytest.raises(http.client.IncompleteRead):
            asked(connection, "GET", "/")
        assert "a bug" in caplog.text
    serving.join()
    server.server_close()


def test_a_simulator_that_stops_closes_idle_connections(sim: Simulator, connection: http.client.HTTPConnection) -> None:
    asked(connection, "GET", NODES)
    sim.stop()
    assert connection.sock.recv(1) == b""


def test_a_simulator_that_stops_ends_a_watch_and_then_its_connection(
    sim: Simulator, connection: http.client.HTTPConnection
) -> None:
    connection.request("GET", f"{NODES}?watch=1&timeoutSeconds=600")
    answer = connection.getresponse()
    until(lambda: answer.readline(), "the first event")
    sim.stop()
    answer.read()
    assert answer.isclosed()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        asked(connection, "GET", NODES)
