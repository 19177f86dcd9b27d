"""gunicorn with our settings over a store in memory, as a process of its own."""

import http.client
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.processes import free_port
from tests.e2e.forked import Forked

ROOT = Path(__file__).parents[2]
TLS = ROOT / "tests" / "e2e" / "tls"
DEADLINE_SECONDS = 60.0


@dataclass
class Server:
    """A gunicorn under test; *trust* is what a client of https needs."""

    process: Forked
    port: int
    output: Path
    notes: Path
    trust: ssl.SSLContext | None = None

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
        """Return the status of the answer."""
        connection = (
            http.client.HTTPSConnection("localhost", self.port, timeout=timeout, context=self.trust)
            if self.trust
            else http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        )
        try:
            connection.request(method, path, body=body, headers=dict(headers), encode_chunked=chunked)
            return connection.getresponse().status
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """Return a new connection; of https its handshake is made."""
        wire = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_SECONDS)
        return self.trust.wrap_socket(wire, server_hostname="localhost") if self.trust else wire

    def stop(self) -> str:
        """Return what it said."""
        self.process.terminate()
        self.process.wait(DEADLINE_SECONDS)
        return self.output.read_text()


@contextmanager
def serving(folder: Path, *, https: bool = False) -> Iterator[Server]:
    """Run gunicorn on a free loopback port until the block ends."""
    port = free_port()
    notes, output = folder / "notes", folder / "output"
    environ = {**os.environ, "GPU_AUTOSCALER_LISTEN": f"127.0.0.1:{port}", "NOTES": str(notes), "HOME": "/nonexistent"}
    if https:
        environ |= {f"GPU_AUTOSCALER_TLS_{part.upper()}_FILE": str(TLS / f"{part}.pem") for part in ("cert", "key")}
    process = Forked(environ, output, "python:tests.web.served")
    trust = ssl.create_default_context(cafile=str(TLS / "cert.pem")) if https else None
    served = Server(process, port, output, notes, trust)
    try:
        give_up_at = time.monotonic() + DEADLINE_SECONDS
        while not served.events():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < give_up_at, "gunicorn did not start"
            time.sleep(0.05)
        yield served
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)
