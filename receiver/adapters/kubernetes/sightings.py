"""When this process first saw a pod Terminating, and when nominated for a node: the API server tells neither.

The moment of deletion is by the API server's clock. Of a pod whose deletion began between two looks of ours, request
and grace period bound that moment by our clock, and of any pod its grace period does.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.adapters.kubernetes.pods import SeenPod
from receiver.core.model.pods import Nomination, Pod, PodPhase

Mark = tuple[str, str]  # the uid of a pod, and its deletionTimestamp or the node that it is nominated for
TOO_LONG_AGO = timedelta(minutes=1)  # since the last look: what was requested between says little
LONGEST_GRACE = timedelta(days=365)


class Sightings:
    """Remembers first sightings while a pod stays as it is; a restart begins anew."""

    def __init__(self) -> None:
        self._looked_at: datetime | None = None
        self._leaving: dict[Mark, datetime] = {}  # when it will have left, by our clock
        self._nominated: dict[Mark, datetime] = {}  # since when

    def note(self, pods: Iterable[Pod], living_pods: Iterable[SeenPod], now: datetime) -> tuple[Pod, ...]:
        """Return *pods* with these moments; what is no longer among *living_pods* is forgotten."""
        odd = {s.uid: s for s in living_pods if s.leaving or s.nominated}
        dated_pods = tuple(self.dated(pod, odd[pod.uid], now) if pod.uid in odd else pod for pod in pods)
        self._leaving = {mark: at for mark, at in self._leaving.items() if mark[0] in odd}
        self._nominated = {mark: at for mark, at in self._nominated.items() if mark[0] in odd}
        self._looked_at = now
        return dated_pods

    def dated(self, pod: Pod, seen: SeenPod, now: datetime) -> Pod:
        """Return *pod*, read from *seen*, with the moments that this process knows."""
        if pod.times.leaves_at is not None:
            mark = seen.uid, str(seen.metadata.get("deletionTimestamp"))
            leaves_at = self._leaving.setdefault(mark, self._leaves_at(pod.times.leaves_at, seen, now))
            return replace(pod, times=replace(pod.times, leaves_at=leaves_at))
        if pod.phase is PodPhase.RESERVED and pod.node is not None:
            since = self._nominated.setdefault((seen.uid, pod.node), now)
            prepared = pod.nomination is not None and pod.nomination.prepared
            return replace(pod, nomination=Nomination(node=pod.node, since=min(since, now), prepared=prepared))
        return pod

    def _leaves_at(self, deadline: datetime, seen: SeenPod, now: datetime) -> datetime:
        grace = seen.metadata.get("deletionGracePeriodSeconds")
        if not isinstance(grace, int) or not 0 <= grace <= LONGEST_GRACE.total_seconds():
            return deadline
        length, before = timedelta(seconds=grace), self._looked_at
        if before is not None and timedelta(0) <= now - before <= TOO_LONG_AGO:
            deadline = max(deadline, before + length - timedelta(seconds=1))  # Kubernetes cuts moments to seconds
        return min(deadline, now + length)
