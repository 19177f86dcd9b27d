"""What Civo and Kubernetes showed before: a source may serve a state that is some versions old for a while.

Then it jumps to the present, so the states in between are never seen. Civo's own reads before a PUT are as old; what
Kubernetes reads right before a write, and before a removal, is read with quorum and never old.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.ports import ClusterFacts, HeldPlaces
from receiver.replay.world.objects import WorldPod
from simulator.cluster_port import SimulatedCluster
from simulator.world import World

# How old a state a source serves at most when it begins to, and for how long it does. A watch of Kubernetes that is
# silent for 30 s is not believed; of Civo nothing is promised.
OLDEST = {"Civo": timedelta(minutes=15), "Kubernetes": timedelta(seconds=20)}
SERVED_FOR = {"Civo": timedelta(seconds=60), "Kubernetes": timedelta(seconds=20)}


@dataclass(frozen=True, slots=True)
class OldInstance:
    """An instance as Civo listed it."""

    id: str
    hostname: str
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OldPool:
    """A pool as Civo showed it."""

    id: str
    required: int
    size: str
    spec: Any
    instances: tuple[OldInstance, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """What a source showed from *at* on."""

    at: datetime
    mark: object
    shown: Any


class Views:
    """The versions of each source so far, and the one that it serves instead of the present."""

    def __init__(self, world: World, waiting: Callable[[], list[WorldPod]], *, keeps: bool) -> None:
        """Watch *world*, and remember its versions if it *keeps* them, with the pods that are *waiting*."""
        self._world, self._waiting, self._keeps = world, waiting, keeps
        self._reader = SimulatedCluster(world)
        self._versions: dict[str, list[Version]] = {"Civo": [], "Kubernetes": []}
        self._served: dict[str, tuple[Version, datetime]] = {}
        if keeps:
            self._advance = world.advance
            world.advance = self._advance_by_versions
            self.note()

    @property
    def serves_old(self) -> bool:
        """True while a source serves an old state."""
        return any(self.old(source) is not None for source in self._served)

    def note(self) -> None:
        """Remember what the sources show now, where that is new."""
        if not self._keeps:
            return
        pools = self._pools()
        self._add("Civo", pools, lambda: pools)
        marks = (self._world.version, str(self._world.quotas), str(self._world.cluster_queues))
        self._add("Kubernetes", marks, lambda: (self._reader.look(), self._held(), self._waiting()))

    def serve_old(self, source: str, versions: int) -> None:
        """Let *source* serve the state of so many *versions* ago for a while, or its oldest one that may be."""
        kept, now = self._versions[source], self._world.now
        index = max(0, len(kept) - 1 - versions)
        while index + 1 < len(kept) and kept[index + 1].at < now - OLDEST[source]:
            index += 1
        self._served[source] = (kept[index], now + SERVED_FOR[source])

    def old(self, source: str) -> Any:
        """What *source* shows instead of the present; None when it shows that."""
        version, until = self._served.get(source, (None, self._world.now))
        return version.shown if version is not None and self._world.now < until else None

    def look(self, look: Callable[[], ClusterFacts]) -> ClusterFacts:
        """A look at Kubernetes."""
        old = self.old("Kubernetes")
        facts: ClusterFacts = look() if old is None else old[0]
        return facts

    def held_places(self, read: Callable[..., HeldPlaces], *, queues: bool) -> HeldPlaces:
        """A read of what a budget hold covers."""
        old = self.old("Kubernetes")
        if old is None:
            return read(queues=queues)
        held: HeldPlaces = old[1]
        return held if queues else HeldPlaces(namespaces=held.namespaces)

    def _add(self, source: str, mark: object, shown: Callable[[], Any]) -> None:
        kept = self._versions[source]
        if not kept or kept[-1].mark != mark:
            kept.append(Version(self._world.now, mark, shown()))

    def _held(self) -> HeldPlaces:
        return self._reader.held_places(queues=True)

    def _pools(self) -> dict[str, OldPool]:
        return {
            pool.id: OldPool(
                id=pool.id,
                required=self._world.shown_count(pool.id),
                size=pool.size,
                spec=pool.spec,
                instances=tuple(OldInstance(v.id, v.hostname, v.status, v.created_at) for v in pool.instances),
            )
            for pool in self._world.pools.values()
        }

    def _advance_by_versions(self, to: datetime) -> None:
        while (moment := self._world.next_event_at()) is not None and moment <= to:
            self._advance(moment)
            self.note()
        self._advance(to)


class CivosView:
    """*world* as Civo shows it: its pools may be old."""

    def __init__(self, world: Any, views: Views) -> None:
        self._world, self._views = world, views

    def __getattr__(self, name: str) -> Any:
        """Return the world's own attribute unless Civo serves an old one."""
        old: dict[str, OldPool] | None = self._views.old("Civo") if name in ("pools", "shown_count") else None
        if old is None:
            return getattr(self._world, name)
        return old if name == "pools" else lambda pool: old[pool].required
