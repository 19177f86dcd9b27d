"""Lists of custom resources: which versions of them are served, and which cluster has none of them at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from receiver.adapters.http.remarks import Remarks
from receiver.adapters.kubernetes.api import CUSTOM, CUSTOM_ONE, MERGE, KubernetesApi
from receiver.adapters.kubernetes.wire import NOT_FOUND, ClusterWire
from receiver.ports import Clock, TryLater, WontWork

ASK_AGAIN = timedelta(minutes=10)  # after this long a resource that was not installed may have come


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource by RBAC's words; *versions* are those whose shape we know, the one to try first at the head."""

    group: str
    plural: str
    versions: tuple[str, ...]

    @property
    def name(self) -> str:
        """``workloads.kueue.x-k8s.io``, as kubectl takes it."""
        return f"{self.plural}.{self.group}"


class CustomResources:
    """Reads whole lists over all namespaces."""

    def __init__(self, wire: ClusterWire, api: KubernetesApi, clock: Clock, remarks: Remarks) -> None:
        self._wire = wire
        self._api = api
        self._clock = clock
        self._remarks = remarks
        self._served: dict[Kind, str] = {}
        self._absent: dict[Kind, datetime] = {}

    def every(self, kind: Kind, **options: str) -> list[Mapping[str, Any]]:
        """Return every object of *kind*, in the version that is served; *options* are the API's own.

        Raises WontWork with code ``http_404`` where none is, and as `ClusterWire.every` otherwise.
        """
        known = self._served.get(kind)
        for version in sorted(kind.versions, key=lambda v: v != known):
            call = partial(self._api.reads(CUSTOM), kind.group, version, kind.plural)
            try:
                found = self._wire.every(kind.name, call, **options)
            except WontWork as error:
                if error.code != NOT_FOUND:
                    raise
                continue
            self._served[kind] = version
            return found
        raise WontWork(f"Kubernetes does not serve {kind.name} ({', '.join(kind.versions)})", code=NOT_FOUND)

    def patch(self, kind: Kind, name: str, change: Mapping[str, Any]) -> None:
        """Apply a merge patch to the cluster-wide object *name* of *kind*, in the version that `every` found served."""
        version = self._served.get(kind, kind.versions[0])
        call = self._api.patches(CUSTOM_ONE, MERGE)
        self._wire.ask("patch", kind.name, call, kind.group, version, kind.plural, name, dict(change))

    def if_readable(self, kind: Kind, without: str) -> list[Mapping[str, Any]] | None:
        """Return every object of *kind*, or None where they cannot be read; never raises.

        For a failure a warning says what is lost *without* them.
        """
        try:
            return self.if_allowed(kind, without)
        except TryLater as error:
            self._remarks.warn("custom resources not read", f"{error}; {without}")
            return None

    def if_allowed(self, kind: Kind, without: str, **options: str) -> list[Mapping[str, Any]] | None:
        """Return every object of *kind*, or None where it is not installed or we may not list it. Raises TryLater.

        A kind that is not installed is asked for again after ten minutes. For any other refusal a warning says what is
        lost *without* them.
        """
        now = self._clock.now()
        absent_since = self._absent.get(kind)
        if absent_since is not None and now - absent_since < ASK_AGAIN:
            return None
        self._absent.pop(kind, None)
        try:
            return self.every(kind, **options)
        except WontWork as error:
            if error.code == NOT_FOUND:
                self._absent[kind] = now
            else:
                self._remarks.warn("custom resources not read", f"{error}; {without}")
            return None

    def warn(self, event: str, detail: str) -> None:
        """Log what is odd about what was read, once an hour."""
        self._remarks.warn(event, detail)
