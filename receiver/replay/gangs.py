"""How many GPU pods of a gang must still run together, in a World in memory."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from receiver.core.model.pods import Pod, PodPhase
from receiver.replay.world.objects import WorldPod


def with_minimums(pods: Sequence[Pod], active: Iterable[WorldPod], every: Iterable[WorldPod]) -> tuple[Pod, ...]:
    """Return *pods*, where a waiting gang asks for no more than still need a node.

    As `adapters.kubernetes.gangs` counts over HTTP: those of its pods that have succeeded and those without GPUs need
    none. *every* pod of the world is gone through only where a gang has lost some of its *active* ones.
    """
    sizes = {p.gang: p.gang_min for p in pods if p.gang and p.gang_min and p.phase is PodPhase.WAITING}
    if not sizes:
        return tuple(pods)
    members = [p for p in active if _gang(p) in sizes]
    living = Counter(_gang(p) for p in members)
    settled = Counter(_gang(p) for p in members if not p.requests)
    short = {gang for gang, size in sizes.items() if living[gang] < size}
    if short:
        controllers = {(_gang(p), p.owner_kind, p.owner_name) for p in members}
        done = (p for p in every if p.phase == "Succeeded" and _gang(p) in short)
        settled.update(_gang(p) for p in done if (_gang(p), p.owner_kind, p.owner_name) in controllers)
    least = {gang: max(1, sizes[gang] - count) for gang, count in settled.items()}
    return tuple(replace(p, gang_min=least[p.gang]) if p.gang in least else p for p in pods)


def _gang(pod: WorldPod) -> str:
    return f"{pod.namespace}/{pod.gang}" if pod.gang else ""
