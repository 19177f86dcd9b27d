"""What a policy on idle workloads ends and saves, on traces in which a third of the jobs hold GPUs after their work.

``python -m benchmarks.idle DIR [AFTER ...]`` plays every ``*.csv`` of a folder (docs/replay-traces.md has the form) on
one pool of 8-GPU nodes: as it was, with idle tails, and with them under ``idle_shutdown: {covers: [namespace/*],
action: scale_to_zero}`` for each AFTER (``2h`` and ``15m`` unless given). Each job is a StatefulSet. Which jobs have a
tail, of 2 to 12 hours, and which pause in their work, for up to nine tenths of AFTER, is drawn with the seed that is
printed: in pauses and tails DCGM shows 0 % and unchanged memory. The judge looks every five minutes, where the product
does so every minute. Costs are USD of started hours. The exit status is 1 when the policy ended less than 90 % of the
idle hours beyond AFTER and the grace, or anything that was at work, or when something does not add up.
"""

import logging
import os
import random
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import structlog

from benchmarks.shapes import MOST_GPUS, PRICE, ZERO, pools
from receiver.capabilities.idle_shutdown.chore import scale_idle_workloads_to_zero
from receiver.capabilities.registry import step_additions
from receiver.config.values import duration
from receiver.core.model.installations import ALONE
from receiver.core.model.policy import IdleAction, IdlePolicy, Limits, Policy
from receiver.replay.contest import Product, the_product
from receiver.replay.figures import Figures, figures, violations
from receiver.replay.play import Played, Setting, play
from receiver.replay.traces import load_jobs
from receiver.replay.world.activity import held_memory
from receiver.replay.world.cluster import Key
from receiver.replay.world.objects import Job, WorldPod
from receiver.step.gather import Looked, Sources
from receiver.step.parts import Additions, Chore, StepContext
from simulator.cluster_port import SimulatedCluster
from simulator.world import ChangingPods, SimulatedTelemetry, World

SETTING = Setting(driver=timedelta(seconds=30), delete=ZERO)
AFTERS = ("2h", "15m")
HOUR = timedelta(hours=1)
A_SECOND = timedelta(seconds=1)
LOOK_EVERY = timedelta(minutes=5)
TAILS = (2 * 3600, 12 * 3600)  # seconds: the shortest and the longest
PART = 1 / 3  # of the jobs
PAUSE = "benchmarks/pause"  # the annotation with a pause in the work: its beginning and length, in seconds
ENOUGH = 0.9


def seed_of(trace: str) -> str:
    return f"idle:{trace}:1"


def with_tails(jobs: Sequence[Job], trace: str, after: timedelta) -> list[Job]:
    """Return *jobs* as StatefulSets, a third of them with an idle tail, and a third of all with a pause in their
    work that is shorter than *after*. The tails are the same for every *after*."""
    dice, pauses = random.Random(seed_of(trace)), random.Random(f"{seed_of(trace)}:pauses")
    changed = []
    for job in jobs:
        tail = timedelta(seconds=round(dice.uniform(*TAILS))) if dice.random() < PART else ZERO
        annotations = dict(job.annotations)
        if pauses.random() < PART:
            length = pauses.uniform(0.1, 0.9) * after.total_seconds()
            if length < job.duration.total_seconds():
                begin = pauses.uniform(0, job.duration.total_seconds() - length)
                annotations[PAUSE] = f"{begin:.0f} {length:.0f}"
        changed.append(
            replace(
                job,
                owner_kind="StatefulSet",
                duration=job.duration + tail,
                idle_tail=tail,
                annotations=annotations,
            )
        )
    return changed


