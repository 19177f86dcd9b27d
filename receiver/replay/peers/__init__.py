"""Other autoscalers, each after its documented defaults, to compare policies with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.replay.peers.autoscalers import AlwaysOnPeer, ClusterAutoscaler, ClusterAutoscalerFlags, WhenEmpty
from receiver.replay.play import Controller
from receiver.replay.world.config import Job
from receiver.replay.world.world import World

__all__ = ["PEERS", "PeerPolicy"]

Make = Callable[[World, Mapping[str, int], Sequence[Job]], Controller]
TEN_SECONDS = timedelta(seconds=10)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class PeerPolicy:
    """An autoscaler by its name. *about* is one line, *every* the interval of its own loop, which is the tick that it
    is to be played at; *make* is called with a world that has not begun, the maximum nodes by pool, and the trace."""

    about: str
    every: timedelta
    make: Make

    def __call__(self, world: World, most: Mapping[str, int], jobs: Sequence[Job]) -> Controller:
        """Return one for *world*."""
        return _Paced(self.make(world, most, jobs), self.every)


class _Paced:
    """A controller that looks no more often than its interval, however often it is told that something changed: what
    its own look set off at the same moment it sees in its next round."""

    def __init__(self, controller: Controller, every: timedelta) -> None:
        self._controller, self._every = controller, every
        self._next_at: datetime | None = None

    @property
    def actions(self) -> int:
        """See Controller."""
        return self._controller.actions

    def look(self, now: datetime) -> datetime | None:
        """See Controller."""
        if self._next_at is not None and now < self._next_at:
            return self._next_at
        self._next_at = now + self._every
        return self._controller.look(now)


def _cluster_autoscaler(idle: timedelta) -> Make:
    flags = ClusterAutoscalerFlags(unneeded_time=idle, delay_after_add=idle)
    return lambda world, most, _: ClusterAutoscaler(world, most, flags)


PEERS: Mapping[str, PeerPolicy] = {
    "always-on": PeerPolicy(
        "nodes for the peak, bought before the first job and kept to the end", MINUTE, AlwaysOnPeer
    ),
    "cluster-autoscaler": PeerPolicy(
        "Cluster Autoscaler's defaults: empty nodes go after 10 min", TEN_SECONDS, _cluster_autoscaler(10 * MINUTE)
    ),
    "cluster-autoscaler-1m": PeerPolicy(
        "Cluster Autoscaler with empty nodes gone after 1 min", TEN_SECONDS, _cluster_autoscaler(MINUTE)
    ),
    "cluster-autoscaler-30m": PeerPolicy(
        "Cluster Autoscaler with empty nodes gone after 30 min", TEN_SECONDS, _cluster_autoscaler(30 * MINUTE)
    ),
    "karpenter-when-empty": PeerPolicy(
        "like Karpenter: exact need, empty nodes go after 30 s",
        timedelta(seconds=1),
        lambda world, most, _: WhenEmpty(world, most),
    ),
}
