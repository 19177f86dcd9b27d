"""The memory use of the autoscaler: gunicorn's master and its worker, idle and after a storm of alerts.

Pages that both share are counted once (PSS, proc_pid_smaps(5)); the resident set of each by itself is kept, too.
"""

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import requests

from benchmarks import webhook
from benchmarks.serving import POOLS, children, serving
from demo.stack import Stack

BOUND_MB = 150  # the chart requests 160 MiB; the libraries that are imported take about 100 of it
SETTLES_SECONDS = 25.0  # two ticks and a heartbeat's worth of steps
STORMS = 3
PAGES = ("/", "/costs", "/sources", "/metrics", "/api/v1/status")


def of(pids: Sequence[int]) -> dict[str, float]:
    """Return megabytes (10**6 bytes): of all together, and the resident set of master and worker."""
    read = [Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii") for pid in pids]
    resident = [_megabytes(text, "Rss") for text in read]
    return {
        "together": round(sum(_megabytes(text, "Pss") for text in read), 1),
        "master_rss": round(resident[0], 1),
        "worker_rss": round(max(resident[1:], default=0.0), 1),
    }


def _megabytes(rollup: str, key: str) -> float:
    found = re.search(rf"^{key}:\s+(\d+) kB", rollup, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def _storm(stack: Stack) -> None:
    """Send alerts from many clients and read every page."""
    webhook.load(stack.places.address("receiver"))
    with requests.Session() as session:
        session.trust_env = False
        for page in PAGES:
            session.get(stack.places.url("receiver") + page, timeout=30).raise_for_status()


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure and return the result to keep; say the figures."""
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder, serving(Path(folder)) as stack:
        pids = children(stack.parts["receiver"])
        time.sleep(SETTLES_SECONDS)
        found = {"idle": of(pids)}
        for _ in range(STORMS):
            _storm(stack)
        found["loaded"] = of(pids)
    passed = all(figures["together"] < BOUND_MB for figures in found.values())
    for name, figures in found.items():
        say(
            f"memory: {name:<6} {figures['together']:.0f} MB together (resident: master "
            f"{figures['master_rss']:.0f} MB, worker {figures['worker_rss']:.0f} MB)"
        )
    say(f"memory: the bound is {BOUND_MB} MB together: {'held' if passed else 'missed'}")
    return {
        "what": "megabytes of gunicorn's master and worker, shared pages once, idle and after three storms of alerts",
        "settings": {"pools": POOLS, "deliveries": STORMS * webhook.CLIENTS * webhook.DELIVERIES, "pages": PAGES},
        "figures": found,
        "bound_mb": BOUND_MB,
        "passed": passed,
    }
