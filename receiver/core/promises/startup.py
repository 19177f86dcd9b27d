"""How long nodes take to start, learnt per pool from the last ones in the ledger: quantiles of samples, no model."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import nlargest
from operator import itemgetter
from statistics import median

from receiver.core.model.memory import NodeLife
from receiver.core.scaling.packing import Survival

LAST_NODES = 50  # of a pool: sizes, images and drivers change
FEWEST = 5  # fewer nodes say nothing of the spread
LATE = timedelta(seconds=5)  # of what a step sees, on average: half the default tick
ZERO = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """The start-up of one past node, in seconds since its creation: built, Ready, usable. *start* is the time from the
    binding of its first GPU pod to its containers (the pull of its *image*)."""

    built: float
    ready: float
    usable: float
    start: float = 0.0
    image: str = ""

    @classmethod
    def of(cls, life: NodeLife) -> "Startup | None":
        """The start-up of *life*; None unless it was watched until the node was usable.

        A step sees each stage up to a tick late. The pod that waited for the node was bound at once, and Kubernetes
        keeps that moment.
        """
        if life.usable_at is None or life.seen_at is None or life.usable_at <= life.seen_at:
            return None
        usable = min(life.usable_at - LATE, life.bound_at or life.usable_at)
        if life.bound_at is not None and life.usable_at - 2 * LATE <= life.bound_at <= life.usable_at:
            usable = life.bound_at
        ready, built = (min((at or life.usable_at) - LATE, usable) for at in (life.ready_at, life.active_at))
        pulled = life.running_at - life.bound_at if life.running_at and life.bound_at else ZERO
        since = life.created_at
        return cls(
            built=max(ZERO, built - since).total_seconds(),
            ready=max(ZERO, ready - since).total_seconds(),
            usable=max(ZERO, usable - since).total_seconds(),
            start=max(ZERO, pulled).total_seconds(),
            image=life.image or "",
        )

    def left(self, stage: str, passed: float) -> float | None:
        """Seconds that were left until the first pod ran, *passed* seconds after *stage* had begun; None if the stage
        was over by then."""
        start, end = {"build": (0.0, self.built), "boot": (self.built, self.ready)}.get(
            stage, (self.ready, self.usable)
        )
        return self.usable + self.start - start - passed if end - start >= passed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """The last start-ups of each pool, the nodes that are not usable yet, by instance, and how long work runs."""

    startups: Mapping[str, Sequence[Startup]] = field(default_factory=dict)
    coming: Mapping[str, NodeLife] = field(default_factory=dict)
    pulls: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)  # of images by pool, enough of them
    survival: Survival = field(default_factory=Survival)

    def startups_with(self, pool: str, image: str) -> Sequence[Startup]:
        """The past start-ups of *pool*, as they would have been with *image*: how long a node takes does not depend on
        it, and what its pulls took there is known once enough nodes began with it."""
        startups, known = self.startups.get(pool, ()), sorted(self.pulls.get((pool, image), ()))
        pulls = [*known, known[-1] + gap(known)] if known else []  # the next may take longer than any before
        return [replace(s, start=pulls[n % len(pulls)]) for n, s in enumerate(startups)] if pulls else startups

    def pull(self, pool: str, image: str) -> timedelta | None:
        """How long half of the pulls of *image* took on new nodes of *pool*; None: not known."""
        pulls = self.pulls.get((pool, image))
        return timedelta(seconds=median(pulls)) if pulls else None

    def left(self, pool: str, instance: str | None, since: datetime, now: datetime, image: str = "") -> Sequence[float]:
        """How many seconds from *now* nodes like this one took until their first pod ran, shortest first: those that
        had spent as long in the stage that it is in. Without *instance* it is one that was requested *since* then. That
        pod's *image* is pulled at the end.

        Empty: too few are known, or almost all were faster.
        """
        life = self.coming.get(instance or "")
        began_at, stage = since, "build"
        if life is not None:
            reached_at = life.ready_at or life.active_at
            began_at = life.created_at if reached_at is None else max(life.created_at, reached_at - LATE)
            stage = "driver" if life.ready_at else "boot" if life.active_at else "build"
        passed, later = max(ZERO, now - began_at).total_seconds(), max(ZERO, since - now).total_seconds()
        remaining = (s.left(stage, passed) for s in self.startups_with(pool, image))
        durations = sorted(later + seconds for seconds in remaining if seconds is not None)
        return durations if len(durations) >= FEWEST else ()


NOTHING_LEARNT = Learnt()


def learn(lives: Iterable[NodeLife], lasted: Iterable[timedelta] = ()) -> Learnt:
    """Return what *lives* say about the next nodes, and run times of past workloads (*lasted*) about running work."""
    watched: dict[str, list[tuple[datetime, str, Startup]]] = {}
    coming: dict[str, NodeLife] = {}
    for life in lives:
        if life.usable_at is None and life.gone_at is None:
            coming[life.instance] = life
        elif life.usable_at is not None and (startup := Startup.of(life)) is not None:
            watched.setdefault(life.pool, []).append((life.usable_at, life.instance, startup))
    startups = {pool: [s for *_, s in nlargest(LAST_NODES, nodes)] for pool, nodes in watched.items()}
    return Learnt(startups=startups, coming=coming, pulls=_pulls(watched), survival=Survival.of(lasted))


def _pulls(watched: Mapping[str, Iterable[tuple[datetime, str, Startup]]]) -> Mapping[tuple[str, str], list[float]]:
    """Seconds of the last pulls of each image on new nodes, by pool and image, where they are enough."""
    pulls: dict[tuple[str, str], list[float]] = {}
    for pool, nodes in watched.items():
        for *_, startup in sorted(nodes, key=itemgetter(0, 1), reverse=True):
            if startup.image:
                pulls.setdefault((pool, startup.image), []).append(startup.start)
    return {key: seconds[:LAST_NODES] for key, seconds in pulls.items() if len(seconds) >= FEWEST}


def chance(values: Sequence[float], within: float) -> float:
    """The chance (0-1) that another one of *values*, which are sorted and at least two, stays *within* that.

    Of n values the k-th is not exceeded by the next one with the chance k / (n + 1), whatever their distribution.
    Beyond the first and the last one the mean gap between them goes on.
    """
    count, below = len(values), bisect_right(values, within)
    if 0 < below < count:
        place = below + (within - values[below - 1]) / (values[below] - values[below - 1])
    else:
        place = count + (within - values[-1]) / gap(values) if below else 1 - (values[0] - within) / gap(values)
    return min(max(place / (count + 1), 0.0), 1.0)


def gap(values: Sequence[float]) -> float:
    """The mean gap between sorted *values*, at least a millisecond: the noise of floating point is no gap."""
    return max((values[-1] - values[0]) / (len(values) - 1), 1e-3)
