"""Watches: a stream of one JSON line per change, until it times out, falls too far behind or the simulator stops."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from receiver.replay.world.objects import Denied, WorldChange
from simulator.kubernetes_objects import status_json
from simulator.kubernetes_selectors import Matches
from simulator.live import Live

JSON = dict[str, Any]
LONGEST_SECONDS = 1800.0  # the API server's own lower bound where the client names no timeout
BOOKMARKS_EVERY_SECONDS = 60.0  # as the API server's watch cache sends them
PATIENCE_SECONDS = 30.0  # changes wake a watch; this bounds a wait without any


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The watch of one client: changes after version *since* of what the world's journal has as *noted_as*; *cut_off*
    ends the connection."""

    noted_as: str
    render: Callable[[Any], JSON]
    kind: str
    api: str
    namespace: str | None
    matches: Matches
    since: int
    seconds: float | None
    bookmarks: bool
    cut_off: Callable[[], ConnectionAbortedError]


def stream(live: Live, watch: Watch, present: list[JSON]) -> Iterator[str]:
    """Yield the lines of *watch*; *present* are the objects of version *since* that it begins with."""
    yield ""  # sends the headers, so that the client knows that the watch stands
    version = watch.since
    for obj in present:
        yield _line("ADDED", obj)
    began = marked = time.monotonic()
    deadline = began + (watch.seconds or LONGEST_SECONDS)
    while not live.stopping.is_set():
        if live.watches == "hang":  # half open: not even its end is reported
            live.wait_beyond(live.world.version, PATIENCE_SECONDS)
            continue
        if live.watches == "close":
            raise watch.cut_off()
        if live.watches == "error":
            yield _line("ERROR", status_json(500, "InternalError", "a fault ended the watch"))
            return
        try:
            with live.moved() as world:
                lines = [line for c in world.changes_since(version) if (line := _told(watch, c))]
                version = world.version
        except Denied as refused:
            yield _line("ERROR", status_json(refused.status, refused.code, refused.reason))
            return
        yield from lines
        now = time.monotonic()
        if watch.bookmarks and now - marked >= BOOKMARKS_EVERY_SECONDS:
            marked = now
            yield _bookmark(watch, version)
        left = deadline - now
        if left <= 0:
            break
        live.wait_beyond(version, min(left, PATIENCE_SECONDS))
    if watch.bookmarks:
        yield _bookmark(watch, version)


def _bookmark(watch: Watch, version: int) -> str:
    mark = {"apiVersion": watch.api, "kind": watch.kind, "metadata": {"resourceVersion": str(version)}}
    return _line("BOOKMARK", mark)


def _told(watch: Watch, change: WorldChange) -> str | None:
    """Return the line that *change* means to *watch*: an object that stops being selected is DELETED for it."""
    if change.kind != watch.noted_as:
        return None
    after = None if change.verb == "DELETED" else _selected(watch, watch.render(change.obj))
    before = None if change.before is None else _selected(watch, watch.render(change.before))
    if after is not None:
        return _line("ADDED" if before is None else "MODIFIED", after)
    if before is None:
        return None
    left = watch.render(change.obj)
    return _line("DELETED", {**left, "metadata": {**left["metadata"], "resourceVersion": str(change.version)}})


def _selected(watch: Watch, obj: JSON) -> JSON | None:
    """Return *obj* if the watch selects it."""
    there = watch.namespace in (None, obj["metadata"].get("namespace")) and watch.matches(obj)
    return obj if there else None


def _line(verb: str, obj: JSON) -> str:
    return json.dumps({"type": verb, "object": obj}) + "\n"
