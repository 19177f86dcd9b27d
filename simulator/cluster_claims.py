"""What DRA serves in a world and what its pods claim, as the product reads it from the API's JSON."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from receiver.adapters.clock import SystemClock
from receiver.adapters.kubernetes.dra import Dra
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.core.model.devices import CLAIMS
from receiver.core.model.pods import Pod, named
from receiver.ports import ClusterFacts
from simulator.dra.claims import CLASS
from simulator.dra.devices import JSON
from simulator.kubernetes_objects import pod_json
from simulator.world import World


class _WorldLists:
    """The lists of resource.k8s.io; each version of an object is read once, as by the API server's watches."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read: dict[str, dict[str, Any]] = {}
        self.remarks = self

    def if_allowed(self, kind: ResourceKind, _without: str, view: Callable[[JSON], Any] = dict) -> list[Any]:
        before, found = self._read.get(kind.plural, {}), {}
        for one in self._world.claims.objects[kind.plural].values():
            version = one["metadata"]["resourceVersion"]
            found[version] = before[version] if version in before else view(one)
        self._read[kind.plural] = found
        return list(found.values())

    def if_readable(self, kind: ResourceKind, without: str, view: Callable[[JSON], Any] = dict) -> list[Any]:
        return self.if_allowed(kind, without, view)

    def warn(self, _event: str, _detail: str) -> None:
        """Nothing fails here."""


class ClaimsOfWorld:
    """Adds devices and claims to what a world's port shows."""

    def __init__(self, world: World) -> None:
        self._world = world
        lists: Any = _WorldLists(world)  # the part of the adapter's that is asked
        self._dra = Dra(lists, SystemClock())
        self._seen: dict[str, tuple[int, SeenPod]] = {}

    def added_to(self, facts: ClusterFacts) -> ClusterFacts:
        """Return *facts* with devices, and with what pods hold or ask for by claim; unchanged without DRA."""
        if not self._world.claims.objects[CLASS]:
            return facts
        served = self._dra.served()
        pods = {(pod.namespace, pod.name): pod for pod in facts.pods}
        seen = {key: self._as_seen(key) for key in pods}
        self._seen = {pod.uid: self._seen[pod.uid] for pod in seen.values()}
        claims = self._dra.claims(served, list(seen.values()))
        if claims is None:
            return facts
        taken, about_to_start = claims.taken() or {}, list(claims.without_pod())
        nodes = [
            replace(
                served.on(replace(node, dra=False), taken),
                kept_by=named(
                    [*node.kept_by, *(f"claim {c} has devices" for c, at in about_to_start if at == node.name)]
                ),
            )
            for node in facts.nodes
        ]
        asking = []
        for key, pod in pods.items():
            bare = pod
            if not pod.node:
                requests = {r: n for r, n in pod.requests.items() if r != CLAIMS}
                bare = replace(pod, requests=requests, claiming=replace(pod.claiming, words=()))
            asking.append(claims.of(seen[key], bare))
        resources = served.classes.serving if served.classes is not None else None
        known = tuple(pod for pod in asking if pod is not None)
        return replace(facts, nodes=tuple(nodes), pods=known, dra_resources=resources)

    def read(self, seen: SeenPod) -> Pod | None:
        """Return the pod that *seen* is, by the claims that were last looked at; it may be one that is yet to come."""
        return self._dra.read(seen)

    def _as_seen(self, key: tuple[str, str]) -> SeenPod:
        pod = self._world.pods[key]
        version, seen = self._seen.get(pod.uid, (-1, None))
        if seen is None or version != pod.version:
            seen = SeenPod(pod_json(pod))
        self._seen[pod.uid] = pod.version, seen
        return seen
