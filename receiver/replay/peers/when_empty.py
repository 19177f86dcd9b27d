"""Like Karpenter with `consolidationPolicy: WhenEmpty` and `consolidateAfter: 30s`.

Pending pods are gathered until one second passes without a new one, ten at most (`BATCH_IDLE_DURATION` 1 s,
`BATCH_MAX_DURATION` 10 s), then packed by first fit, the largest first, onto the nodes there are, those on their way,
and new ones of the smallest size that fits. A node that has been empty for *consolidate_after*, and that no waiting pod
would be put on, goes. Sources: https://karpenter.sh/docs/reference/settings/ (the durations) and
https://karpenter.sh/docs/concepts/disruption/ (consolidation). Its node pools are the cloud's pools here, and its
disruption budget (10 % of the nodes at a time) is left out: it would only delay removals by seconds.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from receiver.replay.peers.moves import Rests, bought, remove
from receiver.replay.peers.view import Eyes, fill
from receiver.replay.world.world import World

BATCH_IDLE = timedelta(seconds=1)
BATCH_MAX = timedelta(seconds=10)


class WhenEmpty:
    """One that looks when it is told to."""

    def __init__(
        self, world: World, most: Mapping[str, int], *, consolidate_after: timedelta = timedelta(seconds=30)
    ) -> None:
        self._world, self._most, self._consolidate_after = world, most, consolidate_after
        self._eyes, self._rests = Eyes(world), Rests()
        self._batched: set[str] = set()  # pods whose batch is over
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        """One look: end a batch that is due, and take what has been empty for long enough."""
        seen = self._eyes.look()
        again: list[datetime] = []
        new = [pod.created_at for pod in seen.waiting if pod.uid not in self._batched]
        over_at = min(max(new) + BATCH_IDLE, min(new) + BATCH_MAX) if new else now
        left, taken = fill(sorted(seen.waiting, key=lambda pod: -pod.gpus), seen.nodes)
        if over_at > now:
            again.append(over_at)
        else:
            self._batched = {pod.uid for pod in seen.waiting}
            self.actions += bought(self._world, self._most, left, seen)
        for node, since in self._rests.at(seen, taken):
            if since + self._consolidate_after <= now:
                remove(self._world, node)
                self.actions += 1
            else:
                again.append(since + self._consolidate_after)
        return min(again, default=None)
