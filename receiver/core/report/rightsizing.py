"""Right-sizing: workloads whose peaks would fit something smaller, and workloads short of memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.memory import NodeLife
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy
from receiver.core.model.usage import COVERAGE_ENOUGH, Accounted, Usage, WorkloadLife, at_rest
from receiver.core.money.accounting import SAMPLED, StepSight, life_of, workload_of
from receiver.core.money.attribution import By, Share, key_of
from receiver.core.money.budget import month_of
from receiver.core.money.cost import to_cents

# What kinds of GPU hold and do, as far as moving work between them needs it: memory, dense BF16 rate (without sparsity:
# half of what data sheets print first) and memory bandwidth; MIG profiles by the memory in their names. Kinds are named
# as in the price file. The A100 with 80 GB is taken as SXM: the PCIe card is 5 % slower. Checked in November 2026:
# - MIG profiles of the A100: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html
#   (supported-gpus.html beside it has memory and slices; the L40S is not among them); of the H100 and H200:
#   https://github.com/aws/sagemaker-hyperpod-cli, src/sagemaker/hyperpod/inference/constant.py (p5, p5e)
# - A100 SXM, 312 TFLOPS, 1555 and 2039 GB/s: NVIDIA's data sheet, cited by
#   https://glennklockwood.com/garden/processors/A100; PCIe, 1555 and 1935 GB/s:
#   https://www.thundercompute.com/blog/nvidia-a100-specs-full-guide
# - H100 SXM, 989.4 TFLOPS, 3.35 TB/s (the H200 has the same engine): https://glennklockwood.com/garden/processors/h100
# - H200, 141 GB, 4.8 TB/s, slices of 18 GB: https://www.saulelectric.com/nvidia-h200.html
# - L40S, 48 GB, 864 GB/s, 362.05 TFLOPS (733 with sparsity): https://www.mullet.se/product.html?product_id=355414
COMPUTE_SLICES, MEMORY_SLICES = 7, 8  # of a GPU with MIG
PROFILES = ((1, 1), (1, 2), (2, 2), (3, 4), (4, 4))  # of MIG: compute and memory slices, the smallest first


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKind:
    """One kind of GPU: *memory_gb*, *tflops* (dense BF16), *bandwidth* of its memory in GB/s, *mig* the memory in GB of
    each of `PROFILES`."""

    memory_gb: int
    tflops: float
    bandwidth: float
    mig: tuple[int, ...] = ()


KINDS: Mapping[str, GpuKind] = {
    "L40S": GpuKind(memory_gb=48, tflops=362, bandwidth=864),
    "A100-40": GpuKind(memory_gb=40, tflops=312, bandwidth=1555, mig=(5, 10, 10, 20, 20)),
    "A100-80": GpuKind(memory_gb=80, tflops=312, bandwidth=2039, mig=(10, 20, 20, 40, 40)),
    "H100": GpuKind(memory_gb=80, tflops=989, bandwidth=3350, mig=(10, 20, 20, 40, 40)),
    "H200": GpuKind(memory_gb=141, tflops=989, bandwidth=4800, mig=(18, 35, 35, 71, 71)),
}


def slowdown(of: GpuKind, on: GpuKind) -> float:
    """The factor by which GPU work on *of* may slow down on *on*: by rate or bandwidth, whichever is worse."""
    return max(of.tflops / on.tflops, of.bandwidth / on.bandwidth)


MEMORY_ROOM = 1.10  # a peak may be a little higher next time
ENGINE_FULL = 0.90  # the share of time that a smaller GPU may be busy at the peak
TIGHT = 0.95  # used memory: above this, "CUDA out of memory" is near
OBSERVED_HOURS = 6.0  # a shorter observation is no basis for a proposal


class Way(StrEnum):
    """The way in which a workload could be smaller."""

    KIND = "kind"  # another kind of GPU
    MIG = "mig"  # a part of the same
    FEWER = "fewer"  # fewer of the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The peaks of one workload on one kind of GPU: *peak_engine* and *peak_memory* are ratios, *usd* its cost there.

    *coverage* is the sampled ratio of its GPU time, *hours* the observed time. *gpus* is the highest number held at
    once and *gpus_used* the highest number in use at once, None if not observed. *usd_per_gpu_hour* is the price of its
    own nodes, None without one. *kind* is empty for parts of GPUs.
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
    """A proposal: the *peaks* fit *to*, another kind, a MIG profile or fewer GPUs, which saves *saves_usd* a month.
    With a MIG profile that requires other work for the rest of the GPU."""

    peaks: Peaks
    to: str
    way: Way
    saves_usd: Decimal


def right_sizes(all_peaks: Iterable[Peaks], usd_per_gpu_hour: Mapping[str, Decimal]) -> tuple[RightSize, ...]:
    """Return the best proposal for each workload that has one, the largest saving first; *usd_per_gpu_hour* is the
    price of each kind that can be bought."""
    best = []
    for peaks in all_peaks:
        options = [o for o in _options(peaks, usd_per_gpu_hour) if o.saves_usd > 0]
        if options:
            best.append(max(options, key=lambda o: (o.saves_usd, o.way is not Way.MIG)))
    return tuple(sorted(best, key=lambda o: (-o.saves_usd, o.peaks.workload, o.peaks.kind)))


def tight(all_peaks: Iterable[Peaks]) -> tuple[Peaks, ...]:
    """Return the peaks whose memory was nearly full, the fullest first."""
    full = [p for p in all_peaks if p.peak_memory is not None and p.peak_memory > TIGHT]
    return tuple(sorted(full, key=lambda p: (-(p.peak_memory or 0), p.workload)))


def _options(peaks: Peaks, prices: Mapping[str, Decimal]) -> Iterable[RightSize]:
    if peaks.coverage < COVERAGE_ENOUGH or peaks.hours < OBSERVED_HOURS or not peaks.kind:
        return
    gpus, used = peaks.gpus, peaks.gpus_used  # none in use is idle time, which is reported as such
    if gpus is not None and used and used < gpus and peaks.gpus_hours >= OBSERVED_HOURS:
        saves = peaks.usd * (1 - Decimal(used) / Decimal(gpus))
        yield RightSize(peaks=peaks, to=f"{used} of {gpus} GPUs", way=Way.FEWER, saves_usd=saves)
    has, engine = KINDS.get(peaks.kind), peaks.peak_engine
    if has is None or engine is None or peaks.peak_memory is None:
        return
    needs_gb = peaks.peak_memory * has.memory_gb * MEMORY_ROOM
    price = peaks.usd_per_gpu_hour or prices.get(peaks.kind)
    for name, kind in KINDS.items():
        other = prices.get(name)
        if name == peaks.kind or not price or other is None:
            continue
        if needs_gb <= kind.memory_gb and engine * slowdown(has, kind) <= ENGINE_FULL:
            yield RightSize(peaks=peaks, to=name, way=Way.KIND, saves_usd=peaks.usd * (1 - other / price))
    for (compute, memory), gb in zip(PROFILES, has.mig, strict=False):
        share = max(compute / COMPUTE_SLICES, memory / MEMORY_SLICES)  # of the GPU
        # With 1/7 of the compute, work takes at most 7 times as long.
        if needs_gb <= gb and engine * COMPUTE_SLICES / compute <= ENGINE_FULL:
            saves = peaks.usd * Decimal(str(round(1 - share, 6)))
            yield RightSize(peaks=peaks, to=f"{compute}g.{gb}gb", way=Way.MIG, saves_usd=saves)
            return


WHOLE_GPU = "nvidia.com/gpu"


def prices_of_kinds(policy: Policy) -> Mapping[str, Decimal]:
    """USD per GPU-hour by kind: in the cheapest pool that has it, else by the price list."""
    pools: dict[str, Decimal] = {}
    for pool in policy.pools:
        kind = policy.gpu_kinds.get(pool.size)
        if kind and pool.price_usd_per_hour is not None and set(pool.resources) == {WHOLE_GPU}:
            each = pool.price_usd_per_hour / pool.gpus_per_node
            pools[kind] = min(each, pools.get(kind, each))
    return {**policy.gpu_prices, **pools}


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """The highest number of *gpus* that *workload* held at once in *month*, and of those *used* at once; only the
    *seconds* in which all of its GPUs were sampled count."""

    month: str
    workload: str
    life: str = ""
    gpus: int
    used: int
    seconds: float


def in_use(before: Accounted, sight: StepSight, policy: Policy) -> tuple[InUse, ...]:
    """Return the GPUs in use by the samples of *sight*, for the time since *before* (two minutes at most)."""
    passed = timedelta(0) if before.at is None else max(min(sight.at - before.at, SAMPLED), timedelta(0))
    together: dict[tuple[str, str], list[Pod]] = {}
    for node in sight.nodes if passed else ():
        for pod in node.pods:
            if pod.uid and pod.gpus and not pod.reserved:
                together.setdefault((workload_of(pod), life_of(pod)), []).append(pod)
    month, seconds = month_of(sight.at, policy.timezone).name, passed.total_seconds()
    uses = []
    for (workload, life), pods in sorted(together.items(), key=lambda named: named[0]):
        used = _used(pods, sight)
        if used is not None:
            gpus = sum(pod.gpus for pod in pods)
            uses.append(InUse(month=month, workload=workload, life=life, gpus=gpus, used=used, seconds=seconds))
    return tuple(uses)


def _used(pods: Iterable[Pod], sight: StepSight) -> int | None:
    """The number of GPUs of *pods* in use, None unless all of them were sampled."""
    used = 0
    for pod in pods:
        resting = [rest for sample in sight.samples.get(pod.key, ()) if (rest := at_rest(sample)) is not None]
        if len(resting) < pod.gpus:
            return None
        used += sum(not rest for rest in resting)
    return used


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Ratios of the held and measured GPU time, None without any: *coverage* is the measured part of the held time,
    *memory_waste* the unused memory of held GPUs."""

    coverage: float | None = None
    utilization: float | None = None
    memory_waste: float | None = None


