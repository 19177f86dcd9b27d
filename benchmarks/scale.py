"""How a step's time and memory grow with the number of pools, nodes and pending pods, and with what exponent.

Each size runs in a process of its own: the product's own step over the simulated world, with the store of a replay and
with SQLite in a file. Nothing changes between the steps that are measured: that is what a tick costs.
"""

import gc
import logging
import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import structlog

from receiver.adapters.store import open_store
from receiver.core.model.policy import Policy, Pool
from receiver.ports import StepStore
from receiver.replay.kubernetes import WorldCluster
from receiver.replay.play import Setting
from receiver.replay.ports import WorldAlarms, WorldCloud, WorldTelemetry
from receiver.replay.store import ReplayStore
from receiver.replay.world import Job
from receiver.step.carry_out import Hands
from receiver.step.gather import Sources
from receiver.step.reconcile import step

START = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
GPU = "nvidia.com/gpu"
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
NODES, PENDING = 2, 5  # for each pool
SIZES = {"memory": (1, 10, 100, 1000), "sqlite": (1, 10, 100)}
STEPS = 5
SETTLES = 40  # steps of 30 s until every node is up
DAY = timedelta(days=1)


def _pool(number: int) -> Pool:
    """A pool that may hold the nodes it is about to get and no more: what else waits goes on waiting."""
    return Pool(
        id=f"pool-{number:04}",
        name=f"p{number:04}",
        size=f"an.g1.l40s.kube.x{number % 4 + 1}",
        resources={GPU: 8},
        max_nodes=NODES,
        price_usd_per_hour=Decimal("10.32"),
        grow_cooldown=timedelta(0),
    )


def _jobs(pools: int) -> list[Job]:
    """Jobs of one whole node that name their pool: as many as there is room for, and PENDING more."""
    return [
        Job(
            id=f"job-{pool:04}-{number}",
            submit_at=START,
            duration=30 * DAY,
            pods=1,
            gpus_per_pod=8,
            namespace="bench",
            node_selector={POOL_LABEL: f"pool-{pool:04}"},
        )
        for number in range(NODES + PENDING)
        for pool in range(pools)
    ]


def measure(kind: str, pools: int) -> dict[str, float]:
    """Return the seconds of a step (median and worst) and the megabytes that the process came to hold."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    before = _megabytes()
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder:
        policy = Policy(pools=tuple(_pool(n) for n in range(pools)))
        world = Setting(start=START, driver=timedelta(0)).world(policy.pools)
        if kind == "sqlite":
            store: StepStore = open_store(f"sqlite:///{Path(folder) / 'store.db'}")
        else:
            store = ReplayStore(priced=False)
        cloud, cluster = WorldCloud(world), WorldCluster(world)
        sources = Sources(
            cloud=cloud,
            cluster=cluster,
            telemetry=WorldTelemetry(world),
            alarms=WorldAlarms(world),
            store=store,
            accounts=None,
        )
        hands = Hands(cloud=cloud, cluster=cluster, may_write=lambda: True)
        for job in _jobs(pools):
            world.submit(job)

        def one_step() -> float:
            world.advance(world.now + timedelta(seconds=30))
            gc.collect()
            began = time.perf_counter()
            step(sources, hands, policy, "act", world.now, chores=kind == "sqlite")
            return time.perf_counter() - began

        for _ in range(SETTLES):
            one_step()
            if sum(1 for pod in world.pods.values() if pod.node) >= NODES * pools:
                break
        else:
            raise RuntimeError(f"{pools} pools were not full after {SETTLES} steps")
        one_step()
        took = [one_step() for _ in range(STEPS)]
    return {"median_seconds": median(took), "max_seconds": max(took), "megabytes": _megabytes() - before}


def _megabytes() -> float:
    """The most that this process has held so far (VmHWM, proc_pid_status(5); getrusage counts who started it, too)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def exponent(rows: Sequence[dict[str, Any]], key: str, *, least: int = 10) -> float:
    """Return the slope of log *key* over log pools (least squares) for *least* pools and more; 1 is linear."""
    points = [(math.log(r["pools"]), math.log(r[key])) for r in rows if r["pools"] >= least and r[key] > 0]
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return float(sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points))


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure every size and return the result to keep; say the figures."""
    figures: dict[str, list[dict[str, Any]]] = {}
    growth: dict[str, dict[str, float]] = {}
    for kind, sizes in SIZES.items():
        figures[kind] = []
        for pools in sizes:
            with multiprocessing.get_context("spawn").Pool(1) as process:
                found = process.apply(measure, (kind, pools))
            row = {"pools": pools, "nodes": NODES * pools, "pending": PENDING * pools}
            figures[kind].append({**row, **{name: round(value, 4) for name, value in found.items()}})
            say(
                f"scale: {kind:<6} {pools:5} pools, {NODES * pools} nodes, {PENDING * pools} pending pods: "
                f"a step takes {found['median_seconds'] * 1000:.1f} ms (worst {found['max_seconds'] * 1000:.1f} ms), "
                f"{found['megabytes']:.0f} MB"
            )
        growth[kind] = {
            name: round(exponent(figures[kind], key), 2)
            for name, key in (("seconds", "median_seconds"), ("megabytes", "megabytes"))
        }
        slopes = growth[kind]
        say(f"scale: {kind}: exponent from 10 pools on: time {slopes['seconds']}, memory {slopes['megabytes']}")
    return {
        "what": "seconds of a step in which nothing changes, and megabytes over an empty process, by number of pools",
        "settings": {"nodes_per_pool": NODES, "pending_per_pool": PENDING, "steps": STEPS},
        "figures": figures,
        "exponent": growth,
    }
