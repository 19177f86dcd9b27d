"""How policies compare: what one pays and lets wait for what another one does."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from receiver.replay.figures import Figures

A_SECOND = 1.0  # added to both waits, so that one who makes nobody wait can be compared with


@dataclass(frozen=True, slots=True)
class Ratio:
    """One policy's figures by another's: paid GPU-hours, mean wait (one second added to both), nodes started."""

    cost: float
    wait: float
    starts: float


def ratio(one: Figures, other: Figures, *, by_the_hour: bool) -> Ratio | None:
    """Return *one* by *other*; None where *other* paid for nothing or started nothing."""
    paid, base = ((f.gpu_hours_started if by_the_hour else f.gpu_hours_second) for f in (one, other))
    if not base or not other.node_starts:
        return None
    return Ratio(
        cost=round(paid / base, 4),
        wait=round((one.wait_mean_s + A_SECOND) / (other.wait_mean_s + A_SECOND), 4),
        starts=round(one.node_starts / other.node_starts, 4),
    )


def over_all(found: Iterable[Ratio]) -> Ratio:
    """Return the geometric mean of the ratios of at least one trace."""
    ratios = list(found)
    return Ratio(
        cost=_mean([r.cost for r in ratios]),
        wait=_mean([r.wait for r in ratios]),
        starts=_mean([r.starts for r in ratios]),
    )


def _mean(values: Sequence[float]) -> float:
    if min(values) <= 0:
        return 0.0
    return round(math.exp(sum(math.log(v) for v in values) / len(values)), 4)
