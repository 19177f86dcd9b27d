"""Watches: a stream of one JSON line per change, until it times out, falls too far behind or the simulator stops."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from receiver.replay.world import Denied, WorldChange
from simulator.kubernetes_objects import status_json
from simulator.kubernetes_selectors import Matches
from simulator.live import Live

JSON = dict[str, Any]
LONGEST_SECONDS = 1800.0  # the API server's own lower bound where the client names no timeout
PATIENCE_SECONDS = 30.0  # changes wake a watch; this only bounds a wait nobody wakes


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What one client watches: changes of *kind* after version *since*; *cut_off* ends its connection."""

    kind: str
    api: str
    namespace: str | None
    matches: Matches
    selective: bool
    since: int
    seconds: float | None
    bookmarks: bool
    cut_off: Callable[[], ConnectionAbortedError]


def stream(live: Live, watch: Watch, render: Callable[[Any], JSON], present: list[JSON]) -> Iterator[str]:
    """Yield the lines of *watch*; *present* are the objects of version *since* that it begins with."""
    yield ""  # sends the headers, so that the client knows that the watch stands
    version = watch.since
    for obj in present:
        yield _line("ADDED", obj)
    deadline = time.monotonic() + (watch.seconds or LONGEST_SECONDS)
    while not live.stopping.is_set():
        if live.watches == "hang":  # half open: not even its own end is told
            live.wait_beyond(live.world.version, PATIENCE_SECONDS)
            continue
        if live.watches == "close":
            raise watch.cut_off()
        if live.watches == "error":
            yield _line("ERROR", status_json(500, "InternalError", "a fault ended the watch"))
            return
        try:
            with live.moved() as world:
                lines = [line for c in world.changes_since(version, watch.kind) if (line := _told(watch, c, render))]
                version = world.version
        except Denied as refused:
            yield _line("ERROR", status_json(refused.status, refused.code, refused.reason))
            return
        yield from lines
        left = deadline - time.monotonic()
        if left <= 0:
            break
        live.wait_beyond(version, min(left, PATIENCE_SECONDS))
    if watch.bookmarks:
        mark = {"apiVersion": watch.api, "kind": watch.kind, "metadata": {"resourceVersion": str(version)}}
        yield _line("BOOKMARK", mark)


def _told(watch: Watch, change: WorldChange, render: Callable[[Any], JSON]) -> str | None:
    """Return the line that *change* means to *watch*: an object that stops being selected is DELETED for it."""
    obj = render(change.obj)
    if watch.namespace is not None and obj["metadata"].get("namespace") != watch.namespace:
        return None
    verb = change.verb
    selected = watch.matches(obj)
    if verb == "MODIFIED" and watch.selective:
        was_selected = selected if change.before is None else watch.matches(render(change.before))
        if selected and not was_selected:
            verb = "ADDED"
        elif was_selected and not selected:
            return _line("DELETED", obj)
    return _line(verb, obj) if selected else None


def _line(verb: str, obj: JSON) -> str:
    return json.dumps({"type": verb, "object": obj}) + "\n"
