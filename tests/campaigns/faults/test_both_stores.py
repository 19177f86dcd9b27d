"""A world is the same on both stores, whatever crashes and refusals strike: its tally, and all that is stored."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.generate import scenario
from campaigns.faults.lines import STORE
from campaigns.faults.scenario import Event, Scenario
from receiver.adapters.store import SqlStore
from simulator.store import MemoryStore
from tests.stores import WorldStore

# Small ones. In the first few every refusal and both kinds of crash strike.
FEW = (22, 32, 143, 167, 179)
NIGHTLY = (2, 15, 55, 59, 67, 104, 117, 121, 137, 149, 153, 165, 176, 317, 26)
TROUBLED = 300  # seconds
BEGIN, END = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
MOST = 10_000


def small(seed: int) -> Scenario:
    """The world of *seed*, with less time for its troubles, and without those of a database alone."""
    world = scenario(seed)
    return replace(world, troubled=TROUBLED, events=[event for event in world.events if not _is_of_sqlite(event)])


def _is_of_sqlite(event: Event) -> bool:
    """True where it counts the lines of SQL, or a full disk has room left for some rows."""
    if event.kind == "die":
        return STORE.startswith(event.what["within"])
    return event.kind == "fault" and event.what["error"] == "full"


def all_of(store: WorldStore) -> Mapping[str, Any]:
    """What *store* holds."""
    return {
        "memory": store.memory(END, BEGIN),
        "control": store.control(),
        "decisions": store.decisions(limit=MOST),
        "actions": store.actions(limit=MOST),
        "messages": store.messages(BEGIN, END, limit=MOST),
        "overrides": store.overrides(limit=MOST),
        "questions": store.questions(limit=MOST),
        "alerts": store.remembered_alerts(BEGIN),
        "counts": store.counts(),
    }


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in NIGHTLY)])
def test_a_world_is_the_same_in_memory_as_on_sqlite(seed: int, real: SqlStore) -> None:
    world, in_memory = small(seed), MemoryStore()
    assert judge(world, in_memory) == judge(world, real)
    assert all_of(in_memory) == all_of(real)


def test_processes_crash_and_databases_refuse_in_these_worlds() -> None:
    events = [event for seed in FEW for event in small(seed).events if event.at <= TROUBLED]
    faults = Counter(e.what["error"] for e in events if e.kind == "fault" and e.what["on"].startswith("store."))
    assert faults.keys() >= {"crash", "locked", "read_only", "lost"}
    crashes = Counter(e.what["after"] for e in events if e.kind == "fault" and e.what["error"] == "crash")
    assert min(crashes[True], crashes[False]) >= 2
    assert any(e.kind == "die" for e in events)