class PausingPods(ChangingPods):
    """Pods that pause in their work, and whose job is done once it is ended in its tail."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ended_at_work: list[str] = []
        self.ended_idle: list[str] = []

    def _start(self, key: Key, uid: str) -> None:
        super()._start(key, uid)
        pod = self._cluster.living(key, uid)
        if pod is not None and pod.started_at == self._agenda.now and PAUSE in pod.annotations:
            begin, length = (timedelta(seconds=float(part)) for part in pod.annotations[PAUSE].split())
            self._agenda.after(begin, self._work, key, uid, 0.0)
            self._agenda.after(begin + length, self._work, key, uid, pod.gpu_util)

    def _work(self, key: Key, uid: str, engine: float) -> None:
        pod = self._cluster.living(key, uid)
        if pod is not None and pod.deletion_at is None and not self._rests(pod):
            self.work(*key, engine=engine, memory=held_memory(pod))

    def _rests(self, pod: WorldPod) -> bool:
        at = pod.started_at
        work = pod.duration - pod.idle_tail if pod.duration is not None else None
        return bool(pod.idle_tail) and at is not None and work is not None and self._agenda.now >= at + work

    def scale_to_zero(self, kind: str, namespace: str, name: str) -> None:
        of_owner = (p for p in self._cluster.active.values() if (p.owner_kind, p.owner_name) == (kind, name))
        for pod in tuple(of_owner):
            if self._rests(pod):
                self.ended_idle.append(pod.name)
                self._jobs.succeeded(pod, self._agenda.now)
            else:
                self.ended_at_work.append(pod.name)
        super().scale_to_zero(kind, namespace, name)


class HeldWorld(World):
    """A world of such pods."""

    parts = (*World.parts[:2], PausingPods, *World.parts[3:])
    _pods: PausingPods

    @property
    def ended(self) -> tuple[int, int]:
        """How many pods were scaled to zero in their tail, and at work."""
        return len(self._pods.ended_idle), len(self._pods.ended_at_work)


class Policed(Product):
    """The product with the chore of idle shutdown, which a replay leaves out, on a world with metrics of pods."""

    def __init__(self, world: HeldWorld, policy: Policy, additions: Additions) -> None:
        judging = Chore(name="idle_shutdown", make=self._judge)
        super().__init__(world, policy, replace(additions, look_chores=(), chores=(*additions.chores, judging)))
        cluster = SimulatedCluster(world)
        self._sources: Sources = replace(self._sources, cluster=cluster, telemetry=SimulatedTelemetry(world))
        self._hands = replace(self._hands, cluster=cluster)
        self._judged_at: datetime | None = None

    def _judge(self, work: StepContext) -> datetime | None:
        pods = [pod for state in work.facts.pools for node in state.nodes for pod in node.pods]
        if not pods:
            return None
        if self._judged_at is None or work.now - self._judged_at >= LOOK_EVERY:
            self._judged_at = work.now
            looked = SimpleNamespace(
                facts=work.facts, trusted=True, before=None, pods=(*pods, *work.facts.waiting), others=ALONE
            )
            scale_idle_workloads_to_zero(work, cast("Looked", looked), self._sources)
        return self._judged_at + LOOK_EVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One play: its figures, the GPU-hours held after the work, and how many pods were ended idle and at work."""

    figures: Figures
    idle_hours: float
    ended_idle: int = 0
    ended_at_work: int = 0
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One trace: GPU-hours of tails, and of their parts beyond the policy, by *after*; the runs."""

    trace: str
    tails: int
    idle_hours: float
    beyond: Mapping[str, float]
    plain: Run
    held: Run
    policed: Mapping[str, Run]


def run(jobs: Sequence[Job], idle: IdlePolicy | None) -> Run:
    policy = Policy(pools=pools((8,)), limits=Limits(max_gpus=MOST_GPUS), idle=idle or IdlePolicy())
    contestant = the_product("product", policy, SETTING, step_additions())
    world = HeldWorld(SETTING.world_config(contestant.pools), SETTING.start)
    controller: Any = contestant.make(world, {}, jobs)
    if idle is not None:
        controller = Policed(world, controller.policy, step_additions())
    played = play(world, jobs, controller, SETTING.reaction())
    lasted = {job.id: job.finished_at - job.started_at for job in played.finished}
    # What was ended early did not hold its GPUs for its duration, which the check would not believe.
    ended = {job.id for job in jobs if job.id in lasted and lasted[job.id] < job.duration - A_SECOND}
    whole = replace(played, finished=tuple(job for job in played.finished if job.id not in ended))
    most = {pool.id: pool.max_nodes for pool in policy.pools}
    prices = {pool.size: pool.price_usd_per_hour for pool in policy.pools}
    idle_pods, at_work = world.ended
    return Run(
        figures=figures("product", played, prices, by_the_hour=True),
        idle_hours=_idle_hours(jobs, lasted),
        ended_idle=idle_pods,
        ended_at_work=at_work,
        wrong=(*violations([job for job in jobs if job.id not in ended], whole, most), *_lost(played)),
    )


def _idle_hours(jobs: Sequence[Job], lasted: Mapping[str, timedelta]) -> float:
    """The GPU-hours that *jobs* held after their work."""
    ran = [job for job in jobs if job.id in lasted]
    return sum(job.gpus * (max(lasted[job.id] - job.duration + job.idle_tail, ZERO) / HOUR) for job in ran)


def _lost(played: Played) -> Sequence[str]:
    lost = [job.id for job in played.left]
    return [f"{len(played.kills)} kills, {len(lost)} lost"] if played.kills or lost else []


def compare(path: Path, afters: Sequence[str]) -> Row:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    jobs = load_jobs(path, SETTING.start)
    grace = Policy(pools=()).idle_shutdown_grace
    policed, beyond = {}, {}
    for text in afters:
        after = duration(text)
        held_jobs = with_tails(jobs, path.stem, after)
        idle = IdlePolicy(namespaces=frozenset({"*"}), after=after, action=IdleAction.SCALE_TO_ZERO)
        policed[text] = run(held_jobs, idle)
        beyond[text] = sum(job.gpus * (max(job.idle_tail - after - grace, ZERO) / HOUR) for job in held_jobs)
    tails = [job for job in held_jobs if job.idle_tail]
    return Row(
        trace=path.stem,
        tails=len(tails),
        idle_hours=sum(job.gpus * (job.idle_tail / HOUR) for job in tails),
        beyond=beyond,
        plain=run(jobs, None),
        held=run(held_jobs, None),
        policed=policed,
    )


def _usd(run: Run) -> float:
    return run.figures.gpu_hours_started * float(PRICE)


def _summary(after: str, rows: Sequence[Row]) -> tuple[str, bool]:
    """One line on all of *rows* under *after*, and whether they meet the bounds."""
    idle, left = sum(r.held.idle_hours for r in rows), sum(r.policed[after].idle_hours for r in rows)
    beyond = sum(r.beyond[after] for r in rows)
    ended = idle - left
    at_work = sum(r.policed[after].ended_at_work for r in rows)
    plain, held, policed = (
        sum(map(_usd, runs))
        for runs in ([r.plain for r in rows], [r.held for r in rows], [r.policed[after] for r in rows])
    )
    line = (
        f"after {after}: ended {ended / idle:.1%} of {idle:,.0f} idle GPU-hours, "
        f"{min(ended / beyond, 1):.1%} of those beyond {after} and the grace; pods ended idle "
        f"{sum(r.policed[after].ended_idle for r in rows)}, at work {at_work}; cost ${held:,.0f} -> ${policed:,.0f} "
        f"(${plain:,.0f} without tails): {(held - policed) / (held - plain):.1%} of what the tails cost"
    )
    return line, at_work == 0 and ended / beyond >= ENOUGH


def main(arguments: Sequence[str]) -> int:
    """Play and print; return the exit status."""
    paths, afters = sorted(Path(arguments[0]).glob("*.csv")), arguments[1:] or AFTERS
    status = 0
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        rows = []
        for row in processes.map(partial(compare, afters=afters), paths):
            rows.append(row)
            print(
                f"{row.trace:16} seed {seed_of(row.trace)!r}  tails {row.tails} ({row.idle_hours:,.0f} GPU-hours)  "
                f"cost ${_usd(row.plain):,.0f} without, ${_usd(row.held):,.0f} with tails",
                *(
                    f"; after {after}: ${_usd(r):,.0f}, idle {r.idle_hours:,.0f}, ended idle {r.ended_idle}, at work "
                    f"{r.ended_at_work}"
                    for after, r in row.policed.items()
                ),
                *row.plain.wrong,
                *row.held.wrong,
                *(wrong for r in row.policed.values() for wrong in r.wrong),
                flush=True,
            )
            status |= any(r.wrong for r in (row.plain, row.held, *row.policed.values()))
    for after in afters:
        line, is_met = _summary(after, rows)
        print(line, flush=True)
        status |= not is_met
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
