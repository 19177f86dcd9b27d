"""Lists of the API server, kept current by a watch, so that a step at rest lists nothing.

A reflector lists once and then watches from that list's version, for minutes. Its cache counts as fresh while the watch
stands and the API server has sent an event or a bookmark lately. After a silence the connection may be dead: a watch of
a few seconds follows, which ends with a bookmark. A cache that is not fresh is never used: the next read lists again,
and fails as a list fails. A list every RELIST_AFTER_SECONDS bounds what a lost event can do.
"""

import os
import random
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import structlog

from receiver.adapters.http.sessions import Remarks
from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.api import ClusterWire, Json, key_of, section, text
from receiver.adapters.kubernetes.served import ServedFields
from receiver.ports import Clock, TryLater, WontWork

log = structlog.get_logger("receiver")

WINDOW_SECONDS = 600  # the longest watch; each takes at least half of it, so that they do not end together
PROBE_SECONDS = 5  # the length of a watch after a silence: the API server sends a bookmark shortly before it ends
# How long nothing may come before that. The API server sends a bookmark every minute (`defaultBookmarkFrequency` of its
# watch cache), which is often enough for all but what each growth rests on.
QUIET_SECONDS = 65.0
QUIET_SECONDS_OF_PODS = 20.0  # and nodes
HANGS_AFTER_SECONDS = 5.0  # a probe that should have ended so long ago is dead
RELIST_AFTER_SECONDS = 600.0
WRITE_SEEN_SECONDS = 1.0  # the longest wait for a write of ours to come back as an event
SHORTEST_WATCH_SECONDS = 5.0  # a watch that ends sooner has failed
LONGEST_BACKOFF_SECONDS = 60.0
FAILURES_LOGGED = 3  # in a row; a single one is normal
CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})

