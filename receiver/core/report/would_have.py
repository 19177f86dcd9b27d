"""What act mode would have cost and done in a time that was only observed, as figures and sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from receiver.core.model.text import dollars, percent, some, span

HARDLY_USD = Decimal("0.01")  # a smaller difference is none


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldChange:
    """A pool (its name) that would have gone from *before* to *after* nodes from *at* on, in one go or within minutes;
    *work* is the first that growth would have been for."""

    at: datetime
    pool: str
    before: int
    after: int
    work: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldHave:
    """A replay of the time from *since* to *until*, made at *at*. Amounts are USD for paid units that began in it, None
    without a price or a replay.

    *would_usd* is what act mode would have cost, and *margin_usd* by how much that may be wrong. *always_on_usd* is the
    cost of *always_on* nodes by pool name, which let every pod start at once, for the whole time; *as_run_usd* the cost
    of the nodes that were there. Waits are seconds from a pod's creation to its start, of 95 % of the *pods*. *changes*
    are the latest of *changes_total*, newest first. *problem* says why there is no newer replay; empty for none.
    """

    at: datetime
    since: datetime
    until: datetime
    would_usd: Decimal | None = None
    margin_usd: Decimal | None = None
    always_on_usd: Decimal | None = None
    as_run_usd: Decimal | None = None
    always_on: Mapping[str, int] = field(default_factory=dict)
    bought: int = 0
    removed: int = 0
    pods: int = 0
    wait_p95_seconds: float | None = None
    as_run_wait_p95_seconds: float | None = None
    changes: tuple[WouldChange, ...] = ()
    changes_total: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""


class Sums(Protocol):
    """The amounts of a `WouldHave`, or of its document."""

    @property
    def since(self) -> datetime:
        """The begin of the time."""

    @property
    def would_usd(self) -> Decimal | None:
        """The cost of act mode."""

    @property
    def margin_usd(self) -> Decimal | None:
        """By how much that may be wrong."""

    @property
    def always_on_usd(self) -> Decimal | None:
        """The cost of enough nodes for every pod at once."""

    @property
    def as_run_usd(self) -> Decimal | None:
        """The cost of the nodes that were there."""


def day(at: datetime) -> str:
    """*at* as people name it within some weeks: ``Mon 23 Nov, 07:30 UTC``."""
    return f"{at:%a} {at.day} {at:%b, %H:%M} UTC"


def against(would: Decimal, other: Decimal, than: str) -> str:
    """``$214.00 less than always-on`` for *would* beside *other*, what *than* has cost."""
    saved = other - would
    if abs(saved) < HARDLY_USD:
        return f"as much as {than}"
    return f"{dollars(abs(saved))} {'less' if saved > 0 else 'more'} than {than}"


def conclusion(sums: Sums) -> str:
    """Return the sum in a sentence; empty while there is none."""
    would, margin = sums.would_usd, sums.margin_usd
    if would is None or margin is None:
        return ""
    share = f" (±{percent(float(margin / would))})" if would else ""
    others = ((sums.as_run_usd, "the pools as they ran"), (sums.always_on_usd, "always-on"))
    less = " and ".join(against(would, other, than) for other, than in others if other is not None)
    return f"Since {day(sums.since)}, act mode would have cost {dollars(would)}{share}{': ' if less else ''}{less}."


def waits(replay: WouldHave) -> str:
    """Return how long pods would have waited, and did, in a sentence; empty if none waited or it is
    unknown."""
    would, did = replay.wait_p95_seconds, replay.as_run_wait_p95_seconds
    if would is None or did is None:
        return ""
    return f"95% of {some(replay.pods, 'pod')} would have waited at most {span(would)}; they waited {span(did)}."
