"""More than a quiet day brings: a steady storm for minutes, one huge message, slow clients, a store that is stuck.

The storm is offered at a fixed rate, in turns with the bare Flask endpoint, and an answer's time runs from the moment
at which the delivery was due: what waits in the sender counts. Memory is read after each turn; its slope is over the
second half, when caches and heaps have what they need.
"""

import http.client
import json
import os
import socket
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

from benchmarks import memory, webhook
from benchmarks.figures import percentile
from benchmarks.serving import children, serving
from demo.plan import WEBHOOK_TOKEN
from demo.stack import Stack
from receiver.server import gunicorn_conf

MINUTES = float(os.environ.get("OVERLOAD_MINUTES", "4"))  # under load; the bare endpoint takes as long again
PER_SECOND = 200
SENDERS = 16
TURN_SECONDS = 10.0
HUGE = 10_000  # alerts in one message
SLOW = 10 * gunicorn_conf.threads
STUCK_SECONDS = 15.0
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {WEBHOOK_TOKEN}"}

Figures = dict[str, Any]


class Sender(threading.Thread):
    """Sends what is due, each at its moment, or at once when it is late."""

    def __init__(self, address: str, first: int, began: float, seconds: float, per_second: float) -> None:
        super().__init__(daemon=True)
        self.address, self.first, self.began = address, first, began
        self.count, self.every = int(seconds * per_second), 1 / per_second
        self.ends = began + 1.5 * seconds
        self.took: list[float] = []
        self.codes: Counter[int] = Counter()

    def run(self) -> None:
        """Send over one connection, reopened when it was closed, and give up on slow answers."""
        with closing(http.client.HTTPConnection(self.address, timeout=30)) as connection:
            for number in range(self.count):
                due = self.began + number * self.every
                time.sleep(max(0.0, due - time.perf_counter()))
                if time.perf_counter() > self.ends:
                    return
                self.codes[self._answer(connection, self.first + number)] += 1
                self.took.append(time.perf_counter() - due)

    def _answer(self, connection: http.client.HTTPConnection, number: int) -> int:
        """Send one; return the HTTP status, 0 for none."""
        try:
            connection.request("POST", "/webhook", webhook.body(number), HEADERS)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0
        return answer.status


