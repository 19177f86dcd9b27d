"""Workloads whose peaks would fit something smaller, and those that hardly fit what they have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.activity import COVERAGE_ENOUGH
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy
from receiver.core.model.usage import WorkloadLife
from receiver.core.money.attribution import By, Share, key_of
from receiver.core.money.cost import to_cents
from receiver.core.report.gpus import COMPUTE_SLICES, KINDS, GpuKind, slowdown

MEMORY_ROOM = 1.10  # a peak may be a little higher next time
ENGINE_FULL = 0.90  # the share of time that a smaller GPU may be busy at the peak
TIGHT = 0.95  # used memory above this is close to "CUDA out of memory"
OBSERVED_HOURS = 6.0  # a peak of less was seen too seldom: nothing is proposed from it


class Way(StrEnum):
    """How a workload would be smaller."""

    KIND = "kind"  # another kind of GPU
    MIG = "mig"  # a part of the same
    FEWER = "fewer"  # fewer of the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What one workload reached on one kind of GPU: *peak_engine* and *peak_memory* are ratios, *usd* its cost there.

    *coverage* is the ratio of its GPU time that has samples, *hours* for how long it was observed. *gpus* is the most
    that it held at once and *gpus_used* the most of them that were in use at once, None where that was not seen.
    *usd_per_gpu_hour* is what its own nodes cost, None where they have no price. *kind* is empty where the GPUs are no
    whole ones.
    """

    workload: str
    team: str
    kind: str
    usd: Decimal
    coverage: float
    peak_engine: float | None
    peak_memory: float | None
    hours: float = 0.0
    gpus: int | None = None
    gpus_used: int | None = None
    gpus_hours: float = 0.0  # for how long all of them were sampled at once
    usd_per_gpu_hour: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSize:
    """*peaks* fit *to*: another kind, a MIG profile or fewer GPUs, which would have saved *saves_usd* in the month.

    With a MIG profile that holds as far as other work takes the rest of the GPU.
    """

    peaks: Peaks
    to: str
    way: Way
    saves_usd: Decimal


def right_sizes(found: Iterable[Peaks], usd_per_gpu_hour: Mapping[str, Decimal]) -> tuple[RightSize, ...]:
    """Return the best smaller home of each workload that has one, the largest saving first.

    *usd_per_gpu_hour* is what a GPU of each kind that can be bought would cost. A workload counts only where its time
    was measured, and for OBSERVED_HOURS at least: a peak that nobody saw is none.
    """
    best = []
    for peaks in found:
        options = [o for o in _options(peaks, usd_per_gpu_hour) if o.saves_usd > 0]
        if options:
            best.append(max(options, key=lambda o: (o.saves_usd, o.way is not Way.MIG)))
    return tuple(sorted(best, key=lambda o: (-o.saves_usd, o.peaks.workload, o.peaks.kind)))


def tight(found: Iterable[Peaks]) -> tuple[Peaks, ...]:
    """Return those whose memory was nearly full, the fullest first."""
    full = [p for p in found if p.peak_memory is not None and p.peak_memory > TIGHT]
    return tuple(sorted(full, key=lambda p: (-(p.peak_memory or 0), p.workload)))


def _options(peaks: Peaks, prices: Mapping[str, Decimal]) -> Iterable[RightSize]:
    if peaks.coverage < COVERAGE_ENOUGH or peaks.hours < OBSERVED_HOURS or not peaks.kind:
        return
    yield from _fewer(peaks)
    has = KINDS.get(peaks.kind)
    engine, memory = peaks.peak_engine, peaks.peak_memory
    if has is None or engine is None or memory is None:
        return
    needs_gb = memory * has.memory_gb * MEMORY_ROOM
    price = peaks.usd_per_gpu_hour or prices.get(peaks.kind)
    for name, kind in KINDS.items():
        other = prices.get(name)
        if name == peaks.kind or not price or other is None:
            continue
        if needs_gb <= kind.memory_gb and engine * slowdown(has, kind) <= ENGINE_FULL:
            yield RightSize(peaks=peaks, to=name, way=Way.KIND, saves_usd=peaks.usd * (1 - other / price))
    yield from _slices(peaks, has, needs_gb, engine)


