"""The log of a replay, read from the world's own changes: which pod held which GPUs of which node, and when.

It is what `receiver.replay.conservation` checks a replay by; no policy writes it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from receiver.replay.world.objects import Change, WorldNode, WorldPod


@dataclass(slots=True, kw_only=True)
class Placement:
    """A pod on a node: bound, running since, over. *finished* is True when it ended by itself."""

    pod: str
    node: str
    gpus: int
    bound_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    finished: bool = False


@dataclass(slots=True)
class Placements:
    """Follows pods, and which nodes registered, from one look at the world's changes to the next."""

    all: list[Placement] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)  # names of nodes
    found_no_room: int = 0  # how many pods the scheduler has said that of
    _open: dict[str, Placement] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def note(self, changes: Iterable[Change], now: datetime) -> None:
        """Take in *changes*, all of which happened at *now*."""
        for change in changes:
            pod = change.obj
            if isinstance(pod, WorldPod) and pod.requests:
                self._pod(pod, deleted=change.verb == "DELETED", now=now)
            elif isinstance(pod, WorldNode) and change.verb == "ADDED":
                self.registered.append(pod.name)

    def _pod(self, pod: WorldPod, *, deleted: bool, now: datetime) -> None:
        key = pod.uid
        over = deleted or pod.over
        if pod.node is None:
            if pod.scheduled is False and key not in self._told:
                self._told.add(key)
                self.found_no_room += 1
            return
        placed = self._open.get(key)
        if placed is None:
            if over:
                return
            placed = Placement(pod=f"{pod.namespace}/{pod.name}", node=pod.node, gpus=pod.gpus, bound_at=now)
            self._open[key] = placed
            self.all.append(placed)
        if placed.started_at is None and pod.started_at is not None:
            placed.started_at = pod.started_at
        if over:
            placed.ended_at = now
            placed.finished = pod.phase == "Succeeded"
            del self._open[key]
