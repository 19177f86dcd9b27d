"""Exceptions in one part of a step. The part is set aside, so that the other pools and workloads are still served.

The core hides no exception: with a `Failures` to note them in they become values, without one they are raised. The
loops over pools and workloads say by `blame` whose an exception is, and `LeftOut` leaves out what it came from.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import TracebackType
from typing import Self

from receiver.core.model.model import Facts
from receiver.core.model.pods import owner_of


class Extra(StrEnum):
    """What an assignment can do without, beside the sources of size that capabilities add: those by their kind."""

    REFUSALS = "refusals"  # by the scheduler; without, what it refuses gets a node
    REARRANGING = "rearranging"  # of work between rooms; without, a node more is bought at most


class blame:  # noqa: N801  # reads as a verb, as `suppress` does
    """Attributes an exception raised inside to a *pool* (its id), to the *owner* of work, or to an extra *part*.

    A loop over many needs one `with` around it, whose attributes each round sets: that costs no call. Where several are
    nested, the innermost that names a pool names it, and likewise for the owner and the part.
    """

    __slots__ = ("owner", "part", "pool")

    def __init__(self, *, pool: str | None = None, owner: str | None = None, part: str | None = None) -> None:
        self.pool = pool
        self.owner = owner
        self.part = part

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, Exception):
            inner = error.__dict__.get(BLAMED, NO_ONE)
            error.__dict__[BLAMED] = blame(
                pool=self.pool if inner.pool is None else inner.pool,
                owner=self.owner if inner.owner is None else inner.owner,
                part=self.part if inner.part is None else inner.part,
            )


BLAMED = "_blamed"  # the attribute of an exception that holds what it is attributed to
NO_ONE = blame()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception in one *part* of a step. *pool* (an id) and *workload* (its owner) are None if several share it."""

    part: str
    error: Exception
    pool: str | None = None
    workload: str | None = None

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


@dataclass(slots=True)
class Failures:
    """The failures of one step. *set_aside* are the pools that the step no longer serves, with their first error."""

    all: list[Failure] = field(default_factory=list)
    set_aside: dict[str, Failure] = field(default_factory=dict)

    def note(self, failure: Failure) -> None:
        self.all.append(failure)

    def sets_aside(self, pool: str, failure: Failure) -> None:
        self.note(failure)
        self.set_aside.setdefault(pool, failure)


MOST_LEFT_OUT = 20  # owners whose work is left out; with more, the work is not at fault
MOST_PAIRS = 5  # owners that fail in one pool before the pool is set aside


@dataclass(slots=True)
class LeftOut:
    """What a step leaves out: all work of some *owners*, *pairs* of an owner and a pool, and *parts*: `Extra`, and the
    kinds of sources of size."""

    owners: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)

    def of(self, facts: Facts) -> Facts:
        if not self.owners and not self.parts:
            return facts
        other_work = facts.other_work
        return replace(
            facts,
            waiting=tuple(p for p in facts.waiting if owner_of(p) not in self.owners),
            other_work=replace(
                other_work,
                deferred=tuple(p for p in other_work.deferred if owner_of(p) not in self.owners),
                requests=tuple(r for r in other_work.requests if r.kind not in self.parts),
                refusals=() if Extra.REFUSALS in self.parts else other_work.refusals,
            ),
        )

    def learn(self, error: Exception, failures: Failures) -> None:
        """Leave out what *error* came from; raise it again where that is unknown or was left out already. An owner and
        a pool that failed together are kept apart and both go on: it does not matter which of them is at fault."""
        blamed = error.__dict__.pop(BLAMED, NO_ONE)
        pool, owner = blamed.pool, blamed.owner
        if blamed.part is not None and blamed.part not in self.parts:
            self.parts.add(blamed.part)
            failures.note(Failure(part="assign", error=error))
            return
        failure = Failure(part="assign", error=error, pool=pool, workload=owner)
        if pool is not None and owner is not None and (owner, pool) not in self.pairs:
            self.pairs.add((owner, pool))
            aside = sum(p == pool for _, p in self.pairs) > MOST_PAIRS
        elif pool is not None and pool not in failures.set_aside:
            aside = True
        elif owner is not None and owner not in self.owners and len(self.owners) < MOST_LEFT_OUT:
            self.owners.add(owner)
            aside = False
        else:
            raise error
        failures.note(failure)
        if aside and pool is not None:
            failures.set_aside.setdefault(pool, failure)
