"""The state of a world: its clock, its seeded randomness, and the objects that the Kubernetes API server keeps."""

import heapq
import itertools
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeVar

from receiver.replay.world.objects import Denied, WorldChange, WorldEvent, WorldNode, WorldPod


class Agenda:
    """The clock, and the calls that are due. Calls due at the same moment run in the order in which they were added."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError("a world's time is timezone-aware")
        self.now = start
        self._heap: list[tuple[datetime, int, Callable[..., object], tuple[object, ...]]] = []
        self._numbers = itertools.count()

    def at(self, when: datetime, action: Callable[..., object], *args: object) -> None:
        heapq.heappush(self._heap, (max(when, self.now), next(self._numbers), action, args))

    def after(self, delay: timedelta, action: Callable[..., object], *args: object) -> None:
        self.at(self.now + delay, action, *args)

    def next_at(self) -> datetime | None:
        """Return when the next call is due, or None. It may have no effect (a build whose instance was deleted)."""
        return self._heap[0][0] if self._heap else None

    def advance(self, to: datetime) -> None:
        """Run everything due up to and including *to*. Raises ValueError when *to* lies in the past."""
        if to < self.now:
            raise ValueError(f"time does not go back: {to} is before {self.now}")
        heap = self._heap
        while heap and heap[0][0] <= to:
            self.now, _, action, args = heapq.heappop(heap)
            action(*args)
        self.now = to


class Dice:
    """Seeded names and jitter, from separate streams: jitter changes no name."""

    def __init__(self, seed: int, jitter: float) -> None:
        self._names = random.Random(seed)
        self._times = random.Random(seed + 1)
        self._jitter = jitter

    def uuid(self) -> str:
        text = f"{self._names.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def word(self, length: int) -> str:
        return f"{self._names.getrandbits(4 * length):0{length}x}"

    def spread(self, duration: timedelta) -> timedelta:
        if not self._jitter:
            return duration
        return duration * (1 + self._jitter * self._times.uniform(-1, 1))


T = TypeVar("T", WorldNode, WorldPod, WorldEvent)
Key = tuple[str, str]


class Journal:
    """Changes by version, as etcd keeps them. Beyond *limit* the older half is compacted away."""

    def __init__(self, limit: int) -> None:
        self.changes: list[WorldChange] = []  # oldest first
        self._limit = limit
        self.version = 0
        self.oldest_version = 0

    def record(self, kind: str, verb: str, key: str, obj: T, before: T | None = None, **changes: Any) -> T:
        """Record *obj*, with *changes*, as of the next version; return it."""
        self.version += 1
        obj = replace(obj, version=self.version, **changes)
        self.note(kind, verb, key, obj, before)
        return obj

    def note(self, kind: str, verb: str, key: str, obj: object, before: object = None) -> None:
        """Record a change at the current version."""
        self.changes.append(WorldChange(version=self.version, kind=kind, verb=verb, key=key, obj=obj, before=before))
        if len(self.changes) > self._limit:
            self.compact(self.changes[len(self.changes) // 2].version)

    def keep(self, kind: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
        """Record a change of an object that is JSON; return it, or *before* if it is gone, as of the next version."""
        one = before if after is None else after
        assert one is not None
        self.version += 1
        one = {**one, "metadata": {**one["metadata"], "resourceVersion": str(self.version)}}
        verb = "DELETED" if after is None else "ADDED" if before is None else "MODIFIED"
        self.note(kind, verb, f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}", one, before)
        return one

    def since(self, version: int, kind: str | None = None) -> list[WorldChange]:
        """Return the changes after *version*. Raises Denied (410) when some of them were compacted away."""
        if version < self.oldest_version:
            raise Denied("Expired", 410, f"too old resource version: {version} ({self.oldest_version})")
        return [c for c in self.changes[self._index_after(version) :] if kind in (None, c.kind)]

    def compact(self, before_version: int) -> None:
        keep_from = self._index_after(before_version - 1)
        if keep_from:
            self.oldest_version = self.changes[keep_from - 1].version
            del self.changes[:keep_from]

    def _index_after(self, version: int) -> int:
        return bisect_right(self.changes, version, key=attrgetter("version"))


class ClusterObjects:
    """The API server's objects. They are immutable; a change replaces them. *used* are the resources that bound pods
    hold, by node; *gangs* are the bound pods of each gang, by namespace and gang."""

    def __init__(self, agenda: Agenda, journal: Journal) -> None:
        self.agenda = agenda
        self.journal = journal
        self.nodes: dict[str, WorldNode] = {}
        self.pods: dict[Key, WorldPod] = {}
        self.active: dict[Key, WorldPod] = {}  # those that have not terminated
        self.pods_on: dict[str, dict[Key, None]] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.gangs: dict[tuple[str, str], set[Key]] = {}
        self.events: list[WorldEvent] = []

    # --- nodes ---

    def node(self, name: str) -> WorldNode:
        try:
            return self.nodes[name]
        except KeyError:
            raise Denied("NotFound", 404, f'nodes "{name}" not found') from None

    def add_node(self, node: WorldNode) -> None:
        self.nodes[node.name] = self.journal.record("Node", "ADDED", node.name, node)

    def change_node(self, node: WorldNode, **changes: object) -> WorldNode:
        changed = self.journal.record("Node", "MODIFIED", node.name, node, node, **changes)
        self.nodes[node.name] = changed
        return changed

    def drop_node(self, name: str) -> None:
        before = self.nodes.pop(name)
        self.journal.record("Node", "DELETED", name, before, before)

    # --- pods ---

    def pod(self, key: Key) -> WorldPod:
        try:
            return self.pods[key]
        except KeyError:
            raise Denied("NotFound", 404, f'pods "{key[1]}" not found in namespace "{key[0]}"') from None

    def living(self, key: Key, uid: str) -> WorldPod | None:
        """Return the pod if it still has *uid* and has not terminated."""
        pod = self.active.get(key)
        return pod if pod is not None and pod.uid == uid else None

    def add_pod(self, pod: WorldPod) -> WorldPod:
        pod = self.journal.record("Pod", "ADDED", f"{pod.namespace}/{pod.name}", pod)
        self.pods[pod.key] = self.active[pod.key] = pod
        return pod

    def change_pod(self, pod: WorldPod, **changes: object) -> WorldPod:
        changed = self.journal.record("Pod", "MODIFIED", f"{pod.namespace}/{pod.name}", pod, pod, **changes)
        self.pods[changed.key] = changed
        if changed.over:
            self.active.pop(changed.key, None)
        else:
            self.active[changed.key] = changed
        return changed

    def drop_pod(self, key: Key) -> None:
        before = self.pods.pop(key)
        self.active.pop(key, None)
        self.journal.record("Pod", "DELETED", f"{before.namespace}/{before.name}", before, before)

    def occupy(self, pod: WorldPod, node: str) -> None:
        """Count the requests of *pod* as used on *node*."""
        self.pods_on.setdefault(node, {})[pod.key] = None
        used = self.used.setdefault(node, {})
        for resource, count in pod.asks.items():
            used[resource] = used.get(resource, 0) + count
        if pod.gang is not None:
            self.gangs.setdefault((pod.namespace, pod.gang), set()).add(pod.key)

    def vacate(self, pod: WorldPod) -> bool:
        """Release the requests of *pod*; return False when it held none."""
        pods = self.pods_on.get(pod.node or "", {})
        if pod.key not in pods or pod.node is None:
            return False
        del pods[pod.key]
        if pod.gang is not None:
            self.gangs[pod.namespace, pod.gang].discard(pod.key)
        used = self.used[pod.node]
        for resource, count in pod.asks.items():
            used[resource] -= count
        if not pods:
            del self.pods_on[pod.node]
            if not any(used.values()):  # else a pod has reserved room there
                del self.used[pod.node]
        return True

    def on(self, node: str) -> list[WorldPod]:
        return [self.pods[key] for key in self.pods_on.get(node, ())]


def merged(have: Mapping[str, str], changes: Mapping[str, str | None] | None) -> Mapping[str, str]:
    """Return labels or annotations after a merge patch: a value of None removes the key."""
    return {k: v for k, v in {**have, **(changes or {})}.items() if v is not None}