def measured(usage: Iterable[Usage]) -> Measured:
    """Average *usage*."""
    held = seen = busy = memory = 0.0
    for row in usage:
        held, seen = held + row.held, seen + row.measured
        busy, memory = busy + row.busy, memory + row.memory
    if seen <= 0:
        return Measured(coverage=0.0 if held > 0 else None)
    return Measured(coverage=_ratio(seen, held), utilization=_ratio(busy, seen), memory_waste=1 - _ratio(memory, seen))


def _ratio(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 1.0


def peaks(
    usage: Iterable[Usage],
    lives: Sequence[NodeLife],
    shares: Iterable[Share],
    in_use: Iterable[InUse],
    workloads: Iterable[WorkloadLife],
    policy: Policy,
) -> tuple[Peaks, ...]:
    """Return the peaks of each workload's life on each kind of GPU, by its *usage* of *lives*; *shares* are their cost.

    Pools of parts of GPUs are left out: peaks of slices say nothing about the GPU.
    """
    pools = {life.pool: policy.pool(life.pool) for life in lives}
    sliced = {i for i, pool in pools.items() if pool is not None and set(pool.resources) != {WHOLE_GPU}}
    kinds = {x.instance: policy.gpu_kinds.get(x.size, "") for x in lives if x.pool not in sliced}
    prices = {  # USD per GPU-hour, as in force when the node was first seen
        x.instance: x.price_usd_per_hour / Decimal(x.gpus) for x in lives if x.price_usd_per_hour is not None and x.gpus
    }
    used = {(row.workload, row.life): row for row in in_use}
    widest: dict[tuple[str, str], int] = {}  # GPUs requested at once
    for each in workloads:
        widest[each.workload, each.life] = max(each.gpus, widest.get((each.workload, each.life), 0))
    together: dict[tuple[str, str, str], list[Usage]] = {}
    for row in usage:
        if row.instance in kinds:
            together.setdefault((row.workload, row.life, kinds[row.instance]), []).append(row)
    exact: dict[tuple[str, str, str], Decimal] = {}
    for share in shares:
        if share.usage is not None:
            key = (share.usage.workload, share.usage.life, key_of(share, By.GPU_KIND, policy))
            exact[key] = exact.get(key, Decimal(0)) + share.usd
    cost = to_cents(exact)
    all_peaks = []
    for (work, life, kind), rows in sorted(together.items(), key=lambda named: named[0]):
        usd, most = cost.get((work, life, kind), Decimal(0)), widest.get((work, life), 0)
        all_peaks.append(_peaks_of(rows, kind, usd, prices, used.get((work, life)), most))
    return tuple(all_peaks)


def _peaks_of(
    rows: Sequence[Usage], kind: str, usd: Decimal, prices: Mapping[str, Decimal], used: InUse | None, widest: int
) -> Peaks:
    measured_seconds = sum(row.measured for row in rows)
    gpus = max(used.gpus if used else 0, widest, 1)  # an hour of all of them together is one hour
    priced = [(Decimal(row.held), prices[row.instance]) for row in rows if row.instance in prices and row.held > 0]
    held = sum((seconds for seconds, _ in priced), Decimal(0))
    return Peaks(
        workload=rows[0].workload,
        team=max(rows, key=lambda row: row.held).owner.team,
        kind=kind,
        usd=usd,
        coverage=measured(rows).coverage or 0.0,
        peak_engine=max((r.peak_engine for r in rows if r.peak_engine is not None), default=None),
        peak_memory=max((r.peak_memory for r in rows if r.peak_memory is not None), default=None),
        hours=measured_seconds / 3600 / gpus,
        gpus=used.gpus if used else None,
        gpus_used=used.used if used else None,
        gpus_hours=used.seconds / 3600 if used else 0.0,
        usd_per_gpu_hour=sum((s * price for s, price in priced), Decimal(0)) / held if held else None,
    )
