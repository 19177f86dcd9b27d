"""Clients that begin and never end, over http and over https: none of them may keep the others waiting."""

import json
import socket
from contextlib import ExitStack

from receiver.server import gunicorn_conf
from tests.server.gunicorns import DEADLINE_SECONDS, Server
from tests.web.builders import TOKEN, a_payload

NEVER_ENDED = (
    "",
    "POST /webhook HTTP/1.1\r\nHost: x\r\nAuthor",
    "POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    "POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n9\r\na",
    "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHo",
    f"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: {'0' * 30}100\r\n\r\n",
)
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the first bytes of a TLS handshake
WHOLE = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def deliver(server: Server) -> int:
    body, token = json.dumps(a_payload()), {"Authorization": f"Bearer {TOKEN}"}
    return server.request("POST", "/webhook", token, body, timeout=15)  # shorter than threads that are kept waiting


def until_closed(client: socket.socket) -> None:
    while client.recv(65536):
        pass


def test_clients_that_never_end_their_requests_take_no_thread_and_are_closed(http_server: Server) -> None:
    with ExitStack() as opened:
        slow = [
            opened.enter_context(http_server.connect()) for _ in range(2 * gunicorn_conf.threads * len(NEVER_ENDED))
        ]
        for number, client in enumerate(slow):
            client.sendall(NEVER_ENDED[number % len(NEVER_ENDED)].encode())
        assert deliver(http_server) == 202
        for client in slow:
            until_closed(client)


def test_over_https_they_take_none_either(https_server: Server) -> None:
    with ExitStack() as opened:
        slow = [opened.enter_context(https_server.connect()) for _ in range(gunicorn_conf.threads * len(NEVER_ENDED))]
        for number, client in enumerate(slow):
            client.sendall(NEVER_ENDED[number % len(NEVER_ENDED)].encode())
        assert deliver(https_server) == 202
        for client in slow:
            until_closed(client)


def test_clients_that_never_end_their_handshake_take_no_thread_and_are_closed(https_server: Server) -> None:
    with ExitStack() as opened:
        slow = [
            opened.enter_context(socket.create_connection(("127.0.0.1", https_server.port), timeout=DEADLINE_SECONDS))
            for _ in range(2 * gunicorn_conf.threads)
        ]
        for client in slow:
            client.sendall(HALF_A_HELLO)
        assert deliver(https_server) == 202
        for client in slow:
            until_closed(client)


def _never_take_their_answers(server: Server) -> None:
    with ExitStack() as opened:
        for _ in range(gunicorn_conf.threads):
            client = opened.enter_context(server.connect())
            client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            client.recv(1)  # a thread has it
        assert server.request("GET", "/healthz", {}, timeout=DEADLINE_SECONDS) == 200


def test_clients_that_never_take_their_answers_are_let_go_of(http_server: Server) -> None:
    _never_take_their_answers(http_server)


def test_over_https_they_are_let_go_of_as_well(https_server: Server) -> None:
    _never_take_their_answers(https_server)


def test_clients_that_never_close_their_side_after_the_last_answer_keep_nobody_waiting(http_server: Server) -> None:
    with ExitStack() as opened:
        lingering = [opened.enter_context(http_server.connect()) for _ in range(2 * gunicorn_conf.threads)]
        for client in lingering:
            client.sendall(WHOLE.encode())
        for client in lingering:
            assert client.recv(12) == b"HTTP/1.1 200"
        assert http_server.request("GET", "/healthz", {}, timeout=30) == 200  # each of them cost two seconds
        for client in lingering:
            until_closed(client)


def test_clients_that_never_send_a_body_that_is_refused_unread_keep_nobody_waiting(http_server: Server) -> None:
    with ExitStack() as opened:
        for _ in range(4 * gunicorn_conf.threads):
            client = opened.enter_context(http_server.connect())
            client.sendall(b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n")
        assert deliver(http_server) == 202  # each of them cost a thread five seconds


def test_an_answer_is_whole_although_more_was_sent_than_anybody_reads(http_server: Server) -> None:
    body = b"x" * 60_000  # beyond what the webhook takes
    head = f"POST /webhook HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
    with http_server.connect() as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        said = b""
        while came := client.recv(65536):
            said += came
    assert said.startswith(b"HTTP/1.1 413 ")
    assert json.loads(said.partition(b"\r\n\r\n")[2])


def test_one_request_alone_may_be_as_large_as_all_may_be_together(https_server: Server) -> None:
    body = b"x" * 90_000  # in several records, and read in several pieces
    assert https_server.request("POST", "/webhook", {"Authorization": f"Bearer {TOKEN}"}, body) == 413  # by its limit
    assert deliver(https_server) == 202


def test_pages_that_take_long_keep_no_delivery_and_no_probe_waiting_and_are_all_made(server: Server) -> None:
    with ExitStack() as opened:
        readers = [opened.enter_context(server.connect()) for _ in range(2 * gunicorn_conf.threads)]
        for reader in readers:
            reader.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert deliver(server) == 202
        assert server.request("GET", "/healthz", {}, timeout=25) == 200
        assert server.request("GET", "/readyz", {}, timeout=25) == 200
        server.notes.with_name("enough").touch()
        for reader in readers:
            assert reader.recv(12) == b"HTTP/1.1 200"
