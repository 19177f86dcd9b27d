"""How a trace is replayed: how long nodes take, how they are paid, how soon changes are noticed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from receiver.core.model.policy import Pool
from receiver.replay.world.config import Behaviour, Timings, WorldConfig, WorldPool
from receiver.replay.world.world import World

ZERO = timedelta(0)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
CHANGES_KEPT = 20_000  # a replay reads the world's changes at every look, and nobody else does
BACKOFF_LIMIT = 6  # a Kubernetes Job's default: one that loses pods more often is given up, which counts as lost

BillingUnit = Literal["hour", "second"]
Packing = Literal["first_fit", "kube"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """When a change is acted upon: at the next *tick*, when an alert on it arrives or when a *watch* of the pods tells
    of it, whichever is first. Alert and watch are of pods that find no room; all else waits for the tick.

    A controller that wakes *by_itself* keeps the moments that it named; another one keeps them at its next tick.
    The alert takes until the next *scrape*, the next *evaluation* after that, and *group_wait*; without a *scrape*
    there is no alert, and without a *watch* (how long after the change it wakes the loop) nobody watches. Ticks,
    scrapes and evaluations are multiples of their lengths from *start* on.
    """

    start: datetime
    tick: timedelta
    scrape: timedelta | None = None
    evaluation: timedelta = timedelta(seconds=15)
    group_wait: timedelta = ZERO
    watch: timedelta | None = None
    by_itself: bool = False

    def noticed(self, at: datetime, *, waits: bool = True) -> datetime:
        """When a change of *at* is acted upon; *waits* says that a pod found no room."""
        told = [at + self.watch] if waits and self.watch is not None else []
        if waits and self.scrape:
            told.append(self._alert_at(at))
        return min((self.tick_at(at), *told))

    def tick_at(self, at: datetime) -> datetime:
        """The first tick at or after *at*."""
        return self._on(at, self.tick)

    def wakes_at(self, moment: datetime) -> datetime:
        """When a moment that the controller named is kept."""
        return moment if self.by_itself else self.tick_at(moment)

    def _alert_at(self, at: datetime) -> datetime:
        assert self.scrape is not None
        return self._on(self._on(at, self.scrape), self.evaluation) + self.group_wait

    def _on(self, at: datetime, every: timedelta) -> datetime:
        return self.start - ((self.start - at) // every) * every  # ceiling division


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All options of a replay; whatever is not here takes no time at all.

    A node that is asked for at t is an instance at t + *build*, Ready *boot* later, and its GPUs can be used *driver*
    after that; *delete* is how long a deleted one is still there and paid. *jitter* (ratio 0-1) spreads each of them.
    *image_pull* is from a pod's binding to its start. *packing* is how the scheduler chooses among nodes with room: the
    oldest, or as kube-scheduler without a profile of its own does, the emptiest. *tick* is how often the product
    looks (a peer looks at its own interval), *watch* after how long a watch on pods wakes it (None: it has none);
    *scrape*, *evaluation* and *group_wait* are the chain of its alerts (*scrape* None: no alert). The same
    *seed* gives the same names and the same jitter.

    Defaults: GPU instances are said to take 2-10 minutes and drivers 3-7, of which these are the shorter ends; the
    watch takes half a second; alerts on demand are evaluated every 5 s and sent at once by the shipped rules.
    """

    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    build: timedelta = timedelta(seconds=100)
    boot: timedelta = timedelta(seconds=20)
    driver: timedelta = timedelta(seconds=180)
    delete: timedelta = timedelta(seconds=20)
    image_pull: timedelta = ZERO
    jitter: float = 0.0
    billing: BillingUnit = "hour"
    packing: Packing = "first_fit"
    tick: timedelta = timedelta(seconds=10)
    watch: timedelta | None = timedelta(seconds=0.5)
    scrape: timedelta | None = timedelta(seconds=15)
    evaluation: timedelta = timedelta(seconds=5)
    group_wait: timedelta = ZERO
    seed: int = 0

    @property
    def by_the_hour(self) -> bool:
        """True when every started hour of a node is paid."""
        return self.billing == "hour"

    @property
    def unit(self) -> timedelta:
        """What is paid at least, and what is rounded up to."""
        return HOUR if self.by_the_hour else SECOND

    @property
    def lead(self) -> timedelta:
        """From asking for a node until its GPUs can be used."""
        return self.build + self.boot + self.driver

    def world(self, pools: Sequence[Pool]) -> World:
        """Return a world with *pools*, all of them empty."""
        return World(
            WorldConfig(
                pools=tuple(
                    WorldPool(
                        id=pool.id, size=pool.size, resources=pool.resources, labels=pool.labels, taints=pool.taints
                    )
                    for pool in pools
                ),
                timings=Timings(
                    create=ZERO,
                    build=self.build,
                    boot=self.boot,
                    driver=self.driver,
                    image_pull=self.image_pull,
                    warmup=ZERO,
                    delete=self.delete,
                    node_lingers=ZERO,
                    terminate=ZERO,
                    quota_lag=ZERO,
                    schedule=timedelta(milliseconds=1),  # a pod is seen waiting before it is placed
                    finished_lingers=ZERO,
                    jitter=self.jitter,
                ),
                behaviour=Behaviour(granularity=self.unit),
                price={pool.size: pool.price_usd_per_hour for pool in pools if pool.price_usd_per_hour is not None},
                seed=self.seed,
                backoff_limit=BACKOFF_LIMIT,
                packing="first_fit" if self.packing == "first_fit" else "least_allocated",
                journal_limit=CHANGES_KEPT,
            ),
            self.start,
        )

    def reaction(self) -> Reaction:
        """How soon the product notices a change."""
        return Reaction(
            start=self.start,
            tick=self.tick,
            by_itself=True,
            watch=self.watch,
            scrape=self.scrape,
            evaluation=self.evaluation,
            group_wait=self.group_wait,
        )
