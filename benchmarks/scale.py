"""How a step's time and memory grow with the number of pools, nodes and pending pods, and with what exponent.

Each size runs in a process of its own: the product's own step over the simulated world, with the store of a replay and
with SQLite in a file. Nothing changes between the steps that are measured: that is what a tick costs. The kind
``kubernetes`` reads the same nodes and pods from an API server in another process: by lists at each step, and by the
reflectors once they are warm.
"""

import gc
import logging
import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import structlog
from kubernetes import client

from benchmarks.api_server import counted, serving
from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.kubernetes.reflector import Watching
from receiver.adapters.store import open_store
from receiver.capabilities.registry import readers, step_additions
from receiver.config.settings import load_text
from receiver.core.model.policy import Policy, Pool
from receiver.ports import Cluster, StepStore
from receiver.replay.play import Setting
from receiver.replay.ports import WorldAlarms, WorldCloud
from receiver.replay.store import ReplayStore
from receiver.replay.world.objects import Job, PodSpec
from receiver.step.gather import Sources
from receiver.step.parts import Hands
from receiver.step.reconcile import step
from simulator.cluster_port import SimulatedCluster
from simulator.kubernetes_objects import node_json, pod_json
from simulator.world import SimulatedTelemetry, World

START = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
SETTING = Setting(start=START, driver=timedelta(0))
GPU = "nvidia.com/gpu"
CONFIGURATION = """
pools:
  - {name: l40s, civo_pool_id: l40s-id, size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, max_nodes: 1}
"""
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
NODES, PENDING = 2, 5  # for each pool
SIZES = {"memory": (1, 10, 100, 1000), "sqlite": (1, 10, 100, 1000)}
FULL_POOLS, PODS_ON_EACH = 10, 10  # where the number of nodes is what grows
FULL_NODES = {"nodes": (100, 1000, 5000), "kubernetes": (1000,)}
STEPS = 6  # a minute of ticks
SETTLES = 40  # steps of 30 s until every node is up
DAY = timedelta(days=1)
IDLE_SECONDS = 60.0
TICK_SECONDS = 10.0
MOST_EXPONENT = 1.1
MOST_WARM_SECONDS = 1.5  # of a step over 10 pools, 1,000 nodes, 10,000 pods


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


class Bench:
    """The product's step over *world*, with a store of *kind*."""

    def __init__(self, kind: str, policy: Policy, world: World, folder: str) -> None:
        self.policy, self.world = policy, world
        if kind == "memory":
            store: StepStore = ReplayStore(priced=False)
        else:
            store = open_store(f"sqlite:///{Path(folder) / 'store.db'}")
        cloud = WorldCloud(world)
        self.sources = Sources(
            cloud=cloud,
            cluster=SimulatedCluster(world),
            telemetry=SimulatedTelemetry(world),
            alarms=WorldAlarms(world),
            store=store,
            readers=kind != "memory",
            accounts=None,
            never_jumps=True,
        )
        self.hands = Hands(cloud=cloud, cluster=SimulatedCluster(world), may_write=lambda: True)

    def reads(self, cluster: Cluster) -> None:
        """Read nodes and pods from *cluster* from now on."""
        self.sources = replace(self.sources, cluster=cluster)

    def step(self, after: float = TICK_SECONDS) -> float:
        """Take a step so many seconds *after* the last one; return how long it took, in seconds."""
        self.world.advance(self.world.now + timedelta(seconds=after))
        gc.collect()
        began = time.perf_counter()
        step(self.sources, self.hands, self.policy, "act", self.world.now, step_additions())
        return time.perf_counter() - began

    def figures(self) -> dict[str, float]:
        """Return the seconds of a step in which nothing changes; the worst is one that keeps the account of usage,
        which happens once a minute."""
        self.step()
        took = [self.step() for _ in range(STEPS)]
        return {"median_seconds": median(took), "max_seconds": max(took)}


