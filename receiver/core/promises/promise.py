"""The promise to a waiting workload: when it will probably start. It changes no decision."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from math import prod
from typing import Any

from receiver.core.model.actions import Decision, Verdict
from receiver.core.model.model import PoolState, Stage
from receiver.core.model.pods import Pod, Workload, too_much
from receiver.core.model.policy import Pool
from receiver.core.promises.startup import ZERO, Learnt, chance, gap
from receiver.core.scaling.assign import Wanted
from receiver.core.scaling.capacity import Bin, Given
from receiver.core.scaling.guardrails import cooled_down

P50, P90 = 0.5, 0.9
A_MINUTE = timedelta(minutes=1)
MOVED_BY = timedelta(minutes=2)
MOVED_BY_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """When a workload starts, with a chance of a half and of nine in ten; None: not known. *until* is when what it
    waits for ends by itself at the latest. *learnt* is False for a guess, before the pool's nodes have shown how long
    they take."""

    starts_p50: datetime | None = None
    starts_p90: datetime | None = None
    until: datetime | None = None
    learnt: bool = False

    def moved(self, before: datetime | None, now: datetime) -> bool:
        """True when people should hear of it, who were told *before* as the time that nine in ten start by."""
        told = self.starts_p90
        if told is None or before is None:
            return (told is None) != (before is None)
        return abs(told - before) > max(MOVED_BY, MOVED_BY_SHARE * (before - now))

    def sentence(self, now: datetime) -> str:
        """``starts in 4 to 7 min (by 12:07 UTC)``; empty where the time is not known."""
        if self.starts_p50 is None or self.starts_p90 is None:
            return ""
        if not self.learnt and self.starts_p50 < self.starts_p90:
            return f"usually usable about {self.starts_p50:%H:%M:%S} UTC"
        if not self.learnt:
            return f"nodes not usable by {self.starts_p90:%H:%M:%S} UTC are reported as stuck"
        low, high = (self.starts_p50 - now) // A_MINUTE, -((now - self.starts_p90) // A_MINUTE)
        minutes = f"{low} to {high}" if 0 < low < high else f"{max(1, high)}"
        return f"starts in {minutes} min (by {self.starts_p90:%H:%M} UTC)"


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
        self._rooms = {given.workload.key: given.rooms for given in wanted.given}
        self._ahead = {given.workload.key: number for number, given in enumerate(g for g in wanted.given if _waits(g))}
        self._created = {n.instance: n.created_at for n in state.nodes}
        cools = (r.until for r in decision.reasons if r.rule == cooled_down.__name__ and r.verdict is Verdict.HOLDS)
        self._begins = next(cools, None)
        self._horizon = 2 * max((s.usable + s.start for s in learnt.startups.get(pool.id, ())), default=0.0) + 1
        self._ending: dict[tuple[Any, ...], Sequence[float]] = {}
        self._known: dict[tuple[Any, ...], Promise] = {}

    def of(self, workload: Workload) -> Promise:
        """The promise to *workload*: it starts when the last of its nodes is usable or, if it is one pod, when running
        work ends and leaves room, whichever is first."""
        rooms = {id(room): room for room in self._rooms.get(workload.key, ()) if not room.usable}.values()
        if not rooms:
            there = workload.key in self._rooms
            return Promise(starts_p50=self._now, starts_p90=self._now, learnt=True) if there else UNKNOWN
        ahead = MOST_AHEAD if workload.gang else min(self._ahead[workload.key], MOST_AHEAD)
        alone = workload.pods[0] if ahead < MOST_AHEAD else None
        asks = tuple(alone.requests.items()) if alone else ()
        key = (ahead, asks, *((room.instance, room.bought) for room in rooms))
        if key not in self._known:
            self._known[key] = self._of(list(rooms), alone, ahead)
        return self._known[key]

    def _since(self, room: Bin) -> datetime:
        if room.bought:
            return self._begins or self._now
        return self._created.get(room.instance or "", self.state.required_since) or self._now

    def _of(self, rooms: Sequence[Bin], alone: Pod | None, ahead: int) -> Promise:
        since = [self._since(room) for room in rooms]
        until = self._begins if max(since) > self._now else None
        learnt = (
            self._learnt.left(self.pool.id, r.instance, at, self._now) for r, at in zip(rooms, since, strict=True)
        )
        left = list(learnt)
        if not all(left):
            latest = max(self._now, max(since) + self.pool.provision_timeout)
            usual = latest if self.state.ready_in is None else max(since) + self.state.ready_in
            p50 = usual if self._now < usual < latest else latest
            return Promise(starts_p50=p50, starts_p90=latest, until=until)
        first = max(0.0, *(samples[0] - gap(samples) for samples in left))  # until then not all nodes can be there
        last = max(samples[-1] + gap(samples) for samples in left)
        times = [first * n / POINTS for n in range(POINTS)] if alone else []
        times += [first + (last - first) * n / POINTS for n in range(POINTS + 1)]
        late = [1 - prod(chance(samples, time) for samples in left) for time in times]
        if alone:
            late = [a * b for a, b in zip(late, self._no_room(alone, ahead, times), strict=True)]
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
        are evenly spread from now to the horizon. A gang ends as a whole."""
        kind = tuple(pod.requests.items())
        if kind not in self._ending:
            ages: dict[str, float] = {}
            for node in self.state.of(Stage.USABLE):
                if node.cordoned_by is None and node.closed_for is None:
                    for name, pods in groupby(sorted(node.pods, key=_unit), _unit):
                        of_it = list(pods)
                        free = {r: node.free.get(r, 0) + sum(p.requests.get(r, 0) for p in of_it) for r in pod.requests}
                        if too_much(pod.requests, free) is None:
                            begun = min(p.bound_at or p.running_since or p.created_at for p in of_it)
                            ages[name] = max(ZERO, self._now - begun).total_seconds()
            later = [self._horizon * n / MOMENTS for n in range(1, MOMENTS + 1)]
            going_on = [self._learnt.survival.chances(age, later) for age in ages.values()]
            self._ending[kind] = [0.0, *(sum(1 - chances[n] for chances in going_on) for n in range(MOMENTS))]
        return self._ending[kind]


def _waits(given: Given) -> bool:
    return not given.workload.gang and not given.rooms[0].usable


def _unit(pod: Pod) -> str:
    return pod.gang or pod.key


def _reached(chances: Sequence[float], times: Sequence[float], share: float) -> timedelta:
    """When *chances*, which grow to 1 over *times* (seconds), reach *share*, between them on a straight line."""
    place = bisect_left(chances, share)
    before, since = (chances[place - 1], times[place - 1]) if place else (0.0, 0.0)
    part = (share - before) / (chances[place] - before)
    return timedelta(seconds=since + (times[place] - since) * part)
