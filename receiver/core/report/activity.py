"""How busy the GPUs were that somebody held, as far as it was measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from receiver.core.model.usage import Usage
from receiver.core.report.in_use import InUse
from receiver.core.report.rightsizing import Peaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Averages over the GPU time that was held and measured, all ratios 0-1 and None where nothing was.

    *coverage* is the measured part of the held time, *utilization* the engine's, *memory_waste* the memory that
    nobody used on the GPUs that somebody held.
    """

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
    """A ratio that rounding errors and two clocks do not push out of 0-1."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 1.0


def peaks(
    usage: Iterable[Usage],
    kinds: Mapping[str, str],
    cost: Mapping[tuple[str, str, str], Decimal],
    prices: Mapping[str, Decimal],
    in_use: Iterable[InUse],
    widest: Mapping[tuple[str, str], int],
) -> tuple[Peaks, ...]:
    """Return what each workload reached on each kind of GPU; one that uses a name again is another one.

    *kinds* names the kind by instance, *cost* what a workload's life cost on a kind in USD, *prices* the USD per
    GPU-hour by instance, *in_use* how many of its GPUs each used, *widest* for how many each asked at once.
    """
    together: dict[tuple[str, str, str], list[Usage]] = {}
    for row in usage:
        if row.instance in kinds:
            together.setdefault((row.workload, row.life, kinds[row.instance]), []).append(row)
    used = {(row.workload, row.life): row for row in in_use}
    return tuple(
        _peaks_of(
            rows,
            kind=kind,
            usd=cost.get((workload, life, kind), Decimal(0)),
            prices=prices,
            used=used.get((workload, life)),
            widest=widest.get((workload, life), 0),
        )
        for (workload, life, kind), rows in sorted(together.items(), key=lambda named: named[0])
    )


def _peaks_of(
    rows: Sequence[Usage],
    *,
    kind: str,
    usd: Decimal,
    prices: Mapping[str, Decimal],
    used: InUse | None,
    widest: int,
) -> Peaks:
    seen = sum(row.measured for row in rows)
    gpus = max(used.gpus if used else 0, widest, 1)  # hours of all of them together are one hour
    return Peaks(
        workload=rows[0].workload,
        team=max(rows, key=lambda row: row.held).owner.team,
        kind=kind,
        usd=usd,
        coverage=measured(rows).coverage or 0.0,
        peak_engine=max((r.peak_engine for r in rows if r.peak_engine is not None), default=None),
        peak_memory=max((r.peak_memory for r in rows if r.peak_memory is not None), default=None),
        hours=seen / 3600 / gpus,
        gpus=used.gpus if used else None,
        gpus_used=used.used if used else None,
        gpus_hours=used.seconds / 3600 if used else 0.0,
        usd_per_gpu_hour=_paid(rows, prices),
    )


def _paid(rows: Iterable[Usage], prices: Mapping[str, Decimal]) -> Decimal | None:
    """USD per GPU-hour that *rows* were held at, in the mean; None where no node of them has a price."""
    priced = [(Decimal(row.held), prices[row.instance]) for row in rows if row.instance in prices and row.held > 0]
    held = sum((seconds for seconds, _ in priced), Decimal(0))
    return sum((seconds * price for seconds, price in priced), Decimal(0)) / held if held else None
