"""The autoscalers that only the benchmarks compare with, beside those that `replay` knows."""

from collections.abc import Mapping
from datetime import timedelta

from benchmarks.peers.escalator import SCAN, Escalator, SampleGroup
from benchmarks.peers.simple import EVERY, NaiveWatchdog, StepUp
from receiver.replay.peers import PEERS, PeerPolicy

__all__ = ["ALL", "OTHERS"]

OTHERS: Mapping[str, PeerPolicy] = {
    "naive-watchdog": PeerPolicy(
        "+1 while a pod is pending, the pool to 0 when none is, busy or not",
        EVERY,
        lambda world, most, _: NaiveWatchdog(world, most),
    ),
    "naive-watchdog-one": PeerPolicy(
        "+1 while a pod is pending, -1 when none is, busy or not",
        EVERY,
        lambda world, most, _: NaiveWatchdog(world, most, one_by_one=True),
    ),
    "escalator": PeerPolicy(
        "Escalator's sample: 70 % full, nodes deleted 10 min after their taint, busy or not",
        SCAN,
        lambda world, most, _: Escalator(world, most),
    ),
    "escalator-safe": PeerPolicy(
        "Escalator's sample without its hard delete",
        SCAN,
        lambda world, most, _: Escalator(world, most, SampleGroup(hard_delete_grace_period=None)),
    ),
    "step-up": PeerPolicy(
        "+1 per minute while a pod is pending, empty nodes go after 5 min",
        timedelta(seconds=10),
        lambda world, most, _: StepUp(world, most),
    ),
}
ALL: Mapping[str, PeerPolicy] = {**PEERS, **OTHERS}
