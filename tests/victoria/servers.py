"""Prometheus and VictoriaMetrics, each with an empty database, fed with the same samples by remote write."""

import http.client
import json
import struct
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo.configs import plain_environment
from demo.processes import Process, answers, free_port, wait_until
from demo.stack import binary
from tests.victoria.worlds import Labels, World

BATCH = 1800  # seconds of samples in one request: Prometheus accepts what is at most an hour older than the newest
LITERAL = 65536


class Server:
    """A server with Prometheus' HTTP API at *port* of this machine."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def query(self, expr: str, at: float) -> list[tuple[Labels, float]]:
        """Return what *expr* yields at *at* by its labels, without the name. Raises ValueError with the error."""
        found = self._asked("query", query=expr, time=_moment(at))
        if found["resultType"] == "scalar":
            return [((), float(found["result"][1]))]
        return [(_labels(one["metric"]), float(one["value"][1])) for one in found["result"]]

    def query_range(self, expr: str, start: float, end: float, step: int) -> list[tuple[Labels, float]]:
        """Return the same for each point from *start* to *end*, with its time as a label."""
        options = {"start": _moment(start), "end": _moment(end), "step": f"{step}s", "nocache": "1"}
        found = self._asked("query_range", query=expr, **options)
        return [
            ((*_labels(one["metric"]), ("at", f"{float(at):.0f}")), float(value))
            for one in found["result"]
            for at, value in one["values"]
        ]

    def write(self, body: bytes, path: str) -> None:
        """Send samples. Raises ValueError with the error."""
        headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
        self._connection.request("POST", path, body, {**headers, "X-Prometheus-Remote-Write-Version": "0.1.0"})
        answer = self._connection.getresponse()
        said = answer.read().decode()
        if answer.status >= 300:
            raise ValueError(said)

    def get(self, path: str) -> bytes:
        """GET *path*."""
        self._connection.request("GET", path)
        return self._connection.getresponse().read()

    def _asked(self, how: str, **query: str) -> Any:
        body = urllib.parse.urlencode(query)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", f"/api/v1/{how}", body, headers)
        answer = json.loads(self._connection.getresponse().read())
        if answer["status"] != "success":
            raise ValueError(answer["error"])
        return answer["data"]


def _moment(at: float) -> str:
    """VictoriaMetrics takes a small number for another unit."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _labels(metric: Mapping[str, str]) -> Labels:
    return tuple(sorted((name, value) for name, value in metric.items() if name != "__name__"))


@contextmanager
def both(world: World, folder: Path) -> Iterator[tuple[Server, Server]]:
    """A Prometheus and a VictoriaMetrics that have the samples of *world*."""
    ports = [free_port()]
    ports.append(free_port(ports))
    address = [f"127.0.0.1:{port}" for port in ports]
    (folder / "prometheus.yml").write_text("{}")
    prometheus = [
        binary("prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/prometheus",
        f"--web.listen-address={address[0]}",
        "--web.enable-remote-write-receiver",
    ]
    victoria = [
        binary("victoria-metrics"),
        f"-httpListenAddr={address[1]}",
        f"-storageDataPath={folder}/victoria",
        "-retentionPeriod=100y",
        "-search.disableCache",
    ]
    environment = plain_environment()
    started = [
        Process(name, command, answers(f"http://{at}/{health}"), folder / f"{name}.log", environment, folder)
        for name, command, at, health in (
            ("prometheus", prometheus, address[0], "-/ready"),
            ("victoria-metrics", victoria, address[1], "health"),
        )
    ]
    with ExitStack() as stopping:
        for process in started:
            stopping.callback(process.kill)  # nothing of it is needed any more
            process.spawn()
        for process in started:
            process.wait_ready()
        servers = Server(ports[0]), Server(ports[1])
        for body in batches(world):
            for server in servers:
                server.write(body, "/api/v1/write")
        servers[1].get("/internal/force_flush")
        end = max(world.samples)
        written = f"count(last_over_time({{__name__=~'.+'}}[{max(end, 1)}s]))"
        wait_until(lambda: bool(servers[1].query(written, end + 1)), 20, "what was written can be read")
        yield servers


def batches(world: World) -> Iterator[bytes]:
    """Yield the samples as bodies of remote write."""
    series: dict[Labels, list[tuple[int, float]]] = {}
    began = 0
    for moment, found in world.samples.items():
        if series and moment - began >= BATCH:
            yield snappy(write_request(series))
            series = {}
        if not series:
            began = moment
        for labels, value in found.items():
            series.setdefault(labels, []).append((moment, value))
    yield snappy(write_request(series))


def write_request(series: Mapping[Labels, Sequence[tuple[int, float]]]) -> bytes:
    """Return the protobuf message prometheus.WriteRequest."""
    return b"".join(_field(1, _series(labels, samples)) for labels, samples in series.items())


def _series(labels: Labels, samples: Sequence[tuple[int, float]]) -> bytes:
    names = (_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels if value)
    values = (_field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(at * 1000)) for at, value in samples)
    return b"".join((*names, *values))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def snappy(content: bytes) -> bytes:
    """Return *content* in snappy's format, uncompressed."""
    parts = [_varint(len(content))]
    for at in range(0, len(content), LITERAL):
        part = content[at : at + LITERAL]
        parts += [b"\xf4", struct.pack("<H", len(part) - 1), part]
    return b"".join(parts)
