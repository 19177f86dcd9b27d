"""The programs that the checkout brings start on their own, with the rules and routes that it ships."""

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.rules.files import EVERY_RULE, RULE_FILES, RULES, binary


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _running(name: str, log: Path, *arguments: str) -> Iterator[str]:
    """Start a server on a free loopback port, wait until it is ready, yield its URL, stop it."""
    address = f"127.0.0.1:{_free_port()}"
    with log.open("w") as out:
        server = subprocess.Popen(
            [binary(name), f"--web.listen-address={address}", *arguments], stdout=out, stderr=subprocess.STDOUT
        )
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
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def test_prometheus_starts_and_loads_every_rule(tmp_path: Path) -> None:
    config = tmp_path / "prometheus.yml"
    config.write_text(f"rule_files: {[str(file) for file in RULE_FILES]}\n")
    paths = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}")

    with _running("prometheus", tmp_path / "log", *paths) as url:
        groups = _get(f"{url}/api/v1/rules")["data"]["groups"]

    assert sorted(r["name"] for g in groups for r in g["rules"]) == sorted(rule.name for rule in EVERY_RULE)


def test_alertmanager_starts_with_the_routes_that_we_ship(tmp_path: Path) -> None:
    paths = (f"--config.file={RULES / 'alertmanager.yml'}", f"--storage.path={tmp_path / 'data'}")

    with _running("alertmanager", tmp_path / "log", *paths, "--cluster.listen-address=") as url:
        receivers = _get(f"{url}/api/v2/receivers")

    assert {r["name"] for r in receivers} == {"gpu-autoscaler", "humans", "nobody"}
