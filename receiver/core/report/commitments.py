"""Which part of the month's nodes would have been cheaper as committed capacity."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Commitment
from receiver.core.report.in_use import Occupancy, hours, occupancy


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What existed of one size all the time: *always* nodes; at least one for *any_hours*; *peak* at once."""

    size: str
    always: int
    any_hours: Decimal
    peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What one commitment would have done in the time looked at.

    *break_even* is the ratio of all hours for which a node must exist so that committing to it costs no more than
    buying it by the hour (1 or more: never). *recommended* nodes existed longer than that, and committing to them
    would have saved *saves_usd*. Both are None where no on-demand price is known.
    """

    commitment: Commitment
    on_demand_usd_per_hour: Decimal | None
    break_even: Decimal | None
    recommended: int
    saves_usd: Decimal


def baselines(lives: Iterable[NodeLife], start: datetime, until: datetime) -> tuple[Baseline, ...]:
    """Return what existed of each size, by size."""
    found = _by_size(lives, start, until)
    return tuple(
        Baseline(size=size, always=seen.always, any_hours=hours(seen.at_least[0]), peak=seen.peak)
        for size, (seen, _) in sorted(found.items())
    )


def advice(
    offers: Iterable[Commitment], lives: Iterable[NodeLife], start: datetime, until: datetime
) -> tuple[Advice, ...]:
    """Judge each of *offers* by the nodes that existed between *start* and *until*, each alone.

    The n-th node of a size pays if ``hours in which n existed x on-demand price > all hours x committed price``.
    On demand costs started hours, which is more than the hours of existence counted here: the saving is a lower
    bound.
    """
    found = _by_size(lives, start, until)
    said = []
    for offer in offers:
        seen, price = found.get(offer.size, (None, None))
        recommended, saves = 0, Decimal(0)
        for lasted in seen.at_least if seen is not None and price is not None else ():
            assert price is not None
            assert seen is not None
            gain = hours(lasted) * price - hours(seen.length) * offer.usd_per_hour
            if gain > 0:
                recommended, saves = recommended + 1, saves + gain
        said.append(
            Advice(
                commitment=offer,
                on_demand_usd_per_hour=price,
                break_even=offer.usd_per_hour / price if price else None,
                recommended=recommended,
                saves_usd=saves,
            )
        )
    return tuple(said)


def _by_size(
    lives: Iterable[NodeLife], start: datetime, until: datetime
) -> dict[str, tuple[Occupancy, Decimal | None]]:
    """The nodes of each size that existed, and its last known price."""
    by_size: dict[str, list[NodeLife]] = {}
    for life in sorted(lives, key=lambda x: (x.created_at, x.instance)):
        by_size.setdefault(life.size, []).append(life)
    found = {}
    for size, members in by_size.items():
        seen = occupancy(members, start, until)
        if seen.peak:
            priced = [x.price_usd_per_hour for x in members if x.price_usd_per_hour is not None]
            found[size] = (seen, priced[-1] if priced else None)
    return found
