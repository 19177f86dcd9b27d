"""What it is worth that half of the jobs may wait for four hours, on traces.

``python -m benchmarks.patience DIR [SIZES ...]`` plays every ``*.csv`` of a folder (docs/replay-traces.md has the form)
on pools of so many GPUs a node (``8`` and ``1,2,4,8`` unless SIZES says otherwise), once with only urgent jobs and once
with half of the jobs behind the scheduling gate. Which half is drawn by the trace's name, unless the trace itself has
``may_wait_s``. Cost is GPU-hours as started, each as a ratio to Cluster Autoscaler's on one pool of 8-GPU nodes, as the
geometric mean over traces. The exit status is 1 when a job was lost, a pod lost its node, or something does not add up.
"""

import logging
import os
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import geometric_mean

import structlog

from benchmarks.shapes import MOST_GPUS, PEER, ZERO, pools
from receiver.capabilities.registry import step_additions
from receiver.core.model.policy import Limits, Policy
from receiver.ports import MAY_WAIT
from receiver.replay.contest import Result, a_peer, contest, the_product
from receiver.replay.figures import A_SECOND
from receiver.replay.peers import PEERS
from receiver.replay.play import Setting
from receiver.replay.traces import load_jobs
from receiver.replay.world.objects import Job

SETTING = Setting(driver=timedelta(seconds=30), delete=ZERO)
WAIT = timedelta(hours=4)
SIZES = ("8", "1,2,4,8")
TOO_LATE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One trace on pools of *sizes*. *urgent_only* and *half* are cost ratios, *urgent* is the mean wait of other jobs
    (s) without and with patient jobs, *late* how long after their deadlines patient jobs started."""

    trace: str
    urgent_only: float
    half: float
    urgent: tuple[float, float]
    patient: int
    late: tuple[timedelta, ...]
    waited: float
    wrong: tuple[str, ...]


def half_patient(jobs: Sequence[Job], trace: str) -> list[Job]:
    """Return *jobs* with half of them behind the gate for `WAIT`, drawn by the name of the *trace*."""
    if any(job.gate for job in jobs):
        return list(jobs)
    dice = random.Random(f"patience:{trace}")
    gated = {"gate": MAY_WAIT, "annotations": {MAY_WAIT: f"{round(WAIT.total_seconds())}s"}}
    return [replace(job, **gated) if dice.random() < 0.5 else job for job in jobs]  # type: ignore[arg-type]


def compare(path: Path, sizes: tuple[int, ...]) -> Row:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    jobs = half_patient(load_jobs(path, SETTING.start), path.stem)
    urgent = [replace(job, gate="", annotations={}) if job.gate else job for job in jobs]
    policy = Policy(pools=pools(sizes), limits=Limits(max_gpus=MOST_GPUS))
    ours = the_product("product", policy, SETTING, step_additions())
    peer, alone = contest(urgent, [a_peer(PEER, PEERS[PEER], pools((8,))), ours], SETTING)
    (half,) = contest(jobs, [ours], SETTING)
    patient = {job.id for job in jobs if job.gate}
    waits = {job.id: job.wait for job in half.played.finished} if half.played else {}
    asked = {job.id: timedelta(seconds=float(job.annotations[MAY_WAIT].rstrip("s"))) for job in jobs if job.gate}
    late = [waits[job] - asked[job] for job in patient if job in waits and waits[job] > asked[job]]
    base = peer.figures.gpu_hours_started
    wrong = [*alone.violations, *half.violations]
    wrong += [f"{r.figures.kills} kills, {r.figures.jobs_lost} lost" for r in (alone, half) if _lost(r)]
    return Row(
        trace=path.stem,
        urgent_only=alone.figures.gpu_hours_started / base,
        half=half.figures.gpu_hours_started / base,
        urgent=(_mean_wait(alone, patient, of=False), _mean_wait(half, patient, of=False)),
        patient=len(patient),
        late=tuple(sorted(late)),
        waited=_mean_wait(half, patient, of=True),
        wrong=tuple(wrong),
    )


def _lost(result: Result) -> bool:
    return bool(result.figures.kills or result.figures.jobs_lost)


def _mean_wait(result: Result, patient: set[str], *, of: bool) -> float:
    """The mean wait in seconds *of* the patient jobs, or of the others."""
    played = result.played.finished if result.played else ()
    waits = [job.wait.total_seconds() for job in played if (job.id in patient) is of]
    return sum(waits) / max(1, len(waits))


def main(arguments: Sequence[str]) -> int:
    """Play and print; return the exit status."""
    paths, status = sorted(Path(arguments[0]).glob("*.csv")), 0
    for said in arguments[1:] or SIZES:
        sizes = tuple(map(int, said.split(",")))
        with ProcessPoolExecutor(os.cpu_count()) as processes:
            rows = list(processes.map(partial(compare, sizes=sizes), paths))
        for row in rows:
            worst = max(row.late, default=ZERO).total_seconds()
            print(
                f"{row.trace:16} cost {row.urgent_only:.3f} -> {row.half:.3f}  urgent wait {row.urgent[0]:6.1f} -> "
                f"{row.urgent[1]:6.1f} s  patient {row.patient}, mean wait {row.waited:6.0f} s, late {len(row.late)}, "
                f"at most {worst:.0f} s",
                *row.wrong,
                flush=True,
            )
            status |= bool(row.wrong)
        patient, late = sum(row.patient for row in rows), [late for row in rows for late in row.late]
        waits = [(row.urgent[1] + A_SECOND) / (row.urgent[0] + A_SECOND) for row in rows]
        print(
            f"nodes of {said} GPUs: cost {geometric_mean([r.urgent_only for r in rows]):.3f} with only urgent jobs, "
            f"{geometric_mean([r.half for r in rows]):.3f} with half; urgent wait x{geometric_mean(waits):.3f}; "
            f"deadlines met {1 - len(late) / max(1, patient):.2%}, missed by more than 10 min: "
            f"{sum(each > TOO_LATE for each in late)}",
            flush=True,
        )
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
