"""gunicorn takes our settings, serves the webhook and starts and stops the loop in its one worker."""

import importlib
import json
import resource
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from gunicorn.errors import HaltServer

from receiver import server
from receiver.server import gunicorn_conf
from tests.e2e.waiting import until
from tests.server.gunicorns import DEADLINE_SECONDS, Server
from tests.web.builders import TOKEN, a_payload


def test_one_worker_starts_and_stops_the_loop_in_its_own_process(server: Server) -> None:
    assert server.request("GET", "/healthz", {}) == 200
    errors = server.stop()
    started, *told, stopped = server.events()  # a worker without answers under way may end before it is told
    assert (started["event"], stopped["event"]) == ("started", "stopped")
    assert [event["event"] for event in told] in ([], ["told"])
    assert started["pid"] == stopped["pid"] != server.process.pid
    assert started["app"] == "Flask"
    assert server.process.returncode == 0
    assert "[ERROR]" not in errors


def test_the_loop_is_told_to_stop_before_the_answers_under_way_have_ended(server: Server) -> None:
    with server.connect() as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        slow.recv(1)  # a thread has it, and goes on to send
        server.process.terminate()
        until(lambda: len(server.events()) > 1, "a word to the loop")
        assert [event["event"] for event in server.events()] == ["started", "told"]


def test_gunicorn_hands_chunked_bodies_on_and_they_are_bounded(server: Server) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Transfer-Encoding": "chunked"}
    good = json.dumps(a_payload()).encode()
    assert server.request("POST", "/webhook", headers, iter([good[:20], good[20:]]), chunked=True) == 202
    assert server.request("POST", "/webhook", headers, iter([b"x" * 1000] * 3), chunked=True) == 413


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        (b"X-Forwarded-User: ada\r\n", "[ada]"),
        (b"X_Forwarded_User: root\r\n", "[]"),  # WSGI would read it as the same
        (b"X_Forwarded_User: root\r\nX-Forwarded-User: ada\r\n", "[ada]"),
        (b"X-Forwarded-User: root\r\nx-forwarded-user: ada\r\n", "[]"),
    ],
)
def test_only_the_header_that_the_proxy_sets_names_a_person(http_server: Server, headers: bytes, name: str) -> None:
    with http_server.connect() as wire:
        wire.sendall(b"GET /name HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + b"\r\n")
        said = b"".join(iter(lambda: wire.recv(65536), b"")).decode()
    assert said.endswith(f"\r\n\r\n{name}")


def test_a_stop_that_finds_a_worker_which_could_not_start_ends_with_its_status_and_no_traceback() -> None:
    asked = []

    def stop(graceful: bool) -> None:
        asked.append(graceful)
        raise HaltServer("App failed to load.", 4)

    master = SimpleNamespace(log=SimpleNamespace(info=print), stop=stop)
    gunicorn_conf.on_starting(master)
    with pytest.raises(SystemExit) as ended:
        master.stop()
    assert (ended.value.code, asked) == (4, [True])


@pytest.mark.parametrize(
    "header", ["SCRIPT_NAME: /docs", "SCRIPT-NAME: /docs", "PATH_INFO: /healthz", "X-Forwarded-Proto: https"]
)
def test_no_header_of_a_local_peer_changes_the_path_or_the_scheme(http_server: Server, header: str) -> None:
    def status(path: str) -> bytes:
        with http_server.connect() as wire:
            wire.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n\r\n".encode())
            return b"".join(iter(lambda: wire.recv(65536), b"")).split(b"\r\n")[0]

    assert (status("/docs/healthz"), status("/healthz")) == (b"HTTP/1.1 404 NOT FOUND", b"HTTP/1.1 200 OK")


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
        ("worker_class", "receiver.server.gunicorn_worker.Worker"),
        ("threads", 16),
        ("preload_app", False),
        ("control_socket_disable", True),
        ("graceful_timeout", 20),
        ("timeout", 120),  # as long as the startup probe waits (k8s/chart/templates/deployment.yaml)
        ("accesslog", None),
    ],
)
def test_a_setting_that_the_loop_depends_on_stays(setting: str, value: object) -> None:
    assert getattr(gunicorn_conf, setting) == value


def test_every_setting_is_one_that_gunicorn_knows() -> None:
    from gunicorn.config import Config

    ours = {
        n
        for n in vars(gunicorn_conf)
        if not n.startswith("_") and n not in {"os", "resource", "partial", "Path", "Any"}
    }
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


def test_there_are_files_for_every_connection_and_for_everything_else() -> None:
    """A worker that may open no file more ends, and with it the step that it is taking."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        connections = importlib.reload(gunicorn_conf).worker_connections
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= connections + 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@dataclass
class FakeBootstrap:
    """Notes what it was asked to start and stop."""

    log: list[tuple[str, object]]

    def start(self, app: object) -> None:
        self.log.append(("start", app))

    def tell_to_stop(self, app: object) -> None:
        self.log.append(("tell", app))

    def stop(self, app: object) -> None:
        self.log.append(("stop", app))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    """Put a fake in bootstrap's place and return its log."""
    fake = FakeBootstrap([])
    monkeypatch.setitem(sys.modules, "receiver.server.bootstrap", fake)
    monkeypatch.setattr(server, "bootstrap", fake, raising=False)
    return fake.log


def test_the_hooks_start_and_stop_the_loop_of_the_workers_application(log: list[tuple[str, object]]) -> None:
    worker = SimpleNamespace(wsgi="the app")
    gunicorn_conf.post_worker_init(worker)
    worker.told_to_stop()
    gunicorn_conf.worker_exit(None, worker)
    assert log == [("start", "the app"), ("tell", "the app"), ("stop", "the app")]


def test_a_worker_that_failed_to_load_has_nothing_to_stop(log: list[tuple[str, object]]) -> None:
    gunicorn_conf.worker_exit(None, SimpleNamespace(wsgi=None))
    assert log == []