def measure(kind: str, size: int) -> dict[str, float]:
    """Return the seconds of a step (median and worst) and the megabytes that the process came to hold.

    *size* is the number of pools, or of full nodes for the kinds of FULL_NODES.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    before = _megabytes()
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder:
        if kind in SIZES:
            found = _growing(kind, size, folder).figures()
        elif kind == "nodes":
            found = _full(size, folder).figures()
        else:
            found = _over_http(_full(size, folder))
    return {**found, "megabytes": _megabytes() - before}


def _growing(kind: str, pools: int, folder: str) -> Bench:
    """Return *pools* pools that have bought their nodes, with pods that go on waiting."""
    policy = Policy(pools=tuple(_pool(n) for n in range(pools)))
    bench = Bench(kind, policy, World(SETTING.world_config(policy.pools), START), folder)
    for job in _jobs(pools):
        bench.world.submit(job)
    for _ in range(SETTLES):
        bench.step(after=30)
        if sum(1 for pod in bench.world.pods.values() if pod.node) >= NODES * pools:
            return bench
    raise RuntimeError(f"{pools} pools were not full after {SETTLES} steps")


def _full(nodes: int, folder: str) -> Bench:
    """Return a few pools of *nodes* nodes in all, each with pods that run."""
    each = nodes // FULL_POOLS
    pools = tuple(replace(_pool(n), max_nodes=each, resources={GPU: PODS_ON_EACH}) for n in range(FULL_POOLS))
    world = World(SETTING.world_config(pools), START)
    for pool in pools:
        world.begin_with(pool.id, each)
    world.advance(START + timedelta(minutes=10))
    for node in world.nodes.values():
        for number in range(PODS_ON_EACH):
            world.add_pod(PodSpec(namespace="bench", name=f"{node.name}-{number}", requests={GPU: 1}, node=node.name))
    world.advance(START + timedelta(minutes=15))
    return Bench("nodes", Policy(pools=pools), world, folder)


def _over_http(bench: Bench) -> dict[str, float]:
    """Return the figures of steps that list, of steps over warm reflectors, and the bytes of an idle minute."""
    nodes, pods = map(node_json, bench.world.nodes.values()), map(pod_json, bench.world.pods.values())
    with ExitStack() as opened:
        url = opened.enter_context(serving(list(nodes), list(pods)))
        configuration = load_text(CONFIGURATION).configuration
        cluster = KubernetesCluster(client.Configuration(host=url), readers=readers(configuration))
        opened.callback(cluster.close)
        bench.reads(cluster)
        bench.step()
        before = counted(url)
        listing = bench.figures()
        listed = (counted(url) - before) / (STEPS + 1) * IDLE_SECONDS / TICK_SECONDS
        cluster.watch(Watching(leads=lambda: True, wake=lambda: None))
        bench.step()
        time.sleep(1.0)
        warm = bench.figures()
        before, ends = counted(url), time.monotonic() + IDLE_SECONDS
        while time.monotonic() < ends:
            cluster.look()
            time.sleep(TICK_SECONDS)
        watched = counted(url) - before
    return {
        **warm,
        "median_seconds_listing": listing["median_seconds"],
        "bytes_per_idle_minute": watched,
        "bytes_per_idle_minute_listing": listed,
    }


def _megabytes() -> float:
    """The most that this process has held so far (VmHWM, proc_pid_status(5); getrusage counts who started it, too)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def exponent(rows: Sequence[dict[str, Any]], key: str, *, by: str = "pools", least: int = 10) -> float:
    """Return the slope of log *key* over log *by* (least squares) from *least* on; 1 is linear."""
    points = [(math.log(r[by]), math.log(r[key])) for r in rows if r[by] >= least and r[key] > 0]
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return float(sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points))


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure every size and return the result to keep; say the figures."""
    figures: dict[str, list[dict[str, Any]]] = {}
    growth: dict[str, dict[str, float]] = {}
    for kind, sizes in {**SIZES, **FULL_NODES}.items():
        figures[kind] = []
        for size in sizes:
            with multiprocessing.get_context("spawn").Pool(1, initializer=_may_have_children) as process:
                found = process.apply(measure, (kind, size))
            row = {"pools": size, "nodes": NODES * size, "pending": PENDING * size, "running": NODES * size}
            if kind in FULL_NODES:
                row = {"pools": FULL_POOLS, "nodes": size, "pending": 0, "running": PODS_ON_EACH * size}
            figures[kind].append({**row, **{name: round(value, 4) for name, value in found.items()}})
            say(
                f"scale: {kind:<10} {row['pools']:5} pools, {row['nodes']} nodes, {row['pending']} pending and "
                f"{row['running']} running pods: a step takes {found['median_seconds'] * 1000:.1f} ms "
                f"(worst {found['max_seconds'] * 1000:.1f} ms), {found['megabytes']:.0f} MB"
            )
        if len(sizes) > 1:
            by = "nodes" if kind in FULL_NODES else "pools"
            least = min(s for s in sizes if s >= 10)
            growth[kind] = {
                name: round(exponent(figures[kind], key, by=by, least=least), 2)
                for name, key in (("seconds", "median_seconds"), ("megabytes", "megabytes"))
            }
            slopes = growth[kind]
            say(f"scale: {kind}: exponent from {least} {by} on: time {slopes['seconds']}, memory {slopes['megabytes']}")
    [warm] = figures["kubernetes"]
    say(
        f"scale: kubernetes: {warm['median_seconds'] * 1000:.0f} ms with watches, "
        f"{warm['median_seconds_listing'] * 1000:.0f} ms with lists; bytes of an idle minute: "
        f"{warm['bytes_per_idle_minute']:.0f} with watches, {warm['bytes_per_idle_minute_listing']:.0f} with lists"
    )
    linear = all(slopes["seconds"] <= MOST_EXPONENT for slopes in growth.values())
    return {
        "what": "seconds of a step in which nothing changes, and megabytes over an empty process, by number of pools",
        "settings": {"nodes_per_pool": NODES, "pending_per_pool": PENDING, "steps": STEPS},
        "figures": figures,
        "exponent": growth,
        "bounds": {"exponent": MOST_EXPONENT, "warm_seconds": MOST_WARM_SECONDS},
        "passed": linear and warm["median_seconds"] <= MOST_WARM_SECONDS,
    }


def _may_have_children() -> None:
    """Let a process of the pool start the API server (daemonic processes may not)."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
