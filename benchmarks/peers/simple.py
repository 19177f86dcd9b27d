"""Two rules that autoscalers begin with: the watchdog of a tutorial, and one node more per cooldown."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from receiver.replay.peers import Asking, Eyes, Rests, View, fill, remove, resized, smallest
from receiver.replay.world.world import World

EVERY = timedelta(seconds=10)


class NaiveWatchdog:
    """The watchdog of a tutorial: a loop over pending pods that forgets who is still working.

    Every 10 s, a pending GPU pod adds a node to the pool; with none pending the pool is scaled to 0 - or, with
    *one_by_one*, by one - by lowering its count, busy or not: which node goes is then the cloud's choice. With several
    pools, each pod belongs to the one with the smallest nodes that it fits on. The idea is that of Civo's tutorial
    "Optimize GPU costs for ML with just-in-time Kubernetes scaling"
    (https://www.civo.com/learn/optimize-gpu-costs-for-machine-learning-with-kubernetes: watch GPU pods, scale the pool
    with the CLI); what it does with busy nodes follows from a count being all that the CLI takes.
    """

    def __init__(self, world: World, most: Mapping[str, int], *, one_by_one: bool = False) -> None:
        self._world, self._most, self._one_by_one = world, most, one_by_one
        self._eyes = Eyes(world)
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        """One round of the loop."""
        seen = self._eyes.look()
        pending = {smallest(self._world, self._most, pod) for pod in seen.waiting}
        more_to_do = False
        for pool, most in self._most.items():
            required = seen.required[pool]
            if pool in pending:
                target, last = min(most, required + 1), most
            else:
                target, last = (max(0, required - 1) if self._one_by_one else 0), 0
            if target != required:
                self.actions += resized(self._world, pool, target)
            more_to_do = more_to_do or target != last
        return now + EVERY if more_to_do else None


class StepUp:
    """The rule that alert-driven scalers begin with: one node more per cooldown, one fewer when it has been idle.

    While a pod waits that no node has or will have room for, one node is added to the pool with the smallest nodes that
    the oldest such pod fits on, and not again before the *cooldown*; a node that has been empty for *idle* goes. One
    step per breach and a cooldown is what simple scaling policies do
    (https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-scaling-simple-step.html: default cooldown 300 s); a
    minute is the kinder choice.
    """

    def __init__(
        self,
        world: World,
        most: Mapping[str, int],
        *,
        cooldown: timedelta = timedelta(minutes=1),
        idle: timedelta = timedelta(minutes=5),
    ) -> None:
        self._world, self._most, self._cooldown, self._idle = world, most, cooldown, idle
        self._grew_at: dict[str, datetime] = {}
        self._eyes, self._rests = Eyes(world), Rests()
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        """One look."""
        seen = self._eyes.look()
        left, taken = fill(seen.waiting, seen.nodes)
        again = self._grow(left, seen, now)
        for node, since in self._rests.at(seen, taken):
            if since + self._idle <= now:
                remove(self._world, node)
                self.actions += 1
            else:
                again.append(since + self._idle)
        return min(again, default=None)

    def _grow(self, left: list[Asking], seen: View, now: datetime) -> list[datetime]:
        """Add a node to each pool that is due one; return when further ones would be."""
        room = [pool for pool, most in self._most.items() if seen.required[pool] < most]
        again: list[datetime] = []
        for pool in sorted({p for p in (smallest(self._world, room, pod) for pod in left) if p is not None}):
            due = now if pool not in self._grew_at else self._grew_at[pool] + self._cooldown
            if due <= now and resized(self._world, pool, seen.required[pool] + 1):
                self.actions += 1
                self._grew_at[pool] = now
                due = now + self._cooldown
            again.append(due)
        return again
