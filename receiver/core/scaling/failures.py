"""Exceptions in one part of a step. The part is set aside, so that the other pools and workloads are still served.

The core hides no exception: with a `Failures` to note them in they become values, without one they are raised.

The assignment iterates over all pools and workloads in many loops. Instead of a guard in each, `LeftOut` reads the
frames that an exception passed through, innermost first, to find the pool and the workload that caused it.
"""

from dataclasses import dataclass, field, replace
from itertools import islice
from traceback import walk_tb

from receiver.core.model.model import Facts, PoolState
from receiver.core.model.pods import Pod, Workload, owner_of
from receiver.core.model.policy import Pool
from receiver.core.scaling import admission, buffers, filling
from receiver.core.scaling.capacity import Tally


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
SHARED_FRAMES = 2  # `assign` and `_assign`: they loop over all pools and workloads
MOST_PAIRS = 5  # owners that fail in one pool before the pool is set aside


@dataclass(slots=True)
class LeftOut:
    """The work that a step leaves out: all work of some *owners*, and *pairs* of an owner and a pool."""

    owners: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    buffers: bool = True  # whether buffers are kept; a bug there must not hold up waiting work
    candidates: bool = True  # whether Workloads of Kueue are judged; without, they are not admitted
    rearranges: bool = True  # whether work moves between rooms to save nodes; a bug there costs a node at most

    def __bool__(self) -> bool:
        return bool(self.owners) or not (self.buffers and self.candidates)

    def of(self, facts: Facts) -> Facts:
        waiting, gated = (
            tuple(p for p in pods if owner_of(p) not in self.owners) for pods in (facts.waiting, facts.deferred)
        )
        return replace(
            facts,
            waiting=waiting,
            deferred=gated,
            buffers=facts.buffers if self.buffers else (),
            candidates=facts.candidates if self.candidates else (),
        )

    def learn(self, error: Exception, failures: Failures) -> None:
        """Leave out what *error* came from; raise it again where that is unknown or was left out already. An owner and
        a pool that failed together are kept apart and both go on: it does not matter which of them is at fault."""
        files = {frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)}
        if self.buffers and buffers.__file__ in files:
            self.buffers = False
            failures.note(Failure(part="assign", error=error))
            return
        if self.candidates and admission.__file__ in files:
            self.candidates = False
            failures.note(Failure(part="assign", error=error))
            return
        if self.rearranges and filling.__file__ in files:
            self.rearranges = False
            failures.note(Failure(part="assign", error=error))
            return
        pool, owner = _subjects(error)
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


def _subjects(error: Exception) -> tuple[str | None, str | None]:
    """The pool and the owner of the work in the frames of *error*; those of the innermost frame win."""
    pool: str | None = None
    owner: str | None = None
    for frame, _ in islice(walk_tb(error.__traceback__), SHARED_FRAMES, None):
        pools, owners = [], []
        for local in frame.f_locals.values():
            match getattr(local, "tally", local):
                case Tally() as tally:
                    pools.append(tally.pool.id)
                case PoolState() as state:
                    pools.append(state.pool)
                case Pool() as found:
                    pools.append(found.id)
            match local:
                case Workload():
                    owners.append(owner_of(local.pods[0]))
                case Pod():
                    owners.append(owner_of(local))
        pool, owner = next(iter(pools), pool), next(iter(owners), owner)
    return pool, owner
