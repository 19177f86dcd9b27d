"""Other autoscalers, each after its documented defaults, to compare policies with; and what bounds them all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.replay.peers.always_on import AlwaysOn
from receiver.replay.peers.bounds import BOUNDS, Bound
from receiver.replay.peers.cluster_autoscaler import ClusterAutoscaler, Defaults
from receiver.replay.peers.escalator import SCAN, Escalator, Sample
from receiver.replay.peers.naive_watchdog import EVERY, NaiveWatchdog
from receiver.replay.peers.step_up import StepUp
from receiver.replay.peers.when_empty import WhenEmpty
from receiver.replay.play import Controller
from receiver.replay.world.config import Job
from receiver.replay.world.world import World

__all__ = ["BOUNDS", "PEERS", "Bound", "Peer"]

Make = Callable[[World, Mapping[str, int], Sequence[Job]], Controller]
TEN_SECONDS = timedelta(seconds=10)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Peer:
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
    flags = Defaults(unneeded_time=idle, delay_after_add=idle)
    return lambda world, most, _: ClusterAutoscaler(world, most, flags)


PEERS: Mapping[str, Peer] = {
    "always-on": Peer("nodes for the peak, bought before the first job and kept to the end", MINUTE, AlwaysOn),
    "naive-watchdog": Peer(
        "+1 while a pod is pending, the pool to 0 when none is, busy or not",
        EVERY,
        lambda world, most, _: NaiveWatchdog(world, most),
    ),
    "naive-watchdog-one": Peer(
        "+1 while a pod is pending, -1 when none is, busy or not",
        EVERY,
        lambda world, most, _: NaiveWatchdog(world, most, one_by_one=True),
    ),
    "cluster-autoscaler": Peer(
        "Cluster Autoscaler's defaults: empty nodes go after 10 min", TEN_SECONDS, _cluster_autoscaler(10 * MINUTE)
    ),
    "cluster-autoscaler-1m": Peer(
        "Cluster Autoscaler with empty nodes gone after 1 min", TEN_SECONDS, _cluster_autoscaler(MINUTE)
    ),
    "cluster-autoscaler-30m": Peer(
        "Cluster Autoscaler with empty nodes gone after 30 min", TEN_SECONDS, _cluster_autoscaler(30 * MINUTE)
    ),
    "karpenter-when-empty": Peer(
        "like Karpenter: exact need, empty nodes go after 30 s",
        timedelta(seconds=1),
        lambda world, most, _: WhenEmpty(world, most),
    ),
    "escalator": Peer(
        "Escalator's sample: 70 % full, nodes deleted 10 min after their taint, busy or not",
        SCAN,
        lambda world, most, _: Escalator(world, most),
    ),
    "escalator-safe": Peer(
        "Escalator's sample without its hard delete",
        SCAN,
        lambda world, most, _: Escalator(world, most, Sample(hard_delete_grace_period=None)),
    ),
    "step-up": Peer(
        "+1 per minute while a pod is pending, empty nodes go after 5 min",
        TEN_SECONDS,
        lambda world, most, _: StepUp(world, most),
    ),
}
