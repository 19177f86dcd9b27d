"""What the autoscaler costs a cluster at rest: calls of the API server per minute and memory, by many nodes and pods.

The real server under gunicorn watches the simulator's cluster; nothing changes there while it is measured. It was
started before, on the same store: a first start also loads what makes the tables.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from benchmarks.memory import of
from benchmarks.serving import children
from demo.plan import PoolPlan, StackPlan
from demo.stack import Stack

NODES, GPUS = 110, 8
RUNNING, MISFITS, PLAIN = 800, 400, 800  # pods with a GPU on a node, those that fit nowhere, those without a GPU
SETTLES_SECONDS = 360.0  # by then every pod that fits nowhere has its Event
MINUTES = 10  # the longest watch
MOST_CALLS, BOUND_MB = 40, 150
DAY = "24h"


def _stack(folder: Path) -> Stack:
    pool = PoolPlan(
        name="gpu",
        id="5f3c0000-0000-4000-8000-000000000001",
        size="an.g1.l40s.kube.x8",
        gpus=GPUS,
        price="10.32",
        min_nodes=NODES,
        max_nodes=NODES,
        count=NODES,
    )
    plan = StackPlan(pools=(pool,), watch=True, receiver={"prometheus": None, "alertmanager": None})
    return Stack(plan, folder)


def _jobs() -> list[dict[str, Any]]:
    """The work of the cluster, as jobs of the simulator."""
    return [
        {"id": "runs", "pods": RUNNING, "gpus_per_pod": 1, "duration": DAY},
        {
            "id": "fits-nowhere",
            "pods": MISFITS,
            "gpus_per_pod": 1,
            "duration": DAY,
            "node_selector": {"none": "has-it"},
        },
        {"id": "plain", "pods": PLAIN, "gpus_per_pod": 0, "duration": DAY},
    ]


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure and return the result to keep; say the figures."""
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder, requests.Session() as session:
        session.trust_env = False
        stack = _stack(Path(folder))
        try:
            stack.parts["simulator"].start()
            simulator = stack.places.url("simulator")
            session.post(f"{simulator}/_jobs", json=_jobs(), timeout=120).raise_for_status()
            stack.parts["receiver"].start()
            stack.parts["receiver"].stop()
            stack.parts["receiver"].start()
            time.sleep(SETTLES_SECONDS)

            def calls() -> int:
                return int(session.get(f"{simulator}/_calls", timeout=30).json()["kubernetes"])

            before = calls()
            time.sleep(60 * MINUTES)
            each_minute = (calls() - before) / MINUTES
            memory = of(children(stack.parts["receiver"]))
        finally:
            stack.stop()
    say(f"rest: {each_minute:.1f} calls of the Kubernetes API per minute, over {MINUTES} minutes")
    say(f"rest: {memory['together']:.0f} MB together (resident: worker {memory['worker_rss']:.0f} MB)")
    return {
        "what": "calls of the Kubernetes API per minute and megabytes, where nothing changes",
        "settings": {"nodes": NODES, "pods": RUNNING + MISFITS + PLAIN, "minutes": MINUTES},
        "figures": {"calls_per_minute": round(each_minute, 1), "memory": memory},
        "bounds": {"calls_per_minute": MOST_CALLS, "worker_mb": BOUND_MB},
        "passed": each_minute <= MOST_CALLS and memory["worker_rss"] <= BOUND_MB,
    }
