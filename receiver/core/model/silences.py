"""Silences of Alertmanager, and the one that pauses a pool."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from receiver.core.model.policy import Policy
from receiver.core.model.text import some

COMPONENT = "gpu-autoscaler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """One matcher of a silence, as API v2 gives it."""

    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when *labels* satisfy this matcher; an absent label counts as empty, as in Alertmanager."""
        have = labels.get(self.name, "")
        hit = re.fullmatch(self.value, have) is not None if self.is_regex else have == self.value
        return hit is self.is_equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """An active silence: who, why, until when."""

    id: str
    matchers: tuple[Matcher, ...]
    ends_at: datetime
    created_by: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSilence:
    """What pauses a pool: of the silences that name it the one that ends last. *more* others name it too."""

    id: str
    by: str
    until: datetime
    comment: str = ""
    more: int = 0

    def __str__(self) -> str:
        others = f" ({some(self.more, 'other silence')} too)" if self.more else ""
        why = f": {self.comment}" if self.comment else ""
        return f"silenced in Alertmanager by {self.by} until {self.until:%Y-%m-%d %H:%M} UTC{others}{why}"


def silenced_pools(silences: Iterable[Silence], policy: Policy) -> Mapping[str, PoolSilence]:
    """Return, by pool id, what pauses it, for every pool that a silence pauses.

    A silence pauses a pool when it matches ``{component="gpu-autoscaler", pool=<id or name>}`` without
    naming an alert: it speaks of the pool, not of one alert.
    """
    found: dict[str, list[Silence]] = {}
    for silence in silences:
        named = {m.name for m in silence.matchers}
        if "alertname" in named or "pool" not in named:
            continue
        for pool in policy.pools:
            if any(_matches(silence, name) for name in (pool.id, pool.name)):
                found.setdefault(pool.id, []).append(silence)
    return {pool: _longest(ones) for pool, ones in found.items()}


def _matches(silence: Silence, pool: str) -> bool:
    return all(m.matches({"component": COMPONENT, "pool": pool}) for m in silence.matchers)


def _longest(silences: list[Silence]) -> PoolSilence:
    last = max(silences, key=lambda s: (s.ends_at, s.id))
    return PoolSilence(
        id=last.id,
        by=last.created_by or "someone",
        until=last.ends_at,
        comment=last.comment,
        more=len(silences) - 1,
    )