def _fewer(peaks: Peaks) -> Iterable[RightSize]:
    """As many GPUs as were ever in use at once. None in use at all is idleness, and shown as such."""
    gpus, used = peaks.gpus, peaks.gpus_used
    if gpus is None or not used or used >= gpus or peaks.gpus_hours < OBSERVED_HOURS:
        return
    saves = peaks.usd * (1 - Decimal(used) / Decimal(gpus))
    yield RightSize(peaks=peaks, to=f"{used} of {gpus} GPUs", way=Way.FEWER, saves_usd=saves)


def _slices(peaks: Peaks, has: GpuKind, needs_gb: float, engine: float) -> Iterable[RightSize]:
    """The smallest MIG profile that fits: with a seventh of the compute, work takes seven times as long at most."""
    for profile in has.mig:
        if needs_gb <= profile.memory_gb and engine * COMPUTE_SLICES / profile.compute <= ENGINE_FULL:
            saved = Decimal(str(round(1 - profile.share, 6)))
            yield RightSize(peaks=peaks, to=profile.name, way=Way.MIG, saves_usd=peaks.usd * saved)
            return


WHOLE_GPU = "nvidia.com/gpu"


def whole_gpus(lives: Iterable[NodeLife], policy: Policy) -> Mapping[str, str]:
    """The kind of GPU by instance, where its pool hands out whole ones: peaks of slices say nothing about the GPU."""
    pools = {life.pool: policy.pool(life.pool) for life in lives}
    sliced = {i for i, pool in pools.items() if pool is not None and set(pool.resources) != {WHOLE_GPU}}
    return {x.instance: policy.gpu_kinds.get(x.size, "") for x in lives if x.pool not in sliced}


def widest(workloads: Iterable[WorkloadLife]) -> Mapping[tuple[str, str], int]:
    """The most GPUs that each of *workloads* asked for at once, by name and life."""
    found: dict[tuple[str, str], int] = {}
    for each in workloads:
        named = (each.workload, each.life)
        found[named] = max(each.gpus, found.get(named, 0))
    return found


def per_gpu_hour(lives: Iterable[NodeLife]) -> Mapping[str, Decimal]:
    """USD per GPU-hour by instance, at the price in force when the node was first seen."""
    return {
        x.instance: x.price_usd_per_hour / Decimal(x.gpus) for x in lives if x.price_usd_per_hour is not None and x.gpus
    }


def prices_of_kinds(policy: Policy) -> Mapping[str, Decimal]:
    """What a GPU-hour of each kind would cost: in the cheapest pool that has it, by the list where none has."""
    pools: dict[str, Decimal] = {}
    for pool in policy.pools:
        kind = policy.gpu_kinds.get(pool.size)
        if kind and pool.price_usd_per_hour is not None and set(pool.resources) == {WHOLE_GPU}:
            each = pool.price_usd_per_hour / pool.gpus_per_node
            pools[kind] = min(each, pools.get(kind, each))
    return {**policy.gpu_prices, **pools}


def cost_by_life(shares: Iterable[Share], policy: Policy, team: str | None) -> Mapping[tuple[str, str, str], Decimal]:
    """USD in cents of what was held, by workload, its life and kind of GPU: everybody's, or one *team*'s."""
    found: dict[tuple[str, str, str], Decimal] = {}
    for share in shares:
        row = share.usage
        if row is not None and (team is None or row.owner.team == team):
            key = (row.workload, row.life, key_of(share, By.GPU_KIND, policy))
            found[key] = found.get(key, Decimal(0)) + share.usd
    return to_cents(found)
