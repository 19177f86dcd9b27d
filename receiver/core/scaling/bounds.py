"""The bounds of a pool at one moment: its own, what open windows say, and what people say for a while."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from receiver.core.model.overrides import Override, Spoken, spoken_of
from receiver.core.model.policy import Pool
from receiver.core.model.windows import Bounds, bounds_at


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsInForce(Bounds):
    """Bounds with the overrides that are in force for the pool (*spoken*)."""

    spoken: Spoken = field(default_factory=Spoken)

    @property
    def overrun(self) -> bool:
        """True when a person says how many nodes there may be at most: what is beyond that goes at once."""
        return self.spoken.most is not None

    @property
    def why_most(self) -> str:
        """Who says *max_nodes*, to stand behind the number; empty for the pool itself."""
        if self.spoken.most is not None:
            return f" ({self.spoken.most})"
        return self._windows_and(self.spoken.floor)

    @property
    def why_least(self) -> str:
        """Who says *min_nodes*, to stand behind the number; empty for the pool itself."""
        if self.spoken.pin is not None:
            return f" ({self.spoken.pin})"
        if self.spoken.floor is not None and self.spoken.ceiling is not None:
            return f" ({self.spoken.floor}; {self.spoken.ceiling})"
        return self._windows_and(self.spoken.floor)

    def _windows_and(self, override: Override | None) -> str:
        said = [f"window {', '.join(self.names)}"] if self.names else []
        said += [str(override)] if override is not None else []
        return f" ({'; '.join(said)})" if said else ""


def bounds_of(pool: Pool, overrides: Iterable[Override], at: datetime) -> BoundsInForce:
    """Return the bounds of *pool* in force at *at*.

    The order of authority: `max_nodes` of the pool, then pin, ceiling, floor, window. A pin is floor and ceiling in
    one and leaves no standby. A ceiling stands in the place of the windows' maximum, lower or higher. A floor raises
    the minimum, and the windows' maximum where that is lower.
    """
    spoken = spoken_of(pool.id, overrides, at)
    most = spoken.most.nodes if spoken.most is not None else None
    least = spoken.least.nodes if spoken.least is not None else None
    windows = pool.windows if most is None else [replace(w, max_nodes=None) for w in pool.windows]
    limit = pool.max_nodes if most is None else min(most, pool.max_nodes)
    found = bounds_at(pool.min_nodes, limit, pool.standby_nodes, windows, at)
    ceiling, floor, standby = found.max_nodes, found.min_nodes, found.standby_nodes
    if least is not None:
        floor = max(floor, min(least, limit))
        ceiling = max(ceiling, floor)
    if spoken.pin is not None:
        floor, standby = ceiling, 0
    return BoundsInForce(min_nodes=floor, max_nodes=ceiling, standby_nodes=standby, names=found.names, spoken=spoken)
