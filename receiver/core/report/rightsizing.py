"""Workloads whose peaks would fit something smaller, and those that hardly fit what they have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from receiver.core.activity import COVERAGE_ENOUGH
from receiver.core.report.gpus import COMPUTE_SLICES, KINDS, Kind, slowdown

MEMORY_ROOM = 1.10  # a peak may be a little higher next time
ENGINE_FULL = 0.90  # the share of time that a smaller GPU may be busy at the peak
TIGHT = 0.95  # used memory above this is close to "CUDA out of memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What one workload reached on one kind of GPU: *peak_engine* and *peak_memory* are ratios, *usd* its cost there.

    *coverage* is the ratio of its GPU time that has samples. *kind* is empty where the GPUs are no whole ones.
    """

    workload: str
    team: str
    kind: str
    usd: Decimal
    coverage: float
    peak_engine: float | None
    peak_memory: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSize:
    """*peaks* fit *to*, another kind or a MIG profile of the same, which would have saved *saves_usd* in the month.

    With a MIG profile that holds as far as other work takes the rest of the GPU.
    """

    peaks: Peaks
    to: str
    mig: bool
    saves_usd: Decimal


def right_sizes(found: Iterable[Peaks], usd_per_gpu_hour: Mapping[str, Decimal]) -> tuple[RightSize, ...]:
    """Return the best smaller home of each workload that has one, the largest saving first.

    *usd_per_gpu_hour* is the price of each kind that can be bought. A workload counts only where its time was
    measured: a peak that nobody saw is none.
    """
    best = []
    for peaks in found:
        options = [o for o in _options(peaks, usd_per_gpu_hour) if o.saves_usd > 0]
        if options:
            best.append(max(options, key=lambda o: (o.saves_usd, not o.mig)))
    return tuple(sorted(best, key=lambda o: (-o.saves_usd, o.peaks.workload, o.peaks.kind)))


def tight(found: Iterable[Peaks]) -> tuple[Peaks, ...]:
    """Return those whose memory was nearly full, the fullest first."""
    full = [p for p in found if p.peak_memory is not None and p.peak_memory > TIGHT]
    return tuple(sorted(full, key=lambda p: (-(p.peak_memory or 0), p.workload)))


def _options(peaks: Peaks, prices: Mapping[str, Decimal]) -> Iterable[RightSize]:
    has, price = KINDS.get(peaks.kind), prices.get(peaks.kind)
    engine, memory = peaks.peak_engine, peaks.peak_memory
    if has is None or engine is None or memory is None or peaks.coverage < COVERAGE_ENOUGH:
        return
    needs_gb = memory * has.memory_gb * MEMORY_ROOM
    for name, kind in KINDS.items():
        other = prices.get(name)
        if name == peaks.kind or price is None or other is None or not price:
            continue
        if needs_gb <= kind.memory_gb and engine * slowdown(has, kind) <= ENGINE_FULL:
            yield RightSize(peaks=peaks, to=name, mig=False, saves_usd=peaks.usd * (1 - other / price))
    yield from _slices(peaks, has, needs_gb, engine)


def _slices(peaks: Peaks, has: Kind, needs_gb: float, engine: float) -> Iterable[RightSize]:
    """The smallest MIG profile that fits: with a seventh of the compute, work takes seven times as long at most."""
    for profile in has.mig:
        if needs_gb <= profile.memory_gb and engine * COMPUTE_SLICES / profile.compute <= ENGINE_FULL:
            saved = Decimal(str(round(1 - profile.share, 6)))
            yield RightSize(peaks=peaks, to=profile.name, mig=True, saves_usd=peaks.usd * saved)
            return
