"""The default policy and its peers on real traces: what is paid and how long jobs wait, by Cluster Autoscaler's.

The traces are not part of this repository: they have licences of their own. TRACES names the folder they
are in, else it is ``traces``; docs/evidence.md says where they are from. Without any, a generated month stands in.
"""

import csv
import logging
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
import yaml

from benchmarks.month import a_month
from benchmarks.peers import ALL
from demo.configs import ROOT
from receiver.cli.replay_run import OURS, USD_PER_GPU_HOUR, ReplayRequest, fitting, lineup, read
from receiver.replay.contest import contest
from receiver.replay.figures import Ratio, over_all, ratio
from receiver.replay.play import BillingUnit, Setting

FOLDER = "TRACES"
AGAINST = "cluster-autoscaler"
MAX_GPUS = 320
GENERATED_JOBS = 400
ZERO = timedelta(0)
TYPED = frozenset({"build", "boot", "driver", "delete", "billing"})


@dataclass(frozen=True, slots=True)
class Configuration:
    """One table. *sizes* are the GPUs of our pools' nodes; what it is compared with has nodes of *base* GPUs."""

    name: str
    billing: BillingUnit
    sizes: tuple[int, ...]
    base: int
    peers: tuple[str, ...] = (AGAINST,)


CONFIGURATIONS = (
    Configuration("hour, 8-GPU nodes", "hour", (8,), 8, tuple(ALL)),
    Configuration("hour, 1-GPU nodes", "hour", (1,), 1),
    Configuration("second, 8-GPU nodes", "second", (8,), 8),
    Configuration("hour, nodes of 1, 2, 4 and 8 GPUs", "hour", (1, 2, 4, 8), 8),
)


def setting_of(configuration: Configuration) -> Setting:
    """120 s until a node is Ready, 30 s more until its GPUs can be used; ours is woken as shipped."""
    return Setting(
        build=timedelta(seconds=100),
        boot=timedelta(seconds=20),
        driver=timedelta(seconds=30),
        delete=ZERO,
        billing=configuration.billing,
    )


def ours(sizes: Sequence[int]) -> dict[str, Any]:
    """A configuration of pools of those sizes at one price per GPU, 320 GPUs in all; nothing else is said."""
    return {
        "pools": [
            {
                "name": f"gpu{size}",
                "civo_pool_id": f"replay-{size}",
                "size": f"an.g1.l40s.kube.x{size}",
                "resources": {"nvidia.com/gpu": size},
                "max_nodes": MAX_GPUS // size,
                "price_usd_per_hour": float(size * USD_PER_GPU_HOUR),
            }
            for size in sizes
        ],
        "limits": {"max_gpus": MAX_GPUS},
    }


def replay(path: Path, configuration: Configuration) -> list[dict[str, Any]]:
    """Return the figures of every policy on one trace, ours first."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    began = time.perf_counter()
    setting = setting_of(configuration)
    base = ReplayRequest(
        compare=configuration.peers,
        gpus_per_node=configuration.base,
        max_gpus=MAX_GPUS,
        setting=setting,
        typed=TYPED,
        split_pods=configuration.sizes == (1,),
        skip_misfits=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(yaml.safe_dump(ours(configuration.sizes)), encoding="utf-8")
        first = lineup(replace(base, config=file, compare=()))
        others = lineup(base, ALL)
    trace = fitting(read(path, base, others), base, others)
    contestants = [first.contestants[0], *others.contestants[1:]]
    results = contest(trace.jobs, contestants, replace(others.setting, start=trace.start))
    against = next(r.figures for r in results if r.name == AGAINST)
    rows = []
    for result in results:
        found = ratio(result.figures, against, by_the_hour=setting.by_the_hour)
        rows.append(
            {
                "trace": path.stem,
                **result.figures.document(),
                "ratio": asdict(found) if found else None,
                "violations": list(result.violations),
            }
        )
    rows[0]["seconds"] = round(time.perf_counter() - began, 1)
    return rows


def generated(folder: Path) -> list[Path]:
    """Write a generated month into *folder* as a trace; return it."""
    start = Setting().start
    path = folder / "generated.csv"
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["job_id", "submit_s", "duration_s", "gpus", "pods", "gpus_per_pod"])
        for job in a_month(GENERATED_JOBS, 1, start):
            at, lasts = (job.submit_at - start).total_seconds(), job.duration.total_seconds()
            writer.writerow([job.id, at, lasts, job.gpus, job.pods, job.gpus_per_pod])
    return [path]


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what one policy came to over all traces, by Cluster Autoscaler's."""
    found = [Ratio(**row["ratio"]) for row in rows if row["ratio"]]
    mean = over_all(found)
    return {
        "policy": rows[0]["name"],
        "cost": mean.cost,
        "wait": mean.wait,
        "better_on_both": sum(r.cost < 1 and r.wait < 1 for r in found),
        "traces": len(rows),
        "most_starts": max((r.starts for r in found), default=0),
        "kills": sum(row["kills"] for row in rows),
        "jobs_lost": sum(row["jobs_lost"] for row in rows),
        "violations": sum(len(row["violations"]) for row in rows),
    }


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Replay every trace under every configuration, as many at once as there are cores; say and return the tables."""
    folder = Path(os.environ.get(FOLDER) or ROOT / "traces")
    with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as own:
        paths = sorted(folder.glob("*.csv"))
        stand_in = not paths
        if stand_in:
            paths = generated(Path(own))
            say(f"policy: no trace in {folder.name}/ (or {FOLDER}): a generated month of {GENERATED_JOBS} jobs instead")
        tables: dict[str, Any] = {}
        with ProcessPoolExecutor(os.cpu_count()) as processes:
            for configuration in CONFIGURATIONS:
                found = list(processes.map(replay, paths, [configuration] * len(paths)))
                policies = list(zip(*found, strict=True))
                means = [summary(rows) for rows in policies]
                tables[configuration.name] = {"means": means, "traces": [row for rows in found for row in rows]}
                _say(configuration, means, say)
    return {
        "what": "paid GPU-hours and mean wait (+ 1 s) by Cluster Autoscaler's: geometric means over traces",
        "settings": {
            "traces": [path.stem for path in paths],
            "generated": stand_in,
            "ready_seconds": 120,
            "driver_seconds": 30,
            "tick_seconds": Setting().tick.total_seconds(),
            "watch_seconds": (Setting().watch or ZERO).total_seconds(),
            "max_gpus": MAX_GPUS,
        },
        "figures": tables,
        "passed": all(
            m["kills"] == m["jobs_lost"] == m["violations"] == 0
            for table in tables.values()
            for m in table["means"]
            if m["policy"] == OURS
        ),
    }


def _say(configuration: Configuration, means: Sequence[dict[str, Any]], say: Callable[[str], None]) -> None:
    say(f"policy: {configuration.name}; against {AGAINST} on nodes of {configuration.base} GPUs")
    for mean in means:
        say(
            f"policy:   {mean['policy']:<24} cost {mean['cost']:.3f}, wait {mean['wait']:.3f}, better on both in "
            f"{mean['better_on_both']} of {mean['traces']}, at most {mean['most_starts']:.2f} times the node starts, "
            f"{mean['kills']} kills, {mean['jobs_lost']} lost"
        )
