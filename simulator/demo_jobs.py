"""The small workload of the demo."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.pods import Toleration
from receiver.replay.world.objects import Job

TOLERATES_GPU_TAINT = (Toleration(key="gpu", operator="Exists"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """The submissions and durations of the demo's jobs, in seconds from its start. All tuning happens here."""

    namespace: str = "demo"
    singles_at: tuple[float, ...] = (2.0, 3.0, 8.0)
    single_runs: float = 18.0
    gang_at: float = 24.0
    gang_pods: int = 2
    gang_gpus_per_pod: int = 1
    gang_runs: float = 20.0
    too_big_at: float = 34.0
    too_big_gpus: int = 16
    nowhere_at: float = 40.0
    nowhere_selector: tuple[str, str] = ("gpu", "quantum")
    late_at: tuple[float, ...] = (66.0, 68.0, 70.0)  # by then the budget is used up to its hold line
    late_runs: float = 15.0
    odd_runs: float = 10.0  # of what never gets to run
    gpu_util: float = 0.92


def demo_jobs(start: datetime, plan: DemoPlan | None = None) -> list[Job]:
    """Return the demo's jobs, about 100 s of them: singles, a gang, two that fit nowhere, and late ones."""
    return sorted(_demo_jobs(start, plan or DemoPlan()), key=lambda j: j.submit_at)


def _demo_jobs(start: datetime, plan: DemoPlan) -> Iterator[Job]:
    def job(
        name: str,
        at: float,
        runs: float,
        team: str,
        *,
        pods: int = 1,
        gpus_per_pod: int = 1,
        selector: Mapping[str, str] | None = None,
    ) -> Job:
        return Job(
            id=name,
            submit_at=start + timedelta(seconds=at),
            duration=timedelta(seconds=runs),
            pods=pods,
            gpus_per_pod=gpus_per_pod,
            gang=pods > 1,
            namespace=plan.namespace,
            team=team,
            node_selector=selector or {},
            tolerations=TOLERATES_GPU_TAINT,
            gpu_util=plan.gpu_util,
        )

    for number, at in enumerate(plan.singles_at, start=1):
        yield job(f"train-{number}", at, plan.single_runs, "vision")
    yield job(
        "gang", plan.gang_at, plan.gang_runs, "language", pods=plan.gang_pods, gpus_per_pod=plan.gang_gpus_per_pod
    )
    yield job("too-big", plan.too_big_at, plan.odd_runs, "research", gpus_per_pod=plan.too_big_gpus)
    yield job("nowhere", plan.nowhere_at, plan.odd_runs, "research", selector=dict([plan.nowhere_selector]))
    for number, at in enumerate(plan.late_at, start=1):
        yield job(f"late-{number}", at, plan.late_runs, "vision")
