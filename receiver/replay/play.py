"""Play a trace through a world under one controller, from event to event, without waiting for time to pass.

Which pod held which GPUs, and when, comes from the world's own changes. So the log that `receiver.replay.figures`
checks does not depend on a policy.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

from receiver.core.model.policy import Pool
from receiver.replay.world.objects import (
    VM,
    Behaviour,
    FinishedJob,
    Job,
    Kill,
    Timings,
    WorldConfig,
    WorldNode,
    WorldPod,
    WorldPool,
)
from receiver.replay.world.world import World

ZERO = timedelta(0)
SECOND = timedelta(seconds=1)
CHANGES_KEPT = 20_000  # a replay reads the world's changes at every look
BACKOFF_LIMIT = 6  # the default of a Kubernetes Job; a job that fails counts as lost

BillingUnit = Literal["hour", "second"]
Packing = Literal["first_fit", "kube"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """How soon a controller reacts to a change: at the next *tick*, at an alert or through a *watch* of the pods,
    whichever is first. Alert and watch report pods that find no node; all other changes wait for the tick.

    *watch* is the delay of the watch (None: no watch). An alert takes until the next *scrape* (None: no alert), the
    next *evaluation* after it, and *group_wait*. Ticks, scrapes and evaluations are multiples of their lengths from
    *start*. A controller that wakes *by_itself* looks at the times that it named; another one at the next tick after
    them.
    """

    start: datetime
    tick: timedelta
    scrape: timedelta | None = None
    evaluation: timedelta = timedelta(seconds=15)
    group_wait: timedelta = ZERO
    watch: timedelta | None = None
    by_itself: bool = False

    def noticed(self, at: datetime, *, waits: bool = True) -> datetime:
        """Return when the controller looks after a change at *at*; *waits*: a pod found no node."""
        notices = [at + self.watch] if waits and self.watch is not None else []
        if waits and self.scrape:
            notices.append(self._on(self._on(at, self.scrape), self.evaluation) + self.group_wait)
        return min((self.tick_at(at), *notices))

    def tick_at(self, at: datetime) -> datetime:
        return self._on(at, self.tick)

    def wakes_at(self, moment: datetime) -> datetime:
        """Return when the controller looks after naming *moment*."""
        return moment if self.by_itself else self.tick_at(moment)

    def _on(self, at: datetime, every: timedelta) -> datetime:
        return self.start - ((self.start - at) // every) * every  # ceiling division


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The options of a replay. Everything else takes no time.

    A node requested at t is an instance at t + *build*, Ready *boot* later, and its GPUs are usable *driver* after
    that. A deleted node is billed for *delete* more. *jitter* (ratio 0-1) spreads each of them. *image_pull* is from a
    pod's binding to its start. *packing* selects among nodes with room: the oldest, or the emptiest as kube-scheduler
    does by default. *tick*, *watch*, *scrape*, *evaluation* and *group_wait* are those of the product's `Reaction`; a
    peer has its own interval. The same *seed* gives the same names and jitter. *granularity* is the unit that is paid
    once it started, unless *billing* is by the second.

    Defaults: build and driver are the shorter ends of the usual 2-10 and 3-7 minutes; alerts on demand are evaluated
    every 5 s and sent at once, as the shipped rules do.
    """

    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    build: timedelta = timedelta(seconds=100)
    boot: timedelta = timedelta(seconds=20)
    driver: timedelta = timedelta(seconds=180)
    delete: timedelta = timedelta(seconds=20)
    image_pull: timedelta = ZERO
    jitter: float = 0.0
    billing: BillingUnit = "hour"
    granularity: timedelta = timedelta(hours=1)
    packing: Packing = "first_fit"
    tick: timedelta = timedelta(seconds=10)
    watch: timedelta | None = timedelta(seconds=0.5)
    scrape: timedelta | None = timedelta(seconds=15)
    evaluation: timedelta = timedelta(seconds=5)
    group_wait: timedelta = ZERO
    seed: int = 0

    @property
    def by_the_hour(self) -> bool:
        return self.billing == "hour"

    @property
    def unit(self) -> timedelta:
        """The smallest billed time, to which bills are rounded up."""
        return self.granularity if self.by_the_hour else SECOND

    @property
    def lead(self) -> timedelta:
        return self.build + self.boot + self.driver

    def world(self, pools: Sequence[Pool]) -> World:
        return World(self.world_config(pools), self.start)

    def world_config(self, pools: Sequence[Pool]) -> WorldConfig:
        return WorldConfig(
            pools=tuple(
                WorldPool(id=p.id, size=p.size, resources=p.resources, labels=p.labels, taints=p.taints) for p in pools
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
                schedule=timedelta(milliseconds=1),  # a pod is visible as waiting before it is placed
                finished_lingers=ZERO,
                jitter=self.jitter,
            ),
            behaviour=Behaviour(granularity=self.unit),
            price={pool.size: pool.price_usd_per_hour for pool in pools if pool.price_usd_per_hour is not None},
            seed=self.seed,
            backoff_limit=BACKOFF_LIMIT,
            packing="first_fit" if self.packing == "first_fit" else "least_allocated",
            journal_limit=CHANGES_KEPT,
        )

    def reaction(self) -> Reaction:
        return Reaction(
            start=self.start,
            tick=self.tick,
            by_itself=True,
            watch=self.watch,
            scrape=self.scrape,
            evaluation=self.evaluation,
            group_wait=self.group_wait,
        )