def storm(address: str, seconds: float, per_second: float = PER_SECOND) -> tuple[list[float], Counter[int], float]:
    """Offer *per_second* deliveries; return how long each took in seconds, the answers, and how many came a second."""
    began = time.perf_counter() + 0.1
    each = per_second / SENDERS
    senders = [Sender(address, n * 1_000_000, began + n / per_second, seconds, each) for n in range(SENDERS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    lasted = time.perf_counter() - began
    took = [one for sender in senders for one in sender.took]
    return took, sum((sender.codes for sender in senders), Counter()), len(took) / lasted


def _figures(took: Sequence[float], per_second: Sequence[float], codes: Counter[int]) -> Figures:
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    found: Figures = {name: round(percentile(took, share) * 1000, 2) for name, share in shares.items()}
    return {"per_second": round(median(per_second), 1), **found, "codes": {str(k): n for k, n in sorted(codes.items())}}


def _steady(bare: str, stack: Stack, say: Callable[[str], None]) -> Figures:
    """The steady storm in turns, and what memory does."""
    ours, pids = stack.places.address("receiver"), children(stack.parts["receiver"])
    storm(ours, TURN_SECONDS)  # so that it has loaded what it needs
    took: dict[str, list[float]] = {bare: [], ours: []}
    codes: dict[str, Counter[int]] = {bare: Counter(), ours: Counter()}
    rates: dict[str, list[float]] = {bare: [], ours: []}
    held: list[tuple[float, float]] = []
    began = time.monotonic()
    for _ in range(max(2, round(MINUTES * 60 / TURN_SECONDS))):
        for address in (bare, ours):
            one, answers, rate = storm(address, TURN_SECONDS)
            took[address] += one
            codes[address] += answers
            rates[address].append(rate)
        held.append(((time.monotonic() - began) / 60, memory.of(pids)["together"]))
    found = {name: _figures(took[a], rates[a], codes[a]) for name, a in (("bare", bare), ("webhook", ours))}
    later = held[len(held) // 2 :]
    slope = linear_regression(*zip(*later, strict=True)).slope if len(later) > 1 else 0.0
    for name, figures in found.items():
        say(
            f"overload: {name:<8} {figures['per_second']:.0f} of {PER_SECOND} a second, p50 {figures['p50_ms']:.1f}, "
            f"p95 {figures['p95_ms']:.1f}, p99 {figures['p99_ms']:.1f} ms, answers {figures['codes']}"
        )
    most = max(megabytes for _, megabytes in held)
    say(
        f"overload: {held[0][1]:.0f} MB at first, {held[-1][1]:.0f} MB at last, {slope:+.2f} a minute in its later half"
    )
    mb = {"first": held[0][1], "last": held[-1][1], "most": most, "slope_a_minute": round(slope, 3)}
    ratio = {p: round(found["webhook"][p] / found["bare"][p], 2) for p in ("per_second", "p50_ms", "p95_ms", "p99_ms")}
    return {"minutes": MINUTES, **found, "ratio": ratio, "megabytes": mb}


def _huge(stack: Stack, say: Callable[[str], None]) -> Figures:
    """One message of many alerts."""
    document = json.loads(webhook.body(0))
    alert = document["alerts"][0]
    texts = {"summary": "Pods wait for GPUs.", "description": "Why, since when, and what was tried. " * 15}
    document["alerts"] = [{**alert, "fingerprint": f"{n:016x}", "annotations": texts} for n in range(HUGE)]
    body = json.dumps(document).encode()
    connection = http.client.HTTPConnection(stack.places.address("receiver"), timeout=60)
    began = time.perf_counter()
    connection.request("POST", "/webhook", body, HEADERS)
    status = connection.getresponse().status
    lasted = time.perf_counter() - began
    connection.close()
    megabytes = memory.of(children(stack.parts["receiver"]))["together"]
    say(
        f"overload: {HUGE} alerts in {len(body) / 1e6:.1f} MB: {status} after {lasted:.1f} s, then {megabytes:.0f} MB "
        "of memory"
    )
    return {"alerts": HUGE, "bytes": len(body), "status": status, "seconds": round(lasted, 2), "megabytes": megabytes}


@contextmanager
def _health(stack: Stack) -> Iterator[Figures]:
    """Ask /healthz all the time; the figures are complete when the block is left."""
    ended, took, found = threading.Event(), list[float](), Figures()
    codes: Counter[int] = Counter()

    def ask() -> None:
        while not ended.wait(0.1):
            connection = http.client.HTTPConnection(stack.places.address("receiver"), timeout=30)
            began = time.perf_counter()
            try:
                connection.request("GET", "/healthz")
                codes[connection.getresponse().status] += 1
            except OSError:
                codes[0] += 1
            took.append(time.perf_counter() - began)
            connection.close()

    steps = stack.get("receiver", "/healthz")["steps"]
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield found
    finally:
        ended.set()
        asking.join()
    found["steps"] = stack.get("receiver", "/healthz")["steps"] - steps
    found["health"] = {"codes": {str(k): n for k, n in codes.items()}, "longest_ms": round(max(took) * 1000, 1)}


def _slow(stack: Stack, say: Callable[[str], None]) -> Figures:
    """Deliveries while many clients never end their requests."""
    host, port = stack.places.address("receiver").split(":")
    with ExitStack() as opened, _health(stack) as found:
        for number in range(SLOW):
            client = opened.enter_context(socket.create_connection((host, int(port))))
            client.sendall(b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"[: 30 + 50 * (number % 2)])
        took, codes, rate = storm(f"{host}:{port}", TURN_SECONDS, PER_SECOND / 5)
    say(
        f"overload: beside {SLOW} clients that never end their requests p99 {percentile(took, 0.99) * 1000:.1f} ms, "
        f"answers {dict(codes)}, /healthz {found['health']}, {found['steps']} steps"
    )
    return {"clients": SLOW, **_figures(took, [rate], codes), **found}


def _stuck(stack: Stack, folder: Path, say: Callable[[str], None]) -> Figures:
    """The storm while another connection holds the store's lock; raise RuntimeError for a 202 that was not kept."""
    file = next(folder.rglob("*.db"))
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as other:
        kept = other.execute("SELECT count(*) FROM deliveries").fetchone()[0]
        other.execute("BEGIN IMMEDIATE")
        with _health(stack) as found:
            took, codes, rate = storm(stack.places.address("receiver"), STUCK_SECONDS)
        other.execute("ROLLBACK")
        more = other.execute("SELECT count(*) FROM deliveries").fetchone()[0] - kept
    if codes[202] > more or any(400 <= code < 500 for code in codes):
        raise RuntimeError(f"while the store was stuck: {dict(codes)}, of which {more} are in it")
    say(
        f"overload: while the store is stuck answers {dict(codes)}, {rate:.0f} a second, longest {max(took):.1f} s, "
        f"/healthz {found['health']}, {found['steps']} steps"
    )
    return {"seconds": STUCK_SECONDS, "longest_seconds": round(max(took), 2), **_figures(took, [rate], codes), **found}


def run(say: Callable[[str], None]) -> Figures:
    """Measure everything and return the result to keep; say the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as name,
        webhook.bare_endpoint(Path(name)) as bare,
        serving(Path(name) / "stack") as stack,
    ):
        steady = _steady(bare, stack, say)
        slow = _slow(stack, say)
        stuck = _stuck(stack, Path(name), say)
        huge = _huge(stack, say)
    passed = huge["status"] == 202 and all(set(x["health"]["codes"]) == {"200"} for x in (slow, stuck))
    return {
        "what": "answers to a steady storm beside a bare endpoint's, memory, and what becomes of slow clients, a stuck "
        "store and one huge message",
        "settings": {"per_second": PER_SECOND, "senders": SENDERS, "turn_seconds": TURN_SECONDS},
        "figures": {"steady": steady, "slow_clients": slow, "stuck_store": stuck, "huge_message": huge},
        "passed": passed,
    }
