"""Nothing that the process ever writes holds a secret, though everybody outside repeats to it what it sent them.

Every secret contains a marker, and one marker is looked for everywhere: in standard output and error, in the store's
files, in every answer over HTTP, in every message.
"""

import contextlib
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
import yaml
from click.testing import CliRunner
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from demo.processes import free_port
from receiver.cli.main import main
from receiver.server.bootstrap import create_app, stop
from tests.e2e.receivers import READABLE_PATHS, Receiver, a_pool
from tests.e2e.waiting import until
from tests.payloads import a_payload

MARK = "MARKED5ecret"
KEY, WEBHOOK, OPERATOR, READER = (f"{MARK}-{what}-0123456789" for what in ("civo", "webhook", "operator", "reader"))
KUBE, CHAT, TEAM, PROM, BELL, DATABASE = (
    f"{MARK}-{what}-0123456789" for what in ("kube", "chat", "team", "prom", "alert", "database")
)
# Where the other side may put what it was sent.
ECHOES = (
    lambda sent: (401, {"code": "authentication_invalid_key", "reason": f"bad key: {sent}", "details": sent}),
    lambda sent: (403, {"code": f"wrong {sent}", "reason": sent}),
    lambda sent: (500, {"code": sent, "status": 500, "reason": sent, "details": f"{sent}\n{sent}"}),
    lambda sent: (429, {"reason": sent, "kind": "Status", "message": sent}),
    lambda sent: (200, {"required_pools": [{"id": sent, "count": sent}], "pools": sent, "kind": sent, "items": sent}),
    lambda sent: (200, f"<html>{sent}</html>"),
    lambda sent: (409, f"<html>{sent}</html>"),
)


class Echo:
    """A server that answers every request with what it was sent; which way changes with every request."""

    def __init__(self, server: HTTPServer) -> None:
        self.server, self.asked, self.bodies = server, 0, b""
        self.paths: set[str] = set()
        server.expect_request(_ANY).respond_with_handler(self._answer)
        self.url = server.url_for("").rstrip("/")

    def _answer(self, request: Request) -> Response:
        sent = " ".join([request.headers.get("Authorization", ""), request.url, request.get_data(as_text=True)])
        self.bodies += request.get_data()
        self.paths.add(request.path)
        status, said = ECHOES[self.asked % len(ECHOES)](sent)
        self.asked += 1
        headers = {"Retry-After": sent.replace("\n", " "), "X-Echo": quote(sent)}
        return Response(json.dumps(said) if isinstance(said, dict) else said, status, headers)


