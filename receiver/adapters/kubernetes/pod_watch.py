"""A watch of the pending pods behind the port `DemandWatch`.

It keeps no pods: the identity of those it has told of, so that each is told once, and the version to go on from.
"""

import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from receiver.adapters.kubernetes.api import GONE, PODS, ClusterWire, KubernetesApi, section
from receiver.adapters.kubernetes.pods import gpu_requests, is_untried, phase_of
from receiver.core.model.pods import PodPhase
from receiver.ports import TryLater

PENDING = "status.phase=Pending"
LASTS_SECONDS = 55  # shorter than the minute after which load balancers cut idle connections without a word
FROM_NOW = "0"  # what there is, from the API server's cache, then what changes: a list of its own is not needed
MOST_TOLD = 20_000  # identities that are kept; a pod beyond them may be told of twice


class PodWatch:
    """Hears of GPU pods that the scheduler has found no room for; see `DemandWatch`."""

    def __init__(self, api: KubernetesApi, wire: ClusterWire, seconds: int) -> None:
        self._api, self._wire, self._seconds = api, wire, seconds
        self._version = FROM_NOW
        self._told: set[str] = set()
        self._lock = threading.Lock()
        self._response: Any = None
        self._closed = False

    def follow(self, stands: Callable[[], None], found: Callable[[], None]) -> None:
        """See `DemandWatch.follow`. After `close` it returns whatever happens."""
        known = self._version != FROM_NOW
        try:
            self._follow(stands, found)
        except TryLater as error:
            if error.code != GONE:
                raise
            self._version = FROM_NOW  # the API server has forgotten what came after our version
            if not known:
                raise
            self._follow(stands, found)

    def _follow(self, stands: Callable[[], None], found: Callable[[], None]) -> None:
        def opened(response: Any) -> None:
            self._keep(response)
            stands()

        if self._version == FROM_NOW:
            self._told.clear()
        events = self._wire.watch(
            "pods",
            self._api.reads(PODS),
            opened,
            self._seconds,
            field_selector=PENDING,
            resource_version=self._version,
            allow_watch_bookmarks=True,
        )
        try:
            for event in events:
                if self._is_news(event):
                    found()
        except TryLater:
            if not self._closed:
                raise
        finally:
            self._keep(None)

    def close(self) -> None:
        """See `DemandWatch.close`."""
        with self._lock:
            self._closed = True
            _hang_up(self._response)

    def _keep(self, response: Any) -> None:
        with self._lock:
            self._response = response
            if self._closed:
                _hang_up(response)

    def _is_news(self, event: Mapping[str, Any]) -> bool:
        """True when *event* says of a pod, for the first time since it last did not, that it needs a node."""
        raw = section(event, "object")
        metadata = section(raw, "metadata")
        self._version = str(metadata.get("resourceVersion") or self._version)
        uid = str(metadata.get("uid") or "")
        if event.get("type") not in ("ADDED", "MODIFIED") or not needs_a_node(raw):
            self._told.discard(uid)
            return False
        is_new = uid not in self._told
        if len(self._told) < MOST_TOLD:
            self._told.add(uid)
        return is_new


def needs_a_node(raw: Mapping[str, Any]) -> bool:
    """True for a GPU pod that the scheduler left out, or that Volcano holds back for the sake of its gang."""
    left_out = phase_of(raw) is PodPhase.WAITING or is_untried(raw)
    return (
        left_out and bool(gpu_requests(section(raw, "spec"))) and not section(raw, "metadata").get("deletionTimestamp")
    )


def _hang_up(response: Any) -> None:
    """Let whoever reads *response* find its end: closing it here would wait for that reader, or disturb its TLS."""
    if response is None:
        return
    try:
        with socket.socket(fileno=os.dup(response.fileno())) as connection:
            connection.shutdown(socket.SHUT_RDWR)
    except (OSError, AttributeError, ValueError):  # it has ended by itself
        return
