"""The promise to a waiting workload: when it will probably start. It changes no decision."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from math import prod
from typing import Any

from receiver.core.model.actions import Decision, Verdict
from receiver.core.model.model import PoolState, Stage
from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Pool
from receiver.core.model.text import lasting
from receiver.core.promises.startup import ZERO, Learnt, chance, gap
from receiver.core.scaling.capacity import Placement
from receiver.core.scaling.guardrails.waiting import COOLED_DOWN
from receiver.core.scaling.node_holds import Blocks, node_hold
from receiver.core.scaling.rooms import Bin, foreign_taints
from receiver.core.scaling.terminations import STUCK_AFTER
from receiver.core.scaling.wanted import Wanted

P50, P90 = 0.5, 0.9
A_MINUTE = timedelta(minutes=1)
MOVED_BY = timedelta(minutes=2)
MOVED_BY_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """When a workload starts, with a chance of a half and of nine in ten; None: not known. Without the first, the
    second is the latest. *until* is when what it waits for ends by itself at the latest. *learnt* is False for a guess,
    before the pool's nodes have shown how long they take. *pull* is what half of the pulls of its image take there."""

    starts_p50: datetime | None = None
    starts_p90: datetime | None = None
    until: datetime | None = None
    learnt: bool = False
    pull: timedelta | None = None

    def moved(self, before: datetime | None, now: datetime) -> bool:
        """True when people should hear of it, who were told *before* as the time that nine in ten start by."""
        promised = self.starts_p90
        if promised is None or before is None:
            return (promised is None) != (before is None)
        return abs(promised - before) > max(MOVED_BY, MOVED_BY_SHARE * (before - now))

    def after(self, other: "Promise") -> bool:
        """True if this one ends later than *other*, or is not known."""
        mine, theirs = self.starts_p90, other.starts_p90
        return theirs is not None and (mine is None or mine > theirs)

    @property
    def tells_start(self) -> bool:
        """True when its sentence says when the work starts, False when it is about nodes or empty."""
        return self.starts_p90 is not None and (self.learnt or self.starts_p50 is None)

    def sentence(self, now: datetime) -> str:
        """``starts in 4 to 7 min (by 12:07 UTC)``; empty where the time is not known."""
        if self.starts_p90 is None:
            return ""
        if self.starts_p50 is None:
            return f"starts by {self.starts_p90:%H:%M} UTC at the latest"
        if not self.learnt and self.starts_p50 < self.starts_p90:
            return f"nodes are usually usable by about {self.starts_p50:%H:%M:%S} UTC"
        if not self.learnt:
            return f"nodes not usable by {self.starts_p90:%H:%M:%S} UTC are reported as stuck"
        low, high = (self.starts_p50 - now) // A_MINUTE, -((now - self.starts_p90) // A_MINUTE)
        minutes = f"{low} to {high}" if 0 < low < high else f"{max(1, high)}"
        pull = f", {lasting(self.pull)} of it to pull its image" if self.pull and self.pulls_most(now) else ""
        return f"starts in {minutes} min (by {self.starts_p90:%H:%M} UTC){pull}"

    def pulls_most(self, now: datetime) -> bool:
        """True when the pull of its image is half or more of the wait from *now*, and a minute or more."""
        if self.pull is None or self.starts_p50 is None:
            return False
        return self.pull >= max(A_MINUTE, (self.starts_p50 - now) / 2)


UNKNOWN = Promise()
POINTS = 24  # of time at which the chances are worked out, before and after the first node can be there
MOMENTS = 8  # at which the ends of running work are: their number grows nearly evenly
MOST_AHEAD = 20  # in the queue: those further behind wait for their own node


