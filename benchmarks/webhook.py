"""The cost of a durable webhook: deliveries per second and the slowest ones, against a bare Flask endpoint.

Both are served by gunicorn with the product's settings. The autoscaler's loop runs: every delivery wakes it, so
it steps without a pause and shares the processor, as it would during a storm of alerts.
"""

import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import percentile
from benchmarks.serving import serving
from demo.configs import ROOT, plain_environment
from demo.plan import WEBHOOK_TOKEN
from demo.processes import Process, free_port
from receiver.server import gunicorn_conf

CLIENTS = 4
DELIVERIES = 400  # of each client
WARM_UP = 50
ROUNDS = 5
LEAST_PER_SECOND, MOST_P99_MS = 100.0, 50.0

Figures = dict[str, float]


def body(number: int) -> bytes:
    """Return one delivery as Alertmanager 0.25 and later send it (webhook payload version 4)."""
    pool = f"5f3c0000-0000-4000-8000-{number % 8 + 1:012}"
    labels = {"alertname": "GpuPodsPending", "component": "gpu-autoscaler", "action": "scale_up", "pool": pool}
    alert = {
        "status": "firing",
        "labels": labels,
        "annotations": {"summary": "Pods wait for GPUs."},
        "startsAt": "2026-01-01T00:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": f"{number % 8:016x}",
    }
    return json.dumps(
        {
            "version": "4",
            "groupKey": f'{{}}:{{alertname="GpuPodsPending", pool="{pool}", number="{number}"}}',
            "truncatedAlerts": 0,
            "status": "firing",
            "receiver": "gpu-autoscaler",
            "groupLabels": {"alertname": "GpuPodsPending", "pool": pool},
            "commonLabels": labels,
            "commonAnnotations": {},
            "externalURL": "",
            "alerts": [alert],
        }
    ).encode()


def _client(address: str, first: int, count: int, took: list[float], bad: list[int]) -> None:
    """Send *count* deliveries one after the other over one connection, reopened when the server closes it."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {WEBHOOK_TOKEN}"}
    connection = http.client.HTTPConnection(address, timeout=30)
    for number in range(first, first + count):
        said = body(number)
        began = time.perf_counter()
        connection.request("POST", "/webhook", said, headers)
        answer = connection.getresponse()
        answer.read()
        took.append(time.perf_counter() - began)
        if answer.status != 202:
            bad.append(answer.status)
    connection.close()


def load(address: str) -> Figures:
    """Send deliveries from several clients at once; return deliveries per second and milliseconds.

    Raises RuntimeError when one was not answered with 202.
    """
    warm: list[float] = []
    bad: list[int] = []
    _client(address, 0, WARM_UP, warm, bad)
    took: list[float] = []
    threads = [
        threading.Thread(target=_client, args=(address, (n + 1) * 1_000_000, DELIVERIES, took, bad))
        for n in range(CLIENTS)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lasted = time.perf_counter() - began
    if bad or len(took) != CLIENTS * DELIVERIES:
        raise RuntimeError(f"{len(took)} of {CLIENTS * DELIVERIES} answered, not with 202: {sorted(set(bad))}")
    return {
        "per_second": round(len(took) / lasted, 1),
        "p50_ms": round(percentile(took, 0.5) * 1000, 2),
        "p99_ms": round(percentile(took, 0.99) * 1000, 2),
        "max_ms": round(max(took) * 1000, 2),
    }


@contextmanager
def bare_endpoint(folder: Path) -> Iterator[str]:
    """Serve the bare endpoint with gunicorn as the product is served, without its hooks; yield the address."""
    address = f"127.0.0.1:{free_port()}"
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        f"--worker-class={gunicorn_conf.worker_class}",
        f"--threads={gunicorn_conf.threads}",
        "--workers=1",
    ]
    command += ["--no-control-socket", f"--bind={address}", "benchmarks.bare:app"]

    def ready() -> bool:
        try:
            _client(address, 0, 1, [], [])
        except OSError:
            return False
        return True

    process = Process("bare", command, ready, folder / "bare.log", plain_environment(), ROOT)
    try:
        process.start()
        yield address
    finally:
        process.stop()


def _middle(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure over the rounds."""
    return {name: round(median(figures[name] for figures in rounds), 2) for name in rounds[0]}


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure both and return the result to keep; say the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder,
        bare_endpoint(Path(folder)) as bare_address,
        serving(Path(folder) / "stack") as stack,
    ):
        # In turns, so that what else the machine does meets both.
        rounds = [(load(bare_address), load(stack.places.address("receiver"))) for _ in range(ROUNDS)]
    bare, ours = (_middle(figures) for figures in zip(*rounds, strict=True))
    ratio = {"per_second": round(ours["per_second"] / bare["per_second"], 3)}
    ratio["p99"] = round(ours["p99_ms"] / bare["p99_ms"], 2)
    for name, figures in (("bare Flask endpoint", bare), ("webhook, kept durably", ours)):
        say(
            f"webhook: {name:<22} {figures['per_second']:7.1f} a second, p50 {figures['p50_ms']:.1f} ms, "
            f"p99 {figures['p99_ms']:.1f} ms"
        )
    say(f"webhook: {ratio['per_second']:.0%} of the bare endpoint's throughput, {ratio['p99']:.1f} times its p99")
    return {
        "what": "deliveries per second and milliseconds to the answer, four clients at once, SQLite in a file",
        "settings": {
            "clients": CLIENTS,
            "deliveries": CLIENTS * DELIVERIES,
            "rounds": ROUNDS,
            "worker": f"{gunicorn_conf.worker_class}, {gunicorn_conf.threads} threads",
        },
        "figures": {"bare": bare, "webhook": ours},
        "ratio": ratio,
        "rounds": [{"bare": one, "webhook": other} for one, other in rounds],
        "bound": {"per_second": LEAST_PER_SECOND, "p99_ms": MOST_P99_MS},
        "passed": ours["per_second"] >= LEAST_PER_SECOND and ours["p99_ms"] <= MOST_P99_MS,
    }
