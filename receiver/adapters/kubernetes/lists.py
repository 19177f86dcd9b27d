"""Whole lists of the API server: asked for each time, or kept current by reflectors; custom resources among them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import Any

from receiver.adapters.http.sessions import Remarks
from receiver.adapters.kubernetes.api import CUSTOM, CUSTOM_ONE, MERGE, NOT_FOUND, ClusterWire, KubernetesApi
from receiver.adapters.kubernetes.reflector import WINDOW_SECONDS, Json, Reflector, Wanted, Watching
from receiver.ports import Clock, TryLater, WontWork

ASK_AGAIN = timedelta(minutes=10)  # after this long a resource that was not installed may have been installed
ASK_AGAIN_NEEDED = timedelta(minutes=1)  # one that the configuration needs


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A resource by RBAC's words; *versions* are those whose shape we know, the one to try first at the head."""

    group: str
    plural: str
    versions: tuple[str, ...]

    @property
    def name(self) -> str:
        """``workloads.kueue.x-k8s.io``, as kubectl takes it."""
        return f"{self.plural}.{self.group}"


def _as_it_is(raw: Json) -> Json:
    return raw


class Lists:
    """Reads whole lists: from the API server, or from reflectors once `watch` was called."""

    def __init__(self, api: KubernetesApi, wire: ClusterWire) -> None:
        self._api, self._wire = api, wire
        self._watching: Watching | None = None
        self._window: int = WINDOW_SECONDS
        self._reflectors: dict[tuple[object, ...], Reflector[Any]] = {}
        wire.wrote = self._wrote

    def watch(self, watching: Watching, window: int = WINDOW_SECONDS) -> None:
        """Keep what is read from now on current by watches of *window* seconds."""
        self._watching, self._window = watching, window

    def every(
        self,
        resource: str,
        path: str,
        *parts: str,
        options: Mapping[str, str] = MappingProxyType({}),
        view: Callable[[Json], Any] = _as_it_is,
        wanted: Wanted | None = None,
    ) -> list[Any]:
        """Return every object of the list at *path* as *view* reads it. Raises TryLater and WontWork.

        *resource* is RBAC's word for it, *parts* and *options* are as `KubernetesApi` takes them. The loop is woken for
        a change that is *wanted*.
        """
        call = partial(self._api.reads(path), *parts)
        if self._watching is None:
            return self._wire.listed(resource, call, view, **options)[0]
        key = (path, parts, tuple(sorted(options.items())))
        reflector = self._reflectors.get(key)
        if reflector is None:
            watching = self._watching if wanted else Watching(leads=self._watching.leads, wake=lambda: None)
            reflector = Reflector(resource, self._wire, call, options, view, watching, wanted, self._window)
            self._reflectors[key] = reflector
        try:
            return reflector.objects()
        except WontWork as error:
            if error.code == NOT_FOUND:
                reflector.stop()
                del self._reflectors[key]
            raise

    def ages(self) -> dict[str, float]:
        """Return by resource how many seconds ago the server last confirmed what is cached."""
        reflectors = list(self._reflectors.values())
        return {r.resource: age for r in reflectors if (age := r.age) is not None}

    def stop(self, timeout: float) -> None:
        """End all watches; wait for their threads, at most *timeout* seconds."""
        ends = monotonic() + timeout
        reflectors = list(self._reflectors.values())
        for reflector in reflectors:
            reflector.stop()
        for reflector in reflectors:
            if reflector.is_alive():
                reflector.join(max(0.0, ends - monotonic()))

    def _wrote(self, resource: str, answer: Json | None) -> None:
        whole, _, below = resource.partition("/")
        for reflector in list(self._reflectors.values()):
            if reflector.resource == whole:
                reflector.wrote(None if below else answer)


class CustomResources:
    """Reads whole lists over all namespaces."""

    def __init__(self, lists: Lists, wire: ClusterWire, api: KubernetesApi, clock: Clock, remarks: Remarks) -> None:
        self._lists = lists
        self._wire = wire
        self._api = api
        self._clock = clock
        self._remarks = remarks
        self._served: dict[ResourceKind, str] = {}
        self._absent: dict[ResourceKind, datetime] = {}

    def every(self, kind: ResourceKind, **options: str) -> list[Mapping[str, Any]]:
        """Return every object of *kind*, in the version that is served; *options* are the API's own.

        Raises WontWork with code ``http_404`` where none is (for a minute without asking again), and as `Lists.every`.
        """
        absent = WontWork(f"Kubernetes does not serve {kind.name} ({', '.join(kind.versions)})", code=NOT_FOUND)
        if self._is_absent(kind, ASK_AGAIN_NEEDED):
            raise absent
        known = self._served.get(kind)
        for version in sorted(kind.versions, key=lambda v: v != known):
            try:
                found = self._lists.every(kind.name, CUSTOM, kind.group, version, kind.plural, options=options)
            except WontWork as error:
                if error.code != NOT_FOUND:
                    raise
                continue
            self._served[kind] = version
            return found
        self._absent[kind] = self._clock.now()
        raise absent

    def _is_absent(self, kind: ResourceKind, lasts: timedelta) -> bool:
        since = self._absent.get(kind)
        return since is not None and timedelta(0) <= self._clock.now() - since < lasts

    def patch(self, kind: ResourceKind, name: str, change: Mapping[str, Any]) -> None:
        """Apply a merge patch to the cluster-wide object *name* of *kind*, in the version that `every` found served."""
        version = self._served.get(kind, kind.versions[0])
        call = self._api.patches(CUSTOM_ONE, MERGE)
        self._wire.ask("patch", kind.name, call, kind.group, version, kind.plural, name, dict(change))

    def if_readable(self, kind: ResourceKind, without: str) -> list[Mapping[str, Any]] | None:
        """Return every object of *kind*, or None where they cannot be read; never raises.

        For a failure a warning says what is lost *without* them.
        """
        try:
            return self.if_allowed(kind, without)
        except TryLater as error:
            self._remarks.warn("custom resources not read", f"{error}; {without}")
            return None

    def if_allowed(self, kind: ResourceKind, without: str, **options: str) -> list[Mapping[str, Any]] | None:
        """Return every object of *kind*, or None where it is not installed or we may not list it. Raises TryLater.

        A kind that is not installed is asked for again after ten minutes. For any other refusal a warning says what is
        lost *without* them.
        """
        if self._is_absent(kind, ASK_AGAIN):
            return None
        try:
            return self.every(kind, **options)
        except WontWork as error:
            if error.code != NOT_FOUND:
                self._remarks.warn("custom resources not read", f"{error}; {without}")
            return None

    def warn(self, event: str, detail: str) -> None:
        """Log what is odd about what was read, once an hour."""
        self._remarks.warn(event, detail)
