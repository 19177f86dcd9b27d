"""The watchdog of a tutorial: a loop over pending pods that forgets who is still working.

Every 10 s, a pending GPU pod adds a node to the pool; with none pending the pool is scaled to 0 - or, in a gentler
form, by one - by lowering its count, busy or not: which node goes is then the cloud's choice. With several pools, each
pod belongs to the one with the smallest nodes that it fits on. The idea is that of Civo's tutorial "Optimize GPU costs
for ML with just-in-time Kubernetes scaling"
(https://www.civo.com/learn/optimize-gpu-costs-for-machine-learning-with-kubernetes: watch GPU pods, scale the pool with
the CLI); what it does with busy nodes follows from a count being all that the CLI takes.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from receiver.replay.peers.moves import resized, smallest
from receiver.replay.peers.view import Eyes
from receiver.replay.world.world import World

EVERY = timedelta(seconds=10)


class NaiveWatchdog:
    """A loop of ten seconds. *one_by_one* takes one node away per round instead of all of them."""

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