T = TypeVar("T")
Wanted = Callable[[Any, Any], bool]  # of an object before (None: there was none) and after: whether to wake the loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """What watches need of their process. *leads* is asked before each watch: only the leader watches. *wake* is called
    for a pod that needs a node, and where the watch of pods lost its place, so that the next step lists. *stands*,
    *fell* and *idle* hear how the watch of pods does."""

    leads: Callable[[], bool]
    wake: Callable[[], None]
    stands: Callable[[], None] = lambda: None
    fell: Callable[[], None] = lambda: None
    idle: Callable[[], None] = lambda: None


def backoff(failures: int, chance: Callable[[], float] = random.random) -> float:
    """Return the seconds to wait after so many *failures* in a row (1 or more): doubled each time, a minute at most,
    less a random half."""
    return min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(failures - 1, 10)) * (1 - chance() / 2)


def _length(longest: int, chance: Callable[[], float] = random.random) -> int:
    return max(1, round(longest * (1 - chance() / 2)))


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    version: str
    seen: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """The list that `Lists.every` is asked for."""

    resource: str
    path: str
    parts: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    view: Callable[[Json], T]
    wanted: Wanted | None = None


class Reflector(threading.Thread, Generic[T]):
    """The objects of one list."""

    def __init__(
        self,
        listing: Listing[T],
        wire: ClusterWire,
        watching: Watching,
        window: int = WINDOW_SECONDS,
        quiet: float = QUIET_SECONDS,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(name=f"watch of {listing.resource}", daemon=True)
        self.resource = listing.resource
        self._listing, self._wire = listing, wire
        self._watching, self._window, self._seconds = watching, window, seconds
        self._quiet, self._probe = quiet, min(PROBE_SECONDS, window)
        self._reading = threading.Lock()  # one list at a time
        self._changed = threading.Condition()  # guards all that follows
        self._kept: dict[str, _Kept[T]] = {}
        self._version = ""  # to watch from; empty: a read must list first
        self._listed_at = self._heard_at = 0.0
        self._stands = False
        self._epoch = 0  # counts lists: a watch of an earlier one changes nothing any more
        self._awaited: dict[str, str] = {}  # versions of our own writes that no event has shown yet, by key
        self._response: Any = None
        self._ending = False
        self._rouse = threading.Event()  # cuts a pause between watches short
        self._hurries = True  # whether the next list that succeeds does so
        self._failures = 0
        self._logged = False

    def objects(self) -> list[T]:
        """Return what the server has: from the cache while it is fresh, else from a list. Raises as a list does."""
        with self._reading:
            with self._changed:
                self._changed.wait_for(lambda: not (self._awaited and self._is_fresh()), WRITE_SEEN_SECONDS)
                if self._is_fresh() and not self._awaited:
                    return [entry.seen for entry in self._kept.values()]
            return self._list()

    @property
    def age(self) -> float | None:
        """Seconds since the server last confirmed the cache; None while there is none."""
        with self._changed:
            return self._seconds() - self._heard_at if self._version else None

    def wrote(self, answer: Json | None) -> None:
        """Note a write of ours to this resource: the next read shows it. *answer* is the object that the server
        returned, None where it returned another or the outcome is unknown."""
        version = _version_of(answer or {})
        with self._changed:
            if not version:
                self._stands = False  # the next read lists
                return
            key = key_of(answer or {})
            entry = self._kept.get(key)
            if entry is None or _is_before(entry.version, version):
                self._awaited[key] = version

    def stop(self) -> None:
        """End the watch and the thread, soon."""
        with self._changed:
            self._ending = True
            _hang_up(self._response)
        self._rouse.set()

    def run(self) -> None:
        """The thread's body: one watch after the other, for as long as we lead."""
        pause: float | None = 0.0
        while True:
            self._rouse.wait(pause)
            self._rouse.clear()
            if self._ending:
                return
            if not self._watching.leads():
                self._forget()
                self._watching.idle()
                pause = None  # until a read lists again: only a leader reads
                continue
            with self._changed:
                version, epoch = self._version, self._epoch
            pause = self._follow(version, epoch) if version else None

    def _list(self) -> list[T]:
        began, before = self._seconds(), self._kept

        def keep(raw: Json) -> tuple[str, _Kept[T]]:
            key = key_of(raw)
            return key, self._keep(raw, before.get(key))

        try:
            asked = self._listing
            listing, version = self._wire.listed(asked.resource, asked.path, *asked.parts, view=keep, **asked.options)
        except (TryLater, WontWork):
            self._hurries = True
            raise
        with self._changed:
            self._kept = dict(listing)
            waited = not self._version
            self._version, self._listed_at, self._heard_at, self._stands = version, began, began, False
            self._awaited.clear()
            self._epoch += 1
            _hang_up(self._response)
            objects = [entry.seen for entry in self._kept.values()]
        if self.ident is None and not self._ending:
            self.start()
        if waited or (self._hurries and self._failures):
            self._hurries = self._hurries and not self._failures
            self._rouse.set()
        return objects

    def _keep(self, raw: Json, before: _Kept[T] | None) -> _Kept[T]:
        version = _version_of(raw)
        if before is not None and version and before.version == version:
            return before
        return _Kept(version, self._listing.view(raw))

    def _is_fresh(self) -> bool:
        now = self._seconds()
        heard = now - self._heard_at <= self._quiet + self._probe + HANGS_AFTER_SECONDS
        recent = heard and now - self._listed_at <= RELIST_AFTER_SECONDS
        return self._stands and recent

    def _forget(self) -> None:
        with self._changed:
            self._kept, self._version, self._stands = {}, "", False
            self._awaited.clear()
            self._epoch += 1
            _hang_up(self._response)

    def _follow(self, version: str, epoch: int) -> float | None:
        """Watch from *version* until the server ends it, or until nothing came for a while; return the seconds to wait
        before the next watch."""
        began = self._seconds()
        with self._changed:
            probes = began - self._heard_at >= self._quiet
        window = self._probe if probes else _length(self._window)
        error: Exception = TryLater(f"the watch of {self.resource} ended at once")
        try:
            self._watch(version, epoch, window, probes)
            if self._seconds() - began >= min(SHORTEST_WATCH_SECONDS, window / 2) or not self._watching.leads():
                self._failures, self._hurries = 0, True
                return 0.0
        except (TryLater, WontWork) as raised:
            error = raised
        except Exception as raised:  # the watch outlives any bug in reading it
            log.exception("watch failed", resource=self.resource)
            error = raised
        with self._changed:
            if epoch != self._epoch or self._ending or (not probes and _is_silence(error)):
                return 0.0
            self._stands = False
            lost = isinstance(error, TryLater) and error.code in (api.GONE, "malformed")
            if lost:
                self._version = ""
        stood = self._seconds() - began >= SHORTEST_WATCH_SECONDS
        self._failures = 1 if stood else self._failures + 1
        self._hurries = self._hurries or stood
        pause = self._failed(error)
        if lost and self._failures == 1:
            self._watching.wake()
        return None if lost else pause

    def _watch(self, version: str, epoch: int, window: int, probes: bool) -> None:
        def opened(response: object) -> None:
            with self._changed:
                self._response = response
                if self._ending or epoch != self._epoch:
                    _hang_up(response)
                    return
                self._stands = True
            self._watching.stands()
            if self._logged:
                self._logged = False
                log.info("watched again", resource=self.resource)

        asked = self._listing
        options = {**asked.options, "resource_version": version, "allow_watch_bookmarks": True}
        silence = window + HANGS_AFTER_SECONDS if probes else self._quiet
        events = self._wire.watch(asked.resource, asked.path, asked.parts, opened, window, silence, **options)
        try:
            for event in events:
                if not self._apply(event, epoch):
                    return
        finally:
            with self._changed:
                self._response = None

    def _apply(self, event: Json, epoch: int) -> bool:
        """Bring one event into the cache; False when a newer list has replaced what it changes. Raises TryLater for an
        event that cannot be right: the cache is then listed anew."""
        kind, raw = event.get("type"), section(event, "object")
        version, key = _version_of(raw), key_of(raw)
        if not version or (kind in CHANGES) != bool(section(raw, "metadata").get("name")):
            raise TryLater(f"an event of {self.resource} is not understood", code="malformed")
        wakes = False
        with self._changed:
            if epoch != self._epoch:
                return False
            if _is_before(version, self._version):
                raise TryLater(f"the versions of {self.resource} went back", code="malformed")
            if kind in CHANGES:
                before = self._kept.pop(key, None)
                if kind != "DELETED":
                    entry = self._kept[key] = self._keep(raw, before)
                    wanted = self._listing.wanted
                    wakes = wanted is not None and wanted(before.seen if before else None, entry.seen)
                if kind == "DELETED" or not _is_before(version, self._awaited.get(key, "")):
                    self._awaited.pop(key, None)
            self._version, self._heard_at = version, self._seconds()
            self._changed.notify_all()
        if wakes:
            self._watching.wake()
        return kind in CHANGES or self._watching.leads()

    def _failed(self, error: Exception) -> float:
        self._watching.fell()
        if not self._logged and (isinstance(error, WontWork) or self._failures >= FAILURES_LOGGED):
            self._logged = True
            log.warning("not watched", resource=self.resource, error=str(error), detail="each step lists them instead")
        if isinstance(error, WontWork):
            return LONGEST_BACKOFF_SECONDS
        server_delay = error.delay.total_seconds() if isinstance(error, TryLater) and error.delay else 0.0
        self._hurries = self._hurries and not server_delay
        return max(server_delay, backoff(self._failures))


