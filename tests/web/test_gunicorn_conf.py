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
        self, method: str, path: str, headers: Mapping[str, str], body: Any = None, *, chunked: bool = False
    ) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
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


def test_clients_that_never_end_their_requests_do_not_keep_others_waiting(server: Server) -> None:
    head = f"POST /webhook HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\n{{"
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
    for client in slow:
        client.sendall(head.encode())
    assert server.request("POST", "/webhook", {"Authorization": f"Bearer {TOKEN}"}, json.dumps(a_payload())) == 202
    for client in slow:
        client.close()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("workers", 1),
        ("worker_class", "gthread"),
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
