"""The form for overrides of a pool: what it sends, and who sends it."""

from datetime import timedelta
from typing import Any

from receiver.core.model.overrides import Override, OverrideKind
from receiver.ports import StoredOverride
from tests.web.builders import L40S, NOW, READER, Bench
from tests.web.people import Person
from tests.web.seen import Page
from tests.web.stores import a_store_with

PIN_FORM = {"kind": "pin", "nodes": "4", "for": "2h", "why": "load test", "who": "alice"}
OVERRIDES_PATH = "/pools/l40s/overrides"


def a_stored_override(name: str = "pin-l40s-1", **changes: Any) -> StoredOverride:
    """A pin of pool l40s to 4 nodes by alice, an hour old, for an hour more."""
    values: dict[str, Any] = {"kind": OverrideKind.PIN, "pool": L40S, "nodes": 4, "who": "alice", "why": "load test"}
    times = {"at": NOW - timedelta(hours=1), "until": NOW + timedelta(hours=1)}
    ended = {key: changes.pop(key) for key in ("ended_at", "ended_by") if key in changes}
    return StoredOverride(override=Override(id=name, **{**values, **times, **changes}), **ended)


def a_bench_for_operators(*overrides: StoredOverride, **more: Any) -> Bench:
    """A server with *overrides* that has an operator's token and a reader's."""
    return Bench(store=a_store_with(overrides=overrides), reader_token=READER, **more)


def an_operator(bench: Bench) -> Person:
    """A person who has logged in with the operator's token."""
    person = Person.at(bench)
    person.log_in()
    return person


def input_fields(html: str) -> dict[str, dict[str, str | None]]:
    """The attributes of each input of a page by its id."""
    return {a["id"] or "": a for tag, a in Page(html).elements if tag == "input" and a.get("id")}
