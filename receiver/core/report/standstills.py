"""When pools stood still in a month: growth that budgets held back, and what people paused."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from receiver.core.model.overrides import EVERY_POOL, Override, OverrideKind
from receiver.core.model.policy import Policy, Scope
from receiver.core.money.budget import title_of

RULES = ("within_budget", "spend_is_known", "price_is_known")  # what holds growth back for money's sake


class Stood(StrEnum):
    """Why a pool stood still."""

    BUDGET = "budget"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoke:
    """A stored decision about *pool* at *at*; *detail* is what held its growth back for money's sake, or empty."""

    pool: str
    at: datetime
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """*pool* (by name, or ``all``) stood still from *since* to *until* (None: it still does). *who* paused it."""

    kind: Stood
    pool: str
    since: datetime
    until: datetime | None
    why: str
    who: str = ""


def standstills(
    spoken: Iterable[Spoke],
    said: Iterable[tuple[Override, datetime | None]],
    policy: Policy,
    start: datetime,
    until: datetime,
    team: str | None,
) -> tuple[Standstill, ...]:
    """Return what stood still between *start* and *until*, in order.

    *spoken* are the decisions of that time and each pool's last one before it, in order; *said* are overrides, with
    when they were ended. A *team* is told of growth that its own budget held back.
    """
    found = [*_held(spoken, policy)]
    if team is not None:
        found = [each for each in found if f"{title_of(Scope.TEAM, team)}" in each.why]
    else:
        found += _paused(said, policy, until)
    within = (each for each in found if each.since < until and (each.until is None or each.until > start))
    return tuple(sorted(within, key=lambda each: (each.since, each.pool, each.kind)))


def _held(spoken: Iterable[Spoke], policy: Policy) -> Iterator[Standstill]:
    open_now: dict[str, Standstill] = {}
    for spoke in spoken:
        before = open_now.get(spoke.pool)
        if spoke.detail and before is None:
            pool = policy.pool(spoke.pool)
            name = pool.name if pool else spoke.pool
            open_now[spoke.pool] = Standstill(
                kind=Stood.BUDGET, pool=name, since=spoke.at, until=None, why=spoke.detail
            )
        elif not spoke.detail and before is not None:
            yield replace(open_now.pop(spoke.pool), until=spoke.at)
    yield from open_now.values()


def _paused(said: Iterable[tuple[Override, datetime | None]], policy: Policy, now: datetime) -> Iterator[Standstill]:
    for override, ended_at in said:
        if override.kind is OverrideKind.PAUSE:
            pool = policy.pool(override.pool) if override.pool is not None else None
            end = min(override.until, ended_at or override.until)
            yield Standstill(
                kind=Stood.PAUSE,
                pool=pool.name if pool else override.pool or EVERY_POOL,
                since=override.at,
                until=end if end <= now else None,
                why=override.why,
                who=override.who,
            )
