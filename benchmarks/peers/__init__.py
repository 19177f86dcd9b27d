"""The autoscalers that only the benchmarks compare with, beside those that `replay` knows."""

from collections.abc import Mapping
from datetime import timedelta

from benchmarks.peers.escalator import SCAN, Escalator, SampleGroup
from benchmarks.peers.simple import EVERY, NaiveWatchdog, StepUp
from receiver.replay.peers import PEERS, PeerPolicy

__all__ = ["ALL", "OTHERS"]

OTHERS: Mapping[str, PeerPolicy] = {
    # +1 while a pod is pending, the pool to 0 when none is, busy or not
    "naive-watchdog": PeerPolicy(EVERY, lambda world, most, _: NaiveWatchdog(world, most)),
    # +1 while a pod is pending, -1 when none is, busy or not
    "naive-watchdog-one": PeerPolicy(EVERY, lambda world, most, _: NaiveWatchdog(world, most, one_by_one=True)),
    # Escalator's sample: 70 % full, nodes deleted 10 min after their taint, busy or not
    "escalator": PeerPolicy(SCAN, lambda world, most, _: Escalator(world, most)),
    # Escalator's sample without its hard delete
    "escalator-safe": PeerPolicy(
        SCAN, lambda world, most, _: Escalator(world, most, SampleGroup(hard_delete_grace_period=None))
    ),
    # +1 per minute while a pod is pending, empty nodes go after 5 min
    "step-up": PeerPolicy(timedelta(seconds=10), lambda world, most, _: StepUp(world, most)),
}
ALL: Mapping[str, PeerPolicy] = {**PEERS, **OTHERS}