A_MOMENT = timedelta(milliseconds=100)  # the shortest time between two looks
GIVEN_UP_AFTER = timedelta(days=70)  # without any job begun or ended: two new months of budget did not help


@dataclass(slots=True, kw_only=True)
class Binding:
    """A pod on a node: when it was bound, started and ended. *finished*: it ended by itself."""

    pod: str
    node: str
    gpus: int
    bound_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    finished: bool = False


@dataclass(slots=True)
class Bindings:
    """The log of pods on nodes and of registered nodes, from the world's changes."""

    all: list[Binding] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)  # names of nodes
    found_no_room: int = 0  # pods that the scheduler found no node for
    _open: dict[str, Binding] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _version: int = 0

    def follow(self, world: World) -> None:
        """Record the changes of *world* since the last call, all of which happened now."""
        if world.version > self._version:
            for change in world.changes_since(self._version):
                pod = change.obj
                if isinstance(pod, WorldPod) and pod.requests:
                    self._pod(pod, deleted=change.verb == "DELETED", now=world.now)
                elif isinstance(pod, WorldNode) and change.verb == "ADDED":
                    self.registered.append(pod.name)
            self._version = world.version

    def _pod(self, pod: WorldPod, *, deleted: bool, now: datetime) -> None:
        key = pod.uid
        over = deleted or pod.over
        if pod.node is None:
            if pod.scheduled is False and key not in self._told:
                self._told.add(key)
                self.found_no_room += 1
            return
        placed = self._open.get(key)
        if placed is None:
            if over:
                return
            placed = Binding(pod=f"{pod.namespace}/{pod.name}", node=pod.node, gpus=pod.gpus, bound_at=now)
            self._open[key] = placed
            self.all.append(placed)
        if placed.started_at is None and pod.started_at is not None:
            placed.started_at = pod.started_at
        if over:
            placed.ended_at = now
            placed.finished = pod.phase == "Succeeded"
            del self._open[key]


class Controller(Protocol):
    """An autoscaler of a world's pools: the product, or one that it is compared with."""

    @property
    def actions(self) -> int:
        """The number of calls that changed something at the cloud."""

    def look(self, now: datetime) -> datetime | None:
        """Look and act at *now*. Return the next time at which a look can differ without a change, or None."""


@dataclass(slots=True, kw_only=True)
class Played:
    """A played trace. *lives* are all instances, *left* the jobs that had not finished at the *end*, *paid_gpu_seconds*
    the total of the cloud's own books, rounded as billed."""

    start: datetime
    end: datetime
    lives: Sequence[VM]
    finished: Sequence[FinishedJob]
    left: Sequence[Job]
    kills: Sequence[Kill]
    looks: int
    actions: int
    paid_gpu_seconds: float
    placements: Bindings = field(repr=False)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Run the garbage collector rarely: a step makes many values and no cycles, and collections took a fifth of a
    replay's time."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@rare_collections()
def play(
    world: World,
    jobs: Iterable[Job],
    controller: Controller,
    reaction: Reaction,
    progress: Callable[[datetime, int], None] | None = None,
    until: datetime | None = None,
) -> Played:
    """Submit *jobs* at their times, and let *controller* look whenever *reaction* says.

    It ends *until* then, or by default when every job has finished or failed; remaining nodes are billed until the end.
    *progress* takes the time and the number of finished jobs at every look.
    """
    start = world.now
    queue = sorted(jobs, key=lambda job: job.submit_at)
    placements = Bindings(_version=world.version)
    submitted = looks = 0
    moved_at = start
    wake: datetime | None = reaction.tick_at(start)
    while len(world.finished) + len(world.failed) < len(queue) if until is None else world.now < until:
        following = [queue[submitted].submit_at] if submitted < len(queue) else []
        event = world.next_event_at()
        now = min((at for at in (*following, event, wake, until) if at is not None), default=None)
        if now is None or (until is None and submitted == len(queue) and now - moved_at > GIVEN_UP_AFTER):
            break
        ended_before, changed = len(world.finished) + len(world.failed), event is not None and event <= now
        world.advance(now)
        while submitted < len(queue) and queue[submitted].submit_at <= now:
            world.submit(queue[submitted])
            submitted += 1
            moved_at, changed = now, True
        if len(world.finished) + len(world.failed) > ended_before:
            moved_at = now
        before = placements.found_no_room
        placements.follow(world)
        if changed:
            noticed = reaction.noticed(now, waits=placements.found_no_room > before)
            wake = noticed if wake is None else min(wake, noticed)
        if wake is not None and wake <= now:
            looks += 1
            again = controller.look(now)
            wake = None if again is None else reaction.wakes_at(max(again, now + A_MOMENT))
            if progress is not None:
                progress(now, len(world.finished))
            placements.follow(world)
    over = {job.id for job in world.finished}
    return Played(
        start=start,
        end=world.now,
        lives=tuple(world.lives),
        finished=tuple(world.finished),
        left=tuple(job for job in queue if job.id not in over),
        kills=tuple(world.kills),
        looks=looks,
        actions=controller.actions,
        paid_gpu_seconds=world.paid_gpu_seconds(),
        placements=placements,
    )