class Promises:
    """The promises of one step to the workloads that were given room in nodes of one pool."""

    def __init__(
        self, pool: Pool, state: PoolState, wanted: Wanted, decision: Decision, learnt: Learnt, now: datetime
    ) -> None:
        self.pool, self.state, self._learnt, self._now = pool, state, learnt, now
        self._rooms = {placement.workload.key: placement.rooms for placement in wanted.work.rooms}
        self._ahead = {p.workload.key: number for number, p in enumerate(g for g in wanted.work.rooms if _waits(g))}
        self._created = {n.instance: n.created_at for n in state.nodes}
        cools = (r.until for r in decision.reasons if r.rule == COOLED_DOWN.name and r.verdict is Verdict.HOLDS)
        self._begins = next(cools, None)
        self._horizon = 2 * max((s.usable + s.start for s in learnt.startups.get(pool.id, ())), default=0.0) + 1
        self._ending: dict[tuple[Any, ...], Sequence[float]] = {}
        self._known: dict[tuple[Any, ...], Promise] = {}

    def awaited(self, workload: Workload) -> Sequence[Bin]:
        """The rooms of *workload* that it cannot use yet."""
        return [*{id(room): room for room in self._rooms.get(workload.key, ()) if not room.usable}.values()]

    def of(self, workload: Workload) -> Promise:
        """The promise to *workload*: it starts when the last of its nodes is usable or, if it is one pod, when running
        work ends and leaves room, whichever is first. Pods that are Terminating leave before a node is there."""
        awaited = self.awaited(workload)
        rooms = [room for room in awaited if room.vacant_at is None]
        if awaited and not rooms:
            vacant = max(self._now, *(room.vacant_at for room in awaited if room.vacant_at is not None))
            return Promise(starts_p50=vacant, starts_p90=vacant + STUCK_AFTER, learnt=True)
        if not rooms:
            has_room = workload.key in self._rooms
            return Promise(starts_p50=self._now, starts_p90=self._now, learnt=True) if has_room else UNKNOWN
        ahead = MOST_AHEAD if workload.gang else min(self._ahead[workload.key], MOST_AHEAD)
        alone = workload.pods[0] if ahead < MOST_AHEAD else None
        asks = tuple(alone.requests.items()) if alone else ()
        images = {pod.scheduling.image for pod in workload.pods}
        image = max(images, key=lambda image: self._learnt.pull(self.pool.id, image) or ZERO)
        key = (ahead, asks, image, *((room.instance, room.bought) for room in rooms))
        if key not in self._known:
            self._known[key] = self._of(rooms, alone, ahead, image)
        return self._known[key]

    def _since(self, room: Bin) -> datetime:
        if room.bought:
            return self._begins or self._now
        return self._created.get(room.instance or "", self.state.count.since) or self._now

    def _of(self, rooms: Sequence[Bin], alone: Pod | None, ahead: int, image: str) -> Promise:
        since = [self._since(room) for room in rooms]
        until = self._begins if max(since) > self._now else None
        starts = zip(rooms, since, strict=True)
        seconds_left = [self._learnt.left(self.pool.id, room.instance, at, self._now, image) for room, at in starts]
        if not all(seconds_left):
            return self._guess(max(since), until)
        pull = self._learnt.pull(self.pool.id, image)
        return replace(self._likely(seconds_left, until, alone, ahead, pull or ZERO), pull=pull)

    def _guess(self, since: datetime, until: datetime | None) -> Promise:
        latest = max(self._now, since + self.pool.provision_timeout)
        usual = latest if self.state.startup.usual is None else since + self.state.startup.usual
        return Promise(starts_p50=usual if self._now < usual < latest else latest, starts_p90=latest, until=until)

    def _likely(
        self,
        seconds_left: Sequence[Sequence[float]],
        until: datetime | None,
        alone: Pod | None = None,
        ahead: int = 0,
        pull: timedelta = ZERO,
    ) -> Promise:
        """The promise to work that starts with the last of its nodes, *seconds_left* being the samples of each, or
        before if it is one pod *alone*, after a *pull*. No node depends on another: the chances multiply."""
        # Until then not all nodes can be there.
        first = max(0.0, *(samples[0] - gap(samples) for samples in seconds_left))
        last = max(samples[-1] + gap(samples) for samples in seconds_left)
        times = [first * n / POINTS for n in range(POINTS)] if alone else []
        times += [first + (last - first) * n / POINTS for n in range(POINTS + 1)]
        late = [1 - prod(chance(samples, time) for samples in seconds_left) for time in times]
        if alone:
            since = [max(0.0, time - pull.total_seconds()) for time in times]  # its image may not be on that node
            late = [a * b for a, b in zip(late, self._no_room(alone, ahead, since), strict=True)]
        p50, p90 = (self._now + _reached([1 - x for x in late], times, share) for share in (P50, P90))
        return Promise(starts_p50=p50, starts_p90=p90, until=until, learnt=True)

    def _no_room(self, pod: Pod, ahead: int, times: Sequence[float]) -> Iterator[float]:
        """The chances that by each of *times* (seconds from now) too little running work of the pool has ended to leave
        room for *pod*, when each of those *ahead* of it takes one room. Few of many end, so their number has a Poisson
        distribution."""
        ends = self._ends(pod)
        for time in times:
            place = min(time / self._horizon, 1.0) * (len(ends) - 1)
            below = min(int(place), len(ends) - 2)
            mean = ends[below] + (place - below) * (ends[below + 1] - ends[below])
            term = total = math.exp(-mean)
            for ended in range(1, ahead + 1):
                term *= mean / ended
                total += term
            yield total

    def _ends(self, pod: Pod) -> Sequence[float]:
        """How many of the running workloads that leave room for *pod* when they end are likely to end, by moments that
        are evenly spread from now to the horizon."""
        kind = tuple(pod.requests.items())
        if kind not in self._ending:
            leave = {name for free, name in self._running if all(free.get(r, 0) >= count for r, count in kind)}
            going_on = [self._going_on[name] for name in leave]
            self._ending[kind] = [0.0, *(sum(1 - chances[n] for chances in going_on) for n in range(MOMENTS))]
        return self._ending[kind]

    @cached_property
    def _running(self) -> Sequence[tuple[Mapping[str, int], str]]:
        """What is free on a node when one of its workloads, of that name, has ended there. A gang ends as a whole."""
        rooms: list[tuple[Mapping[str, int], str]] = []
        for node in self.state.of(Stage.USABLE):
            if not (node_hold(node, Blocks.PODS) or foreign_taints(node, self.pool)):
                free_after: dict[str, Counter[str]] = {}
                free = node.free
                for pod in node.pods:
                    free_after.setdefault(pod.gang or pod.key, Counter(free)).update(pod.requests)
                rooms += [(room, name) for name, room in free_after.items()]
        return rooms

    @cached_property
    def _going_on(self) -> Mapping[str, Sequence[float]]:
        """The chances that each running workload goes on until each of the moments."""
        later = [self._horizon * n / MOMENTS for n in range(1, MOMENTS + 1)]
        starts: dict[str, datetime] = {}
        for pod in (pod for node in self.state.of(Stage.USABLE) for pod in node.pods):
            name, at = pod.gang or pod.key, pod.times.bound_at or pod.times.running_since or pod.created_at
            starts[name] = min(at, starts.get(name, at))
        chances = self._learnt.survival.chances
        return {name: chances(max(ZERO, self._now - at).total_seconds(), later) for name, at in starts.items()}


def _waits(placement: Placement) -> bool:
    room = placement.rooms[0]
    return not placement.workload.gang and not room.usable and room.vacant_at is None


def _reached(chances: Sequence[float], times: Sequence[float], share: float) -> timedelta:
    """When *chances*, which grow to 1 over *times* (seconds), reach *share*, between them on a straight line."""
    place = bisect_left(chances, share)
    before, since = (chances[place - 1], times[place - 1]) if place else (0.0, 0.0)
    part = (share - before) / (chances[place] - before)
    return timedelta(seconds=since + (times[place] - since) * part)
