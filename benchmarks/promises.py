"""Whether promises come true: the share of waiting jobs that began by the promised p50 and p90.

``python -m benchmarks.promises DIR [--pulls]`` plays every ``*.csv`` of a folder (docs/replay-traces.md has the form)
with the product's step on one pool of 8-GPU nodes billed by the hour. Build, boot and driver take 100, 20 and 30 s,
each spread evenly by 20 %. Counted is the first promise to each job that waits for a node, once the pool has shown
how long its nodes take; jobs placed at once get none. A job that begins at the promised moment came true. With
--pulls each job has one of three images, drawn by its name, which a node pulls once: in 10 s, 2 and 8 min, spread
alike. The exit status is 1 when a share is outside its goal.
"""

import logging
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import structlog

from benchmarks.shapes import MOST_GPUS, pools
from receiver.capabilities.registry import step_additions
from receiver.core.explain.explain import State, fates
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Limits, Policy, Pool
from receiver.core.money.budget import month_of
from receiver.core.money.cost import A_WEEK
from receiver.core.promises.promise import Promise
from receiver.core.promises.startup import learn
from receiver.core.scaling.packing import LAST_WORKLOADS
from receiver.replay.contest import Contestant, Product, contest
from receiver.replay.play import Setting
from receiver.replay.traces import load_jobs
from receiver.replay.world.objects import IMAGE_ANNOTATION, Job, WorldConfig
from receiver.replay.world.world import World

HOW: Mapping[str, Any] = {"driver": timedelta(seconds=30), "delete": timedelta(0), "jitter": 0.2}
PULLS = {"app:small": timedelta(seconds=10), "app:large": timedelta(minutes=2), "app:huge": timedelta(minutes=8)}
GOALS = {"p50": (0.45, 0.55), "p90": (0.88, 0.93)}  # what each share must be between


class Pulling(Setting):
    """A new node pulls the image of its first job."""

    def world_config(self, pools: Sequence[Pool]) -> WorldConfig:
        config = super().world_config(pools)
        return replace(config, timings=replace(config.timings, pulls=PULLS))


def with_image(job: Job) -> Job:
    """*job* with the image that its name draws."""
    image = sorted(PULLS)[sha256(job.id.encode()).digest()[0] % len(PULLS)]
    return replace(job, annotations={**job.annotations, IMAGE_ANNOTATION: image})


class Promising(Product):
    """The product, and the first promise that it makes to each job, with its state."""

    def __init__(self, world: World, policy: Policy) -> None:
        super().__init__(world, policy, step_additions(), priced=True)
        self.first: dict[str, tuple[State, Promise]] = {}

    def look(self, now: datetime) -> datetime | None:
        again, stepped = super().look(now), self.stepped
        assert stepped is not None
        if all(_job(pod) in self.first for pod in stepped.facts.waiting):
            return again
        lives = self.store.node_lives(min(month_of(now, self.policy.timezone).start, now - A_WEEK))
        learnt = learn(lives, self.store.lasted(LAST_WORKLOADS))
        for workload, fate in fates(stepped.facts, stepped.assignment, stepped.decisions, self.policy, learnt=learnt):
            if fate.promise.learnt and fate.state is not State.FITS_FREE_NODE:
                self.first.setdefault(_job(workload.pods[0]), (fate.state, fate.promise))
        return again


def _job(pod: Pod) -> str:
    return pod.owner.partition("/")[2]


def judged(path: Path, setting: Setting) -> tuple[str, Counter[str]]:
    """Play the trace in *path* in *setting*; return its name and how many promises were made and kept."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    policy = Policy(pools=pools((8,)), limits=Limits(max_gpus=MOST_GPUS))
    made: list[Promising] = []

    def make(world: World, _most: object, _jobs: object) -> Promising:
        made.append(Promising(world, policy))
        return made[0]

    contestant = Contestant(name="promises", kind="policy", pools=policy.pools, make=make)
    jobs = [with_image(job) for job in load_jobs(path, start=setting.start)]
    (result,) = contest(jobs, [contestant], setting)
    assert result.played is not None
    kept: Counter[str] = Counter()
    for job in result.played.finished:
        if (first := made[0].first.get(job.id)) is not None:
            state, promise = first
            assert promise.starts_p50 is not None
            assert promise.starts_p90 is not None
            kept.update(["made", state])
            for name, at in (("p50", promise.starts_p50), ("p90", promise.starts_p90)):
                kept.update([name, f"{state} {name}"] if job.started_at <= at else [])
    return path.stem, kept


def main(arguments: Sequence[str]) -> int:
    """Play each trace of the folder named; return the exit status."""
    total: Counter[str] = Counter()
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        setting = Pulling(**HOW) if "--pulls" in arguments else Setting(**HOW)
        for name, kept in processes.map(partial(judged, setting=setting), sorted(Path(arguments[0]).glob("*.csv"))):
            print(row(name, kept), flush=True)
            total += kept
    print(row("all", total))
    for state in (s for s in State if total[s]):
        print(row(state, Counter({"made": total[state], **{name: total[f"{state} {name}"] for name in GOALS}})))
    return int(not all(low <= total[name] / total["made"] <= high for name, (low, high) in GOALS.items()))


def row(name: str, kept: Counter[str]) -> str:
    """One line: how many promises, and the shares that came true."""
    shares = "".join(f"{kept[share] / max(kept['made'], 1):>9.1%} by {share}" for share in GOALS)
    return f"{name:<16}{kept['made']:>6} promises{shares}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
