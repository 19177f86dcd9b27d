"""The rule that alert-driven scalers begin with: one node more per cooldown, one fewer when it has been idle.

While a pod waits that no node has or will have room for, one node is added to the pool with the smallest nodes that the
oldest such pod fits on, and not again before the *cooldown*; a node that has been empty for *idle* goes. One step per
breach and a cooldown is what simple scaling policies do (https://docs.aws.amazon.com/autoscaling/ec2/userguide/
as-scaling-simple-step.html: default cooldown 300 s); a minute is the kinder choice.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from receiver.replay.peers.moves import Rests, remove, resized, smallest
from receiver.replay.peers.view import Asking, Eyes, View, fill
from receiver.replay.world.world import World


class StepUp:
    """One that looks when it is told to."""

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
