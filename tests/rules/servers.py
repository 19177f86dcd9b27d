"""Prometheus and Alertmanager as the checkout brings them, started for a test and stopped after it."""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.processes import free_port
from tests.rules.files import binary, sparing


@contextmanager
def running(name: str, log: Path, *arguments: str) -> Iterator[str]:
    """Start a server on a free loopback port, wait until it is ready, yield its URL, stop it."""
    address = f"127.0.0.1:{free_port()}"
    with log.open("w") as out:
        command = [binary(name), f"--web.listen-address={address}", *arguments]
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=sparing())
        try:
            deadline = time.monotonic() + 60
            while not _ready(f"http://{address}/-/ready"):
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield f"http://{address}"
        finally:
            server.terminate()
            server.wait(30)


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def get(url: str) -> Any:
    """GET and decode. An error fails the test with what the server says of it."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{urllib.parse.unquote_plus(url)}: {error.read().decode()}") from None
