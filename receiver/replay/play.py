"""Play a trace through a world under one controller, from event to event: nobody waits for time to pass.

Which pod held which GPUs of which node, and when, is read from the world's own changes: what
`receiver.replay.conservation` checks a replay by is written by no policy.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from receiver.replay.setting import Reaction
from receiver.replay.world.config import Job
from receiver.replay.world.objects import VM, FinishedJob, Kill, WorldChange, WorldNode, WorldPod
from receiver.replay.world.world import World

A_MOMENT = timedelta(milliseconds=100)  # what asks to be looked at again at once is
GIVEN_UP_AFTER = timedelta(days=70)  # without any job begun or ended: two months of budget have not helped


@dataclass(slots=True, kw_only=True)
class Placement:
    """A pod on a node: bound, running since, over. *finished* is True when it ended by itself."""

    pod: str
    node: str
    gpus: int
    bound_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    finished: bool = False


@dataclass(slots=True)
class Placements:
    """Follows pods, and which nodes registered, from one look at the world's changes to the next."""

    all: list[Placement] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)  # names of nodes
    found_no_room: int = 0  # how many pods the scheduler has said that of
    _open: dict[str, Placement] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def note(self, changes: Iterable[WorldChange], now: datetime) -> None:
        """Take in *changes*, all of which happened at *now*."""
        for change in changes:
            pod = change.obj
            if isinstance(pod, WorldPod) and pod.requests:
                self._pod(pod, deleted=change.verb == "DELETED", now=now)
            elif isinstance(pod, WorldNode) and change.verb == "ADDED":
                self.registered.append(pod.name)

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
            placed = Placement(pod=f"{pod.namespace}/{pod.name}", node=pod.node, gpus=pod.gpus, bound_at=now)
            self._open[key] = placed
            self.all.append(placed)
        if placed.started_at is None and pod.started_at is not None:
            placed.started_at = pod.started_at
        if over:
            placed.ended_at = now
            placed.finished = pod.phase == "Succeeded"
            del self._open[key]


class Controller(Protocol):
    """What sizes the pools of a world: the product, or one that it is compared with."""

    @property
    def actions(self) -> int:
        """How many times it changed something at the cloud."""

    def look(self, now: datetime) -> datetime | None:
        """Look and act at *now*; return the first later moment at which another look could differ although nothing
        changes, or None."""


@dataclass(slots=True, kw_only=True)
class Played:
    """What came of it. *lives* are all instances, *left* the jobs that had not finished at the *end*,
    *paid_gpu_seconds* what the cloud's own books come to, rounded as billed."""

    start: datetime
    end: datetime
    lives: Sequence[VM]
    finished: Sequence[FinishedJob]
    left: Sequence[Job]
    kills: Sequence[Kill]
    looks: int
    actions: int
    paid_gpu_seconds: float
    placements: Placements = field(repr=False)


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Let Python look for cyclic garbage seldom: a step makes many values and no cycles, and a fifth of a replay's time
    went into looking."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@seldom_collecting()
def play(
    world: World,
    jobs: Iterable[Job],
    controller: Controller,
    reaction: Reaction,
    progress: Callable[[datetime, int], None] | None = None,
) -> Played:
    """Submit *jobs* at their times and let *controller* look whenever it would notice that something changed.

    The end is when every job has finished or been given up; nodes that exist then are paid until then. *progress* is
    told the moment and how many jobs have finished, at every look.
    """
    start = world.now
    queue = sorted(jobs, key=lambda job: job.submit_at)
    placements = Placements()
    begun = looks = 0
    version = world.version
    moved_at = start
    wake: datetime | None = reaction.tick_at(start)
    while len(world.finished) + len(world.failed) < len(queue):
        following = [queue[begun].submit_at] if begun < len(queue) else []
        event = world.next_event_at()
        now = min((at for at in (*following, event, wake) if at is not None), default=None)
        if now is None or (begun == len(queue) and now - moved_at > GIVEN_UP_AFTER):
            break
        done, changed = len(world.finished) + len(world.failed), event is not None and event <= now
        world.advance(now)
        while begun < len(queue) and queue[begun].submit_at <= now:
            world.submit(queue[begun])
            begun += 1
            moved_at, changed = now, True
        if len(world.finished) + len(world.failed) > done:
            moved_at = now
        told = placements.found_no_room
        version = _noted(placements, world, version)
        if changed:
            noticed = reaction.noticed(now, waits=placements.found_no_room > told)
            wake = noticed if wake is None else min(wake, noticed)
        if wake is not None and wake <= now:
            looks += 1
            again = controller.look(now)
            wake = None if again is None else reaction.wakes_at(max(again, now + A_MOMENT))
            if progress is not None:
                progress(now, len(world.finished))
            version = _noted(placements, world, version)
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


def _noted(placements: Placements, world: World, version: int) -> int:
    """Note the world's changes since *version*; return the version that it has now."""
    if world.version > version:
        placements.note(world.changes_since(version), world.now)
    return world.version
