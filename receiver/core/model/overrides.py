"""Temporary overrides that people set on pools: pin, floor, ceiling, pause, snooze, always with who, why and until."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from receiver.core.model.text import some

EVERY_POOL = "all"  # how people name every pool


class OverrideKind(StrEnum):
    """The kinds of override."""

    PIN = "pin"  # exactly so many nodes
    FLOOR = "floor"  # at least so many nodes, whatever the windows say
    CEILING = "ceiling"  # at most so many nodes, in the place of what the windows say
    PAUSE = "pause"  # no change
    SNOOZE = "snooze"  # no removal but of dead nodes


SIZES = frozenset({OverrideKind.PIN, OverrideKind.FLOOR, OverrideKind.CEILING})  # these say a number of nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An override of *pool* (a pool id, None for every pool); *nodes* is None for kinds without a number.

    It is in force from *at* until just before *until* (both UTC), unless it is ended earlier.
    """

    id: str
    kind: OverrideKind
    who: str
    why: str
    at: datetime
    until: datetime
    pool: str | None = None
    nodes: int | None = None

    def holds(self, now: datetime) -> bool:
        """True while it is in force."""
        return self.at <= now < self.until

    def concerns(self, pool: str) -> bool:
        """True when it applies to the pool with this id."""
        return self.pool in (None, pool)

    def __str__(self) -> str:
        """``pin of 3 nodes by alice until 2026-11-21 18:00 UTC: load test``."""
        size = "" if self.nodes is None else f" of {some(self.nodes, 'node')}"
        return f"{self.kind}{size} by {self.who} until {self.until:%Y-%m-%d %H:%M} UTC: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverridesInForce:
    """The overrides in force for one pool at one moment: the newest of each kind."""

    pin: Override | None = None
    floor: Override | None = None
    ceiling: Override | None = None
    pause: Override | None = None
    snooze: Override | None = None

    @property
    def all(self) -> tuple[Override, ...]:
        """All of them, in order of precedence."""
        found = (self.pause, self.snooze, self.pin, self.ceiling, self.floor)
        return tuple(o for o in found if o is not None)

    @property
    def least(self) -> Override | None:
        """The one that sets the minimum, if any: a pin goes before a floor."""
        return self.pin or self.floor

    @property
    def most(self) -> Override | None:
        """The one that sets the maximum, if any: a pin goes before a ceiling."""
        return self.pin or self.ceiling


def overrides_in_force(pool: str, overrides: Iterable[Override], now: datetime) -> OverridesInForce:
    """Return which of *overrides* apply to the pool with the id *pool* at *now*.

    Of several of one kind the newest counts, even if an older one names this pool alone and the newer one every pool;
    when the newest ends, an older one that lasts longer counts again.
    """
    found = sorted((o for o in overrides if o.concerns(pool) and o.holds(now)), key=lambda o: (o.at, o.id))
    return OverridesInForce(**{o.kind.value: o for o in found})