def _is_silence(error: Exception) -> bool:
    """True where nothing came for as long as was waited for."""
    return isinstance(error, TryLater) and error.code == "timeout"


def _version_of(raw: Json) -> str:
    return text(section(raw, "metadata"), "resourceVersion")


def _is_before(version: str, other: str) -> bool:
    """True when *version* is known to be older than *other*: they are numbers that count changes (KEP-5504)."""
    return version.isdigit() and other.isdigit() and int(version) < int(other)


def _hang_up(response: Any) -> None:
    """Let the reader of *response* find its end: closing it here would wait for that reader, or disturb its TLS."""
    try:
        with socket.socket(fileno=os.dup(response.fileno())) as connection:
            connection.shutdown(socket.SHUT_RDWR)
    except (OSError, AttributeError, ValueError):  # it has ended by itself
        return


ASK_AGAIN = timedelta(minutes=10)  # after this long a resource that was not installed may have been installed
FIELD_MANAGER = "gpu-autoscaler"
IDENTITY = ("namespace", "name", "uid", "resourceVersion")  # a newer version, or a namesake, is a conflict
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

    @property
    def status(self) -> str:
        return f"{self.name}/status"


class Lists:
    """Reads whole lists: from the API server, or from reflectors once `watch` was called."""

    def __init__(self, wire: ClusterWire, clock: Clock, remarks: Remarks) -> None:
        self._wire, self._clock, self.remarks = wire, clock, remarks
        self._served: dict[ResourceKind, str] = {}
        self._absent: dict[ResourceKind, datetime] = {}
        self._watching: Watching | None = None
        self._window: int = WINDOW_SECONDS
        self._reflectors: dict[tuple[object, ...], Reflector[Any]] = {}
        self._fields = ServedFields(wire, remarks)
        wire.wrote = self._wrote

    def watch(self, watching: Watching, window: int = WINDOW_SECONDS) -> None:
        self._watching, self._window = watching, window

    def every(
        self,
        resource: str,
        path: str,
        *parts: str,
        options: Mapping[str, str] = MappingProxyType({}),
        view: Callable[[Json], Any] = lambda raw: raw,
        wanted: Wanted | None = None,
    ) -> list[Any]:
        """Return every object of the list at *path* as *view* reads it. Raises TryLater and WontWork. *resource*,
        *parts* and *options* are as `ClusterWire.ask` takes them. The loop is woken for a change that is *wanted*."""
        if self._watching is None:
            return self._wire.every(resource, path, *parts, view=view, **options)
        key = (path, parts, tuple(sorted(options.items())))
        reflector = self._reflectors.get(key)
        if reflector is None:
            watching = self._watching if wanted else Watching(leads=self._watching.leads, wake=lambda: None)
            quiet = min(QUIET_SECONDS_OF_PODS if path in (api.PODS, api.NODES) else QUIET_SECONDS, self._window)
            listing = Listing(resource=resource, path=path, parts=parts, options=options, view=view, wanted=wanted)
            reflector = Reflector(listing, self._wire, watching, self._window, quiet)
            self._reflectors[key] = reflector
        try:
            return reflector.objects()
        except WontWork as error:
            if error.code == api.NOT_FOUND:
                reflector.stop()
                del self._reflectors[key]
            raise

    def ages(self) -> dict[str, float]:
        return {r.resource: age for r in list(self._reflectors.values()) if (age := r.age) is not None}

    def stop(self, timeout: float) -> None:
        self._watching = None
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

    def every_of(self, kind: ResourceKind, view: Callable[[Json], Any] = lambda raw: raw, **options: str) -> list[Any]:
        """Return every object of *kind* as *view* reads it, in the version that is served; *options* are the API's own.
        Raises WontWork with code ``http_404`` without one (cached for a minute), and as `every`."""
        absent = WontWork(f"Kubernetes does not serve {kind.name} ({', '.join(kind.versions)})", code=api.NOT_FOUND)
        if self._is_absent(kind, ASK_AGAIN_NEEDED):
            raise absent
        served_version = self._served.get(kind)
        for version in sorted(kind.versions, key=lambda v: v != served_version):
            try:
                views = self.every(kind.name, api.CUSTOM, kind.group, version, kind.plural, view=view, options=options)
            except WontWork as error:
                if error.code != api.NOT_FOUND:
                    raise
                continue
            self._served[kind] = version
            return views
        self._absent[kind] = self._clock.now()
        raise absent

    def _is_absent(self, kind: ResourceKind, lasts: timedelta) -> bool:
        since = self._absent.get(kind)
        return since is not None and timedelta(0) <= self._clock.now() - since < lasts

    def patch(self, kind: ResourceKind, name: str, change: Json) -> None:
        """Apply a merge patch to the cluster-wide object *name* of *kind*, in the version that is served."""
        version = self._served.get(kind, kind.versions[0])
        where = (kind.group, version, kind.plural, name)
        self._wire.ask("patch", kind.name, api.CUSTOM_ONE, *where, dict(change), content=api.MERGE)

    def patch_status(self, kind: ResourceKind, namespace: str, name: str, change: Json) -> None:
        """Apply a merge patch to the status of *name* in *namespace*, in the version that is served."""
        version = self._served.get(kind, kind.versions[0])
        where = (kind.group, version, namespace, kind.plural, name)
        self._wire.ask("patch", kind.status, api.CUSTOM_STATUS, *where, dict(change), content=api.MERGE)

    def known_status(self, kind: ResourceKind, kind_name: str, status: Json) -> Json:
        """Return *status*, of an object that its manifests call *kind_name*, without what the served version lacks."""
        version = self._served.get(kind, kind.versions[0])
        return section(self._fields.known(kind.group, version, kind_name, {"status": status}), "status")

    def apply_status(self, kind: ResourceKind, kind_name: str, raw: Json, status: Json) -> None:
        """Make *status* ours in the object *raw* (as it was read) of *kind*, which its manifests call *kind_name*, by
        server-side apply: fields of others stay, fields of ours that *status* does not name go. Fields that the served
        version does not know are left out: with one of them the API server refuses all."""
        version = self._served.get(kind, kind.versions[0])
        metadata = {n: v for n, v in section(raw, "metadata").items() if n in IDENTITY}
        where = [kind.group, version, kind.plural, metadata["name"]]
        path = api.CUSTOM_ONE_STATUS
        if "namespace" in metadata:
            where.insert(2, metadata["namespace"])
            path = api.CUSTOM_STATUS
        head = {"apiVersion": f"{kind.group}/{version}", "kind": kind_name, "metadata": metadata}
        options = {"field_manager": FIELD_MANAGER, "force": "true"}

        while True:
            body = {**head, "status": self.known_status(kind, kind_name, status)}
            try:
                self._wire.ask("patch", kind.status, path, *where, body, content=api.APPLY, **options)
            except (TryLater, WontWork) as error:
                if not self._fields.learns(kind.group, version, kind_name, error):
                    raise
            else:
                return

    def if_readable(
        self, kind: ResourceKind, without: str, view: Callable[[Json], Any] = lambda raw: raw
    ) -> list[Any] | None:
        """Return every object of *kind* as *view* reads it, or None where they cannot be read; never raises. For a
        failure a warning says what is lost *without* them."""
        try:
            return self.if_allowed(kind, without, view)
        except TryLater as error:
            self.remarks.warn("custom resources not read", f"{error}; {without}")
            return None

    def if_allowed(
        self, kind: ResourceKind, without: str, view: Callable[[Json], Any] = lambda raw: raw, **options: str
    ) -> list[Any] | None:
        """Return every object of *kind* as *view* reads it, or None where it is not installed or we may not list it.
        Raises TryLater. A kind that is not installed is asked for again after ten minutes. For any other refusal a
        warning says what is lost *without* them."""
        if self._is_absent(kind, ASK_AGAIN):
            return None
        try:
            return self.every_of(kind, view, **options)
        except WontWork as error:
            if error.code != api.NOT_FOUND:
                self.remarks.warn("custom resources not read", f"{error}; {without}")
            return None
