"""Gangs as the product reads them from pods and objects, for a world in memory: by the adapter that reads a cluster."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from receiver.adapters.http.sessions import Remarks
from receiver.adapters.kubernetes.gangs import Gangs
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.core.model.pods import Pod
from receiver.ports import Clock
from receiver.replay.world.objects import PLACED_WHOLE_ANNOTATION, WorldPod
from simulator.kubernetes_objects import pod_json

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectsOfAWorld:
    """What `Lists` reads of a cluster: *objects* by the name of their kind; a kind without any is not installed."""

    objects: Mapping[str, list[JSON]]
    remarks: Remarks

    def if_allowed(self, kind: ResourceKind, _without: str) -> list[JSON] | None:
        return self.objects.get(kind.name)

    if_readable = if_allowed


def declares_otherwise(pod: WorldPod) -> bool:
    """Return True for a pod whose gang the replay's annotation does not name."""
    return bool(pod.group) or PLACED_WHOLE_ANNOTATION in pod.annotations


def with_gangs(
    pods: Sequence[Pod],
    every: Iterable[WorldPod],
    objects: Mapping[str, list[JSON]],
    clock: Clock,
    claims: Callable[[SeenPod], Pod | None],
) -> tuple[Pod, ...]:
    """Return *pods* with the gangs that their JSON and *objects* declare, and the pods of those that are yet to come.
    *every* pod of the world is searched; *claims* reads what a pod that does not exist yet claims."""
    mine = [pod for pod in every if declares_otherwise(pod)]
    if not mine:
        return tuple(pods)
    seen = [SeenPod(pod_json(pod)) for pod in mine]
    lists: Any = ObjectsOfAWorld(objects, Remarks(clock))
    shown = {pod.key: pod for pod in pods}

    def read(pod: SeenPod) -> Pod | None:
        """A pod that claims devices is as the world shows it, and so is one that is yet to come while its leader waits
        too."""
        found = shown.get(pod.key) if pod.resource_claims else pod.pod
        if found is not None and found.node and pod.resource_claims and not pod.node:
            found = claims(pod)
        return None if found is None else replace(found, uid=pod.uid)

    found, roll = Gangs(lists, read).of([pod for pod in seen if not pod.terminated], clock.now())
    done = [pod for pod, of in zip(seen, mine, strict=True) if of.phase == "Succeeded" and pod.gang]
    least = roll.minimums({}, roll.succeeded(done))
    known = {pod.key: pod for pod in found}
    theirs = (
        replace(pod, gang=(its := known[pod.key]).gang, gang_min=least.get(its.gang or ""), phase=its.phase)
        if pod.key in known
        else pod
        for pod in pods
    )
    coming = (replace(pod, gang_min=least.get(pod.gang or "")) for pod in found if not pod.uid)
    return (*theirs, *coming)
