"""Jobs of a trace that no pool could ever run: they would wait to the end, so they are told before it begins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from receiver.core.policy import Pool
from receiver.replay.world.config import Job


@dataclass(frozen=True, slots=True)
class Misfit:
    """A job that fits nowhere, and why."""

    job: Job
    problem: str

    def __str__(self) -> str:
        return f"job {self.job.id}: {self.problem}"


def misfits(jobs: Iterable[Job], pools: Sequence[Pool]) -> list[Misfit]:
    """Return those of *jobs* that no one of *pools* can hold at its maximum.

    A gang is counted whole in one pool, as the product places it.
    """
    return [Misfit(job, problem) for job in jobs if (problem := _problem(job, pools)) is not None]


def _problem(job: Job, pools: Sequence[Pool]) -> str | None:
    offering = [pool for pool in pools if pool.resources.get(job.resource, 0)]
    if not offering:
        return f"it asks for {job.resource}, which no pool offers"
    selected = [p for p in offering if all(p.offered_labels.get(k) == v for k, v in job.node_selector.items())]
    if not selected:
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(job.node_selector.items()))
        return f"its node selector {wanted} matches no pool"
    largest = max(pool.resources[job.resource] for pool in selected)
    if largest < job.gpus_per_pod:
        return f"a pod asks for {job.gpus_per_pod} GPUs, and the largest node has {largest}"
    least = (job.gang_min or job.pods) if job.gang else 1
    most = max(pool.max_nodes * (pool.resources[job.resource] // job.gpus_per_pod) for pool in selected)
    if most < least:
        return f"{least} pods of {job.gpus_per_pod} GPUs must run at once, and no pool holds more than {most} of them"
    return None
