"""gunicorn takes our settings, serves the webhook and starts and stops the loop in its one worker."""

import http.client
import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import receiver
from receiver import gunicorn_conf
from tests.web.builders import TOKEN, a_payload

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 20.0


@dataclass
class Server:
    """A gunicorn under test."""

    process: subprocess.Popen[str]
    port: int
    notes: Path

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Any = None,
        *,
        chunked: bool = False,
        timeout: float = 5,
    ) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=dict(headers), encode_chunked=chunked)
            return connection.getresponse().status
        finally:
            connection.close()

    def stop(self) -> str:
        self.process.terminate()
        return self.process.communicate(timeout=DEADLINE_SECONDS)[1]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Run gunicorn on a free loopback port until the test ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    notes = tmp_path / "notes"
    environ = {**os.environ, "GPU_AUTOSCALER_LISTEN": f"127.0.0.1:{port}", "NOTES": str(notes), "HOME": "/nonexistent"}
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--config", "python:tests.web.served"],
        cwd=ROOT,
        env=environ,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    served = Server(process, port, notes)
    try:
        give_up_at = time.monotonic() + DEADLINE_SECONDS
        while not served.events():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < give_up_at, "gunicorn did not start"
            time.sleep(0.05)
        yield served
    finally:
        process.kill()
        process.communicate()


def test_one_worker_starts_and_stops_the_loop_in_its_own_process(server: Server) -> None:
    assert server.request("GET", "/healthz", {}) == 200
    errors = server.stop()
    started, stopped = server.events()
    assert (started["event"], stopped["event"]) == ("started", "stopped")
    assert started["pid"] == stopped["pid"] != server.process.pid
    assert started["app"] == "Flask"
    assert server.process.returncode == 0
    assert "[ERROR]" not in errors


def test_gunicorn_hands_chunked_bodies_on_and_they_are_bounded(server: Server) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Transfer-Encoding": "chunked"}
    good = json.dumps(a_payload()).encode()
    assert server.request("POST", "/webhook", headers, iter([good[:20], good[20:]]), chunked=True) == 202
    assert server.request("POST", "/webhook", headers, iter([b"x" * 1000] * 3), chunked=True) == 413


NEVER_ENDED = (
    "",
    "POST /webhook HTTP/1.1\r\nHost: x\r\nAuthor",
    "POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    "POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n9\r\na",
    "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHo",
)


def test_clients_that_never_end_their_requests_take_no_thread_and_are_closed(server: Server) -> None:
    with ExitStack() as opened:
        slow = [
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_SECONDS))
            for _ in range(2 * gunicorn_conf.threads * len(NEVER_ENDED))
        ]
        for number, client in enumerate(slow):
            client.sendall(NEVER_ENDED[number % len(NEVER_ENDED)].encode())
        assert server.request("POST", "/webhook", {"Authorization": f"Bearer {TOKEN}"}, json.dumps(a_payload())) == 202
        for client in slow:
            while client.recv(65536):
                pass


def test_clients_that_never_take_their_answers_are_let_go_of(server: Server) -> None:
    with ExitStack() as opened:
        for _ in range(gunicorn_conf.threads):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            client.recv(1)  # a thread has it
        assert server.request("GET", "/healthz", {}, timeout=DEADLINE_SECONDS) == 200


def test_two_requests_of_one_connection_that_come_in_other_pieces_are_both_answered(server: Server) -> None:
    body = json.dumps(a_payload()).encode()
    head = f"POST /webhook HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    whole = (head.encode() + body) * 2
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        middle = len(whole) // 2
        for piece in (whole[:30], whole[30:200], whole[200 : middle + 40], whole[middle + 40 :]):
            client.sendall(piece)
        said = b""
        while said.count(b"202 ACCEPTED") < 2:
            came = client.recv(65536)
            assert came, said
            said += came


def test_who_asks_whether_to_send_a_body_is_told_to(server: Server) -> None:
    body = json.dumps(a_payload()).encode()
    head = f"POST /webhook HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_SECONDS) as client:
        client.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        said = client.recv(65536)
        assert b"202 ACCEPTED" in (said + client.recv(65536) if b"202" not in said else said)


def test_bytes_beyond_what_all_requests_may_hold_are_refused_so_that_they_come_again(server: Server) -> None:
    half = b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + b"x" * 60_000
    with ExitStack() as opened:
        for _ in range(2):  # 100,000 may be held
            client = opened.enter_context(
                socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_SECONDS)
            )
            client.sendall(half)
        said = client.recv(200)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: " in said
        assert server.request("POST", "/webhook", {"Authorization": f"Bearer {TOKEN}"}, json.dumps(a_payload())) == 202


def test_a_head_without_end_is_refused(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_SECONDS) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 70_000)
        assert client.recv(100).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("workers", 1),
        ("worker_class", "receiver.gunicorn_worker.Worker"),
        ("threads", 16),
        ("preload_app", False),
        ("control_socket_disable", True),
        ("graceful_timeout", 20),
        ("accesslog", None),
    ],
)
def test_a_setting_that_the_loop_depends_on_stays(setting: str, value: object) -> None:
    assert getattr(gunicorn_conf, setting) == value


def test_every_setting_is_one_that_gunicorn_knows() -> None:
    from gunicorn.config import Config

    ours = {n for n in vars(gunicorn_conf) if not n.startswith("_") and n not in {"os", "Path", "Any"}}
    assert ours <= set(Config().settings)


@pytest.mark.parametrize(
    ("environ", "bind"),
    [
        ({}, "0.0.0.0:8080"),
        ({"GPU_AUTOSCALER_LISTEN": "127.0.0.1:9"}, "127.0.0.1:9"),
        ({"GPU_AUTOSCALER_LISTEN": ""}, "0.0.0.0:8080"),
    ],
    ids=["default", "set", "empty"],
)
def test_the_address_comes_from_the_environment(
    environ: dict[str, str], bind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPU_AUTOSCALER_LISTEN", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert importlib.reload(gunicorn_conf).bind == bind


@dataclass
class FakeBootstrap:
    """Notes what it was asked to start and stop."""

    log: list[tuple[str, object]]

    def start(self, app: object) -> None:
        self.log.append(("start", app))

    def stop(self, app: object) -> None:
        self.log.append(("stop", app))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    """Put a fake in bootstrap's place and return its log."""
    fake = FakeBootstrap([])
    monkeypatch.setitem(sys.modules, "receiver.bootstrap", fake)
    monkeypatch.setattr(receiver, "bootstrap", fake, raising=False)
    return fake.log


def test_the_hooks_start_and_stop_the_loop_of_the_workers_application(log: list[tuple[str, object]]) -> None:
    worker = SimpleNamespace(wsgi="the app")
    gunicorn_conf.post_worker_init(worker)
    gunicorn_conf.worker_exit(None, worker)
    assert log == [("start", "the app"), ("stop", "the app")]


def test_a_worker_that_failed_to_load_has_nothing_to_stop(log: list[tuple[str, object]]) -> None:
    gunicorn_conf.worker_exit(None, SimpleNamespace(wsgi=None))
    assert log == []
