"""The speed of a replay, and its growth: the product's own steps over a synthetic month.

1,000 to 30,000 jobs of 30 days (`benchmarks.month`), on nodes of eight GPUs and of one, billed by the started hour;
and one month of 3,000 jobs whose budget is three quarters of what it costs. Each is replayed by a process of its own.
Events are the changes of the world's pods and nodes, and the steps. The bound is on CPU time: a replay does nothing
else, and what the machine does beside it is not its own.
"""

import gc
import logging
import math
import multiprocessing
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import structlog

from benchmarks.month import a_month
from receiver.capabilities.registry import step_additions
from receiver.core.model.policy import Budget, Policy, Pool
from receiver.replay.contest import the_product
from receiver.replay.figures import violations
from receiver.replay.play import Setting, play
from receiver.replay.world.objects import GPU, Job

SEED = 1
HOUR = timedelta(hours=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
COUNTS = {8: (1_000, 3_000, 10_000, 30_000), 1: (1_000, 3_000, 10_000, 30_000)}  # jobs by GPUs per node
SIZES = {8: "an.g1.l40s.kube.x8", 1: "an.g1.l40s.kube.x1"}
PRICE_PER_GPU = Decimal("1.29")
MOST_GPUS = 4_096
THE_MONTH = (10_000, 8)  # jobs, GPUs per node: what the bound is about
MOST_CPU_SECONDS = 60.0
SHORT = (3_000, 8)  # what has too small a budget: with thousands of waiting jobs a step takes longer
SHARE_OF_COST = Decimal("0.75")


def policy(gpus: int, budget: Decimal | None = None) -> Policy:
    """Return one pool of nodes with *gpus* GPUs, large enough for every job at once; *budget* in USD a month."""
    pool = Pool(
        id="pool",
        name="pool",
        size=SIZES[gpus],
        resources={GPU: gpus},
        max_nodes=MOST_GPUS // gpus,
        price_usd_per_hour=PRICE_PER_GPU * gpus,
    )
    return Policy(pools=(pool,), budget=None if budget is None else Budget(monthly_usd=budget))


def on_nodes_of(gpus: int, jobs: Sequence[Job]) -> list[Job]:
    """Return *jobs* with their pods cut to nodes of *gpus* GPUs; what was one pod is a gang then."""
    return [
        job
        if job.gpus_per_pod <= gpus
        else replace(job, pods=job.gpus // gpus, gpus_per_pod=gpus, gang=job.gpus > gpus)
        for job in jobs
    ]


def one(count: int, gpus: int, budget: Decimal | None = None) -> dict[str, Any]:
    """Replay one month; return what it took. Raises RuntimeError when something does not add up."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    jobs = on_nodes_of(gpus, a_month(count, SEED, START))
    setting = Setting(start=START)
    contestant = the_product("default", policy(gpus, budget), setting, step_additions())
    world = setting.world(contestant.pools)
    controller = contestant.make(world, {"pool": MOST_GPUS // gpus}, jobs)
    gc.collect()
    began, began_cpu = time.perf_counter(), time.process_time()
    played = play(world, jobs, controller, setting.reaction())
    took, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    if wrong := violations(jobs, played, {"pool": MOST_GPUS // gpus}):
        raise RuntimeError(f"{count} jobs on nodes of {gpus} GPUs: {wrong[0]}")
    events = world.version + played.looks
    return {
        "jobs": count,
        "gpus_per_node": gpus,
        "budget_usd": None if budget is None else str(budget),
        "seconds": round(took, 1),
        "cpu_seconds": round(cpu, 1),
        "steps": played.looks,
        "events": events,
        "events_per_second": round(events / took),
        "node_starts": len(played.lives),
        "started_hours": sum(math.ceil(((vm.gone_at or played.end) - vm.created_at) / HOUR) for vm in played.lives),
        "resident_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def exponent(rows: Sequence[dict[str, Any]]) -> float:
    """The slope of log(CPU seconds) over log(jobs), by least squares: 1 is linear."""
    points = [(math.log(row["jobs"]), math.log(max(row["cpu_seconds"], 0.1))) for row in rows]
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    slope: float = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
    return slope


def run(say: Callable[[str], None], counts: Mapping[int, Sequence[int]] = COUNTS) -> dict[str, Any]:
    """Measure and return the result to keep; say the figures."""
    rows: list[dict[str, Any]] = []
    growth = {}
    for gpus, jobs in counts.items():
        mine = []
        for count in jobs:
            mine.append(_alone(count, gpus))
            say(f"replay: {_said(mine[-1])}")
        growth[str(gpus)] = round(exponent(mine), 2)
        say(f"replay: nodes of {gpus} GPUs: CPU time grows with jobs to the power of {growth[str(gpus)]:.2f}")
        rows += mine
    found = {(row["jobs"], row["gpus_per_node"]): row for row in rows}
    cost = found[SHORT]["started_hours"] * PRICE_PER_GPU * SHORT[1]
    short = _alone(*SHORT, (cost * SHARE_OF_COST).quantize(Decimal(1)))
    say(f"replay: {_said(short)}")
    took = found[THE_MONTH]["cpu_seconds"]
    say(f"replay: a month of {THE_MONTH[0]:,} jobs: {took:.1f} s of CPU; at most {MOST_CPU_SECONDS:.0f} s allowed")
    return {
        "what": "seconds for a replay of 30 days under one policy",
        "settings": {"seed": SEED, "days": 30, "most_cpu_seconds": MOST_CPU_SECONDS},
        "figures": rows,
        "growth_exponent": growth,
        "beyond_its_budget": short,
        "passed": took <= MOST_CPU_SECONDS,
    }


def _alone(count: int, gpus: int, budget: Decimal | None = None) -> dict[str, Any]:
    """`one` in a process of its own, whose memory is that of this replay alone."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        return processes.submit(one, count, gpus, budget).result()


def _said(row: dict[str, Any]) -> str:
    budget = f", a budget of USD {row['budget_usd']}" if row["budget_usd"] else ""
    return (
        f"{row['jobs']:>6,} jobs, {row['gpus_per_node']} GPUs a node{budget}: {row['seconds']:7.1f} s "
        f"({row['cpu_seconds']:.1f} s of CPU), {row['steps']:,} steps, {row['events_per_second']:,} events a second, "
        f"{row['node_starts']:,} nodes started"
    )
