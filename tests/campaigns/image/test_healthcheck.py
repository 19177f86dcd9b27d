"""`python -m receiver.server.healthcheck`: what the image's health check asks, and what it makes of the answer."""

import http.client
import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from receiver.config.environment import LISTEN
from receiver.server import healthcheck
from receiver.server.healthcheck import asked

TLS = Path(__file__).parents[2] / "e2e" / "tls"


@contextmanager
def answering(status: int, *, tls: bool = False) -> Iterator[int]:
    """Yield the port of a server on loopback that answers everything but /healthz with 404."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()
            self.wfile.write(b'{"status": "so"}\n')

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", ""])
def test_it_asks_the_port_at_which_the_server_listens(host: str) -> None:
    with answering(200) as port:
        assert asked({"GPU_AUTOSCALER_LISTEN": f"{host}:{port}"}) == (200, '{"status": "so"}')


def test_it_asks_over_https_where_the_server_has_a_certificate() -> None:
    with answering(200, tls=True) as port:
        where = {"GPU_AUTOSCALER_LISTEN": f"0.0.0.0:{port}", "GPU_AUTOSCALER_TLS_CERT_FILE": str(TLS / "cert.pem")}
        assert asked(where)[0] == 200


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_only_200_is_well(
    status: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(status) as port:
        monkeypatch.setenv("GPU_AUTOSCALER_LISTEN", f"127.0.0.1:{port}")
        monkeypatch.delenv("GPU_AUTOSCALER_TLS_CERT_FILE", raising=False)
        assert healthcheck.main() == code
    assert capsys.readouterr().out == '{"status": "so"}\n'


def test_no_answer_is_not_well(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200) as port:
        pass
    monkeypatch.setenv("GPU_AUTOSCALER_LISTEN", f"127.0.0.1:{port}")
    assert healthcheck.main() == 1
    assert capsys.readouterr().out.startswith("no answer from /healthz: ")


def test_without_a_variable_it_asks_where_the_server_listens_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = []

    def refuse(connection: http.client.HTTPConnection) -> None:
        connected.append((connection.host, connection.port))
        raise ConnectionRefusedError

    monkeypatch.setattr("http.client.HTTPConnection.connect", refuse)
    with pytest.raises(ConnectionRefusedError):
        asked({})
    assert connected == [("127.0.0.1", int(LISTEN.rpartition(":")[2]))]
