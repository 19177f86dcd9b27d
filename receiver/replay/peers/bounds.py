"""What no policy can beat, as figures beside those of policies: nobody plays these, the trace alone decides them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from receiver.core.model.policy import Pool
from receiver.replay.bounds import clairvoyant, fluid_gpu_hours
from receiver.replay.figures import Figures
from receiver.replay.setting import Setting
from receiver.replay.world.config import Job

Reckon = Callable[[Sequence[Job], Sequence[Pool], Setting], Figures]


@dataclass(frozen=True, slots=True)
class Bound:
    """*about* is one line; *reckon* raises ValueError for a pod that no pool can hold."""

    about: str
    reckon: Reckon


@dataclass(frozen=True, slots=True)
class _Bought:
    """Nodes of one pool: their hours by the second and by the started hour, and how many there were."""

    pool: Pool
    seconds: float
    started: int
    nodes: int


def _knowing(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """The cheaper of two ways: every pod on the largest nodes, or on the smallest ones that it fits."""
    sizes = sorted(pools, key=lambda pool: pool.gpus_per_node)
    fitting: dict[str, list[Job]] = {}
    for job in jobs:
        pool = next((p for p in sizes if p.gpus_per_node >= job.gpus_per_pod), sizes[-1])
        fitting.setdefault(pool.id, []).append(job)
    ways = [_scheduled(way, sizes, setting) for way in ({sizes[-1].id: list(jobs)}, fitting)]
    found = [_figures("clairvoyant", jobs, bought, setting) for bought in ways]
    return min(found, key=lambda f: f.gpu_hours_started if setting.by_the_hour else f.gpu_hours_second)


def _scheduled(way: Mapping[str, Sequence[Job]], pools: Sequence[Pool], setting: Setting) -> list[_Bought]:
    found = []
    for pool in pools:
        if pool.id in way:
            plan = clairvoyant(way[pool.id], pool.gpus_per_node, setting.lead, by_the_hour=setting.by_the_hour)
            found.append(_Bought(pool, plan.node_hours_second, plan.node_hours_started, plan.nodes))
    return found


def _fluid(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """Every paid GPU-second is used: nobody could pay less, whoever waits how long. Of the cheapest GPUs."""
    cheapest = min(pools, key=lambda p: (p.price_usd_per_hour or Decimal(0)) / max(1, p.gpus_per_node))
    hours = fluid_gpu_hours(jobs) / cheapest.gpus_per_node
    return _figures("fluid", jobs, [_Bought(cheapest, hours, math.ceil(hours), 0)], setting)


def _figures(name: str, jobs: Sequence[Job], bought: Sequence[_Bought], setting: Setting) -> Figures:
    gpu_hours = sum(b.seconds * b.pool.gpus_per_node for b in bought)
    second = _usd([(b.pool, b.seconds) for b in bought])
    started = _usd([(b.pool, b.started) for b in bought])
    return Figures(
        name=name,
        node_hours_second=round(sum(b.seconds for b in bought), 3),
        node_hours_started=sum(b.started for b in bought),
        gpu_hours_second=round(gpu_hours, 3),
        gpu_hours_started=sum(b.started * b.pool.gpus_per_node for b in bought),
        usd=started if setting.by_the_hour else second,
        utilization=round(fluid_gpu_hours(jobs) / gpu_hours, 4) if gpu_hours else 0.0,
        wait_mean_s=0.0,
        wait_p50_s=0.0,
        wait_p95_s=0.0,
        wait_max_s=0.0,
        node_starts=sum(b.nodes for b in bought),
        actions=0,
        kills=0,
        jobs=len(jobs),
        jobs_lost=0,
        usd_second=second,
        usd_started=started,
    )


def _usd(hours: Sequence[tuple[Pool, float]]) -> Decimal | None:
    if any(pool.price_usd_per_hour is None for pool, _ in hours):
        return None
    total = sum(((pool.price_usd_per_hour or Decimal(0)) * Decimal(str(h)) for pool, h in hours), Decimal(0))
    return total.quantize(Decimal("0.01"))


BOUNDS: Mapping[str, Bound] = {
    "clairvoyant": Bound("knows the future: nobody waits, and nodes come where that is cheapest", _knowing),
    "fluid": Bound("pays for what is used and for nothing else, whoever waits how long", _fluid),
}
