"""How busy the GPUs were that somebody held, as far as it was measured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from receiver.core.report.rightsizing import Peaks
from receiver.core.usage import Usage


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
    usage: Iterable[Usage], kinds: Mapping[str, str], cost: Mapping[tuple[str, str], Decimal]
) -> tuple[Peaks, ...]:
    """Return what each workload reached on each kind of GPU.

    *kinds* names the kind by instance, *cost* what a workload cost on a kind in USD.
    """
    together: dict[tuple[str, str], list[Usage]] = {}
    for row in usage:
        if row.instance in kinds:
            together.setdefault((row.workload, kinds[row.instance]), []).append(row)
    return tuple(
        Peaks(
            workload=workload,
            team=rows[0].owner.team,
            kind=kind,
            usd=cost.get((workload, kind), Decimal(0)),
            coverage=measured(rows).coverage or 0.0,
            peak_engine=max((r.peak_engine for r in rows if r.peak_engine is not None), default=None),
            peak_memory=max((r.peak_memory for r in rows if r.peak_memory is not None), default=None),
        )
        for (workload, kind), rows in sorted(together.items())
    )