class _Any(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __hash__(self) -> int:
        return hash(str(self))


_ANY = _Any("/")


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    with HTTPServer(host="127.0.0.1", port=0, threaded=True) as server:
        yield Echo(server)


def kubeconfig(path: Path, url: str) -> str:
    """Write a kubeconfig with a token."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": url}}],
        "users": [{"name": "x", "user": {"token": KUBE}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture(scope="module")
def receiver(echo: Echo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """A receiver all of whose neighbours repeat what it sends them, stepping every second."""
    folder = tmp_path_factory.mktemp("secrets")
    host = echo.url.removeprefix("http://")
    environ = {
        "CIVO_API_URL": echo.url,
        "CIVO_API_KEY": KEY,
        "CIVO_CLUSTER_ID": "c1",
        "KUBECONFIG": kubeconfig(folder / "kubeconfig", echo.url),
        "GPU_AUTOSCALER_WEBHOOK_TOKEN": WEBHOOK,
        "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR,
        "GPU_AUTOSCALER_READER_TOKEN": READER,
        "GPU_AUTOSCALER_NOTIFY_URLS": f"json://me:{CHAT}@{host}/hooks/{CHAT}?+X-Key={CHAT} slack://{CHAT}/no/such",
        "GPU_AUTOSCALER_TEAM_NOTIFY_URLS": f"vision=json://{host}/{TEAM}",
    }
    config = {
        "mode": "act",
        "tick": "1s",
        "public_url": "http://127.0.0.1",
        "prometheus": {"url": f"http://me:{PROM}@{host}"},
        "alertmanager": {"urls": [f"http://me:{BELL}@{host}"]},
        "web": {"reading": "token"},
        "budget": {"monthly_usd": 100},
        "pools": [a_pool()],
    }
    found = Receiver(folder / "r", config, environ, folder / "ledger.db").start()
    try:
        found.until_loop("leading")
        yield found
    finally:
        found.end()


def raw(receiver: Receiver, request: bytes) -> bytes:
    """Send *request* as it is, and return the answer."""
    host, _, port = receiver.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        wire.sendall(request)
        wire.settimeout(60)
        found = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            while part := wire.recv(65536):
                found += part
    return found


def an_alert_full_of_addresses(trap: str) -> dict[str, Any]:
    """A payload in which everything that may be an address is *trap*."""
    payload = a_payload()
    payload |= {"externalURL": trap, "commonAnnotations": {"runbook_url": trap}, "groupLabels": {"url": trap}}
    for alert in payload["alerts"]:
        alert |= {"generatorURL": trap, "silenceURL": trap, "dashboardURL": trap, "imageURL": trap}
        alert["annotations"] = {"runbook_url": trap, "summary": f"see {trap}", "description": f"![x]({trap})"}
        alert["labels"] = {**alert["labels"], "instance": trap.removeprefix("http://"), "url": trap}
    return payload


def provoke(receiver: Receiver) -> list[bytes]:
    """Ask for everything, rightly and wrongly; return every answer that is given to somebody without its secret."""
    operator = {"Authorization": f"Bearer {OPERATOR}"}
    answers = []
    for path in READABLE_PATHS:
        for headers in (operator, {"Authorization": f"Bearer {READER}"}, {}):
            answers.append(requests.get(receiver.url + path, headers=headers, timeout=60, allow_redirects=False))
    said = {"kind": "pause", "pool": "l40s", "for": "1h", "who": "ada", "why": "looking"}
    answers.append(requests.post(f"{receiver.url}/api/v1/overrides", json=said, headers=operator, timeout=60))
    answers.append(requests.post(f"{receiver.url}/api/v1/overrides", data=b"\xff{", headers=operator, timeout=60))
    for token in (KEY, OPERATOR, READER, f"{WEBHOOK} ", WEBHOOK[:-1], ""):
        answers.append(receiver.post(a_payload(), token=token))
        answers.append(requests.post(f"{receiver.url}/login", data={"token": f"{token}x"}, timeout=60))
    answers.append(receiver.post(a_payload(), token=WEBHOOK))
    answers.append(receiver.post(b"no json", token=WEBHOOK))
    return [a.content + repr(sorted(a.headers.items())).encode() for a in answers]


# What a client does that holds its secret in the wrong place: it gets an answer, and the secret gets no further.
MISPLACED = (
    b"POST /webhook HTTP/1.1\r\nHost: x\r\nAuthorization Bearer %s\r\n\r\n",
    b"POST /webhook HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n continued\r\n\r\n",
    b"POST /webhook HTTP/1.1\r\nHost: x\r\nAuthorization\x00: Bearer %s\r\n\r\n",
    b"POST /webhook HTTP/1.1\r\nHost: x\r\nBearer %s: x y\r\n\r\n",
    b"%s /webhook HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Bearer %s\r\nHost: x\r\n\r\n",
    b"GET /%s HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET /nowhere?token=%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET /answer/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET /api/v1/pools/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: %s.example.com\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nCookie: gpu_autoscaler_session=%s\r\nConnection: close\r\n\r\n",
    b"POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: %s\r\n\r\n",
    b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n",
)


def written(receiver: Receiver) -> dict[str, bytes]:
    """Everything that the process wrote to files."""
    files = {f.name: f.read_bytes() for f in receiver.store.parent.glob(f"{receiver.store.name}*")}
    assert any(name.endswith("-wal") for name in files)
    return {"output": receiver.output.read_bytes(), **files}


def test_nothing_that_is_written_answered_or_sent_holds_a_secret(receiver: Receiver, echo: Echo) -> None:
    answers = provoke(receiver)
    assert receiver.post(an_alert_full_of_addresses(f"{echo.url}/trap"), token=WEBHOOK).status_code == 202
    with ThreadPoolExecutor(len(MISPLACED)) as clients:
        list(clients.map(partial(raw, receiver), [request % OPERATOR.encode() for request in MISPLACED]))
    until(lambda: echo.asked > 8 * len(ECHOES), "a step that met each way", 60)
    until(lambda: b'"title"' in echo.bodies, "a message", 60)
    answers += provoke(receiver)

    leaks = {where: MARK.encode() in said for where, said in written(receiver).items()}
    leaks |= {f"answer {n}": MARK.encode() in said for n, said in enumerate(answers)}
    leaks["messages"] = MARK.encode() in echo.bodies
    assert [where for where, leaks_here in leaks.items() if leaks_here] == []
    assert "Traceback" not in receiver.said()
    assert len(echo.paths) > 3
    assert [path for path in echo.paths if "trap" in path] == []  # no address in an alert is ever asked


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # of what sends messages
def test_the_doctor_prints_no_secret_of_neighbours_that_repeat_them(receiver: Receiver, echo: Echo) -> None:
    said = ""
    for _ in range(2):  # which way they answer changes with every request
        for url in (receiver.url, echo.url):
            env = {**receiver.environ, "GPU_AUTOSCALER_URL": url}
            for options in (["--send-test-message"], ["--json"], ["release", "--yes"]):
                done = CliRunner(env=env).invoke(main, ["doctor", *options])
                assert done.exit_code == 1, done.output
                said += done.output
    assert "the check itself failed" not in said
    for area in ("civo.", "kubernetes.", "prometheus.", "messages.", "server.", "release."):
        assert area in said
    assert [line for line in said.splitlines() if MARK in line] == []


@pytest.mark.usefixtures("own_logs")
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # of what sends messages
def test_what_cannot_start_says_so_without_a_secret(
    receiver: Receiver, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"prometheus: {{url: 'ftp://me:{PROM}@x'}}\npools: []\n")
    mistaken = {
        "GPU_AUTOSCALER_CONFIG": str(file),
        "CIVO_API_URL": f"ftp://me:{KEY}@x",
        "GPU_AUTOSCALER_OPERATOR_TOKEN": f"{OPERATOR} two",
        "GPU_AUTOSCALER_READER_TOKEN": WEBHOOK,
        "GPU_AUTOSCALER_DATABASE_URL": f"mysql://me:{DATABASE}@x/y",
        "GPU_AUTOSCALER_NOTIFY_URLS": f"{CHAT},{CHAT}",
        "GPU_AUTOSCALER_TEAM_NOTIFY_URLS": f"{TEAM} vision={TEAM}",
        "GPU_AUTOSCALER_LISTEN": KEY,
        "GPU_AUTOSCALER_URL": f"ftp://{OPERATOR}",
    }
    gone = f"postgresql://me:{DATABASE}@127.0.0.1:{free_port()}/x?connect_timeout=1&sslpassword={DATABASE}"
    nowhere = f"http://me:{OPERATOR}@127.0.0.1:{free_port()}"
    calls: list[tuple[tuple[str, ...], dict[str, str]]] = [
        (("check-config",), {**receiver.environ, **mistaken}),
        (("serve",), {**receiver.environ, **mistaken}),
        (("status",), {**receiver.environ, "GPU_AUTOSCALER_URL": nowhere}),
        (("override", "end", "x"), {**receiver.environ, "GPU_AUTOSCALER_URL": receiver.url}),
    ]
    told = [CliRunner().invoke(main, command, env=environ) for command, environ in calls]
    assert [(result.exit_code > 0, bool(result.output)) for result in told] == [(True, True)] * len(calls)
    waits = create_app({**receiver.environ, "GPU_AUTOSCALER_DATABASE_URL": gone})
    try:
        answer = waits.test_client().get("/readyz")
    finally:
        stop(waits)
    assert answer.status_code == 503
    leaks = [result.output for result in told] + [answer.text, capfd.readouterr().out]
    assert "store not open" in leaks[-1]
    assert [said for said in leaks if MARK in said] == []
