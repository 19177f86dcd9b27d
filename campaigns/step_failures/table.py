"""The table of functions of a step x planted exception: what the other pools came to."""

import faulthandler
import gc
import os
import pickle
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any

from campaigns.step_failures.planting import (
    Whose,
    caught_at,
    find_references,
    forget_caches,
    functions,
    is_reached,
    name_of,
    planted,
    whose,
)
from campaigns.step_failures.scenario import POOLS, Came, is_bad, prepared
from receiver.adapters.store import SqlStore
from receiver.core.model.actions import OutcomeKind
from receiver.ports import TryLater, WriterLostError
from tests.given.life import Life
from tests.stores import WorldStore, silent_log

MOST_STEPS = 24
LONGEST_SECONDS = 120.0  # a tenth of a second on an idle machine
FEWEST_STEPS = 3
TICK = timedelta(seconds=10)
LATER = timedelta(minutes=8)  # once the bug is gone: nodes that missed their hour's end wait for the next one
# The simulated world, and the machinery of connections and locks: what is broken there is broken for every write. The
# simulated cluster names what keeps its nodes by `named`, and tells bound pods by `reserved`; with the cluster silent,
# kube-state-metrics tells no node selectors, and the cheapest pool gets what waits for two (docs/limits.md). A compiled
# statement of SQLAlchemy keeps its converters of columns, and a model of pydantic its serializers, so no plant reaches
# them.
OUTSIDE = (
    "replay/",
    "core/model/pods.py:named",
    "core/model/pods.py:Pod.reserved",
    "adapters/store/database.py",
    "adapters/store/columns.py",
    "core/money/cost.py:stated",
    "__init__.py:",  # the version: a server asks for it as it starts, these steps each time
)
STORE = (
    "adapters/store/"  # the store in memory takes the rules of some tables from here, by names that no plant reaches
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One planted exception: whose calls raised, how many did, and what the run came to."""

    function: str
    whose: Whose
    raised: int
    came: Came | None
    after: Came | None = None
    error: str = ""

    @property
    def served(self) -> bool:
        """True when the pools that are not the bug's were served all the same."""
        return self.came is not None and self.came.served

    @property
    def recovered(self) -> bool:
        """True when every pool was served once the bug was gone."""
        return self.after is not None and self.after.all_served

    def __str__(self) -> str:
        """One line of the table."""
        came = self.error or f"{self.came}, afterwards {self.after}"
        return f"{self.function} ({self.whose} calls, raised {self.raised} times): {came}"


def _run(
    life: Life,
    watch: Callable[..., None] | None = None,
    until: Callable[[Came], bool] = lambda came: came.served,
    tick: timedelta = TICK,
    fewest: int = FEWEST_STEPS,
) -> Came:
    """Step until the scenario is through, or often enough. *watch* is the profiler of the steps."""
    failed = 0
    for number in range(1, MOST_STEPS + 1):
        due = life.now + tick
        sys.setprofile(watch)
        try:
            with suppress(TryLater, WriterLostError):
                stepped = life.step()
                due = min(due, max(stepped.reconsider_at or due, life.now + timedelta(milliseconds=100)))
        except Exception:  # noqa: BLE001  # the plant, or what the store made of it
            failed += 1
        finally:
            sys.setprofile(None)
        if number >= fewest:
            with suppress(Exception):  # the store may be what the bug is in
                if failed == number or until(_came(life, number, failed)):
                    break
        life.world.advance(due)
    try:
        return _came(life, number, failed)
    except Exception:  # noqa: BLE001
        return Came(done=frozenset(), considered=False, twice=False, steps=number, failed_steps=failed)


def _came(life: Life, steps: int, failed: int) -> Came:
    closed = {
        a.action.pool
        for a in life.store.actions(limit=100)
        if a.outcome is not None and a.outcome.kind is OutcomeKind.CONFIRMED
    }
    resized: Any = life.writes("resize")
    retired: Any = life.writes("retire")
    asked = {pool for _, (pool, count) in resized if count == 2}
    gone = Counter(pool for _, (pool, _) in retired)
    return Came(
        done=frozenset(pool for pool in POOLS if pool in closed and (pool in asked or gone[pool])),
        considered=not life.store.memory(life.now, life.now).deliveries,
        twice=any(count > 2 for _, (_, count) in resized) or any(count > 1 for count in gone.values()),
        steps=steps,
        failed_steps=failed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A function that a step enters, *of* the pools or workloads it is called for, and *met*: the handlers that would
    catch what it raised, with the number of writes that the step had made."""

    function: str
    of: Whose
    met: frozenset[tuple[int, tuple[str, int] | None]]

    @property
    def places(self) -> frozenset[tuple[str, int] | None]:
        """The handlers, whatever the step had written."""
        return frozenset(place for _, place in self.met)

    def failed(self, error: str) -> Row:
        """The row of a plant whose process did not come to its end."""
        return Row(function=self.function, whose=self.of, raised=0, came=None, error=error)


class Field:
    """Runs each plant in a child process that begins where the scenario is prepared, with empty caches: as the child
    did in which the functions that a step enters were noted.

    A child has a store in memory to itself; the file of a real one is *kept* meanwhile.
    """

    def __init__(self, store: WorldStore, kept: sqlite3.Connection) -> None:
        self._functions = functions()
        find_references()
        self._life = prepared(store)
        self._outside = OUTSIDE if isinstance(store, SqlStore) else (*OUTSIDE, STORE)
        self._kept = kept
        self._path: str | None = None
        if isinstance(store, SqlStore):
            self._path = store._database.engine.url.database
            store.close()
            with closing(sqlite3.connect(str(self._path))) as file:
                file.backup(self._kept)
        self.points: list[Point] = _in_a_child(self._entered)

    def _entered(self) -> list[Point]:
        """Every function into which an exception can be planted, by whose calls would raise."""
        tells = is_bad(self._life)
        met: dict[tuple[str, Whose], set[tuple[int, tuple[str, int] | None]]] = {}
        transactions = before = 0

        def profile(frame: FrameType, event: str, _arg: Any) -> None:
            nonlocal transactions, before
            name = name_of(frame.f_code) if event == "call" else None
            if name is None:
                return
            transactions += name == "adapters/store/database.py:Database.preparing"
            writes = transactions + len(self._life.cloud.writes) + len(self._life.cluster.writes)
            before = writes if name == "step/reconcile.py:step" else before
            if name in self._functions and not name.startswith(self._outside) and is_reached(frame):
                met.setdefault((name, whose(frame, tells)), set()).add((writes - before, caught_at(frame)))

        _run(self._life, watch=profile)
        return [Point(function=name, of=of, met=frozenset(places)) for (name, of), places in sorted(met.items())]

    def row(self, point: Point) -> Row:
        """Plant into the point's function, for its calls of that owner."""
        self._restore()
        try:
            row: Row = _in_a_child(lambda: self._planted(point))
        except ChildError as error:
            row = point.failed(str(error))
        return row

    def _restore(self) -> None:
        if self._path is not None:
            with closing(sqlite3.connect(self._path)) as file:
                self._kept.backup(file)

    def _planted(self, point: Point) -> Row:
        raised = 0

        def strikes(told: Whose) -> bool:
            nonlocal raised
            raised += told is point.of
            return told is point.of

        with silent_log([]):
            with planted(self._functions[point.function], strikes, is_bad(self._life)):
                came = _run(self._life)
            after = (
                came if came.all_served else _run(self._life, until=lambda seen: seen.all_served, tick=LATER, fewest=1)
            )
        return Row(function=point.function, whose=point.of, raised=raised, came=came, after=after)


class ChildError(Exception):
    """A child process ended without its result."""


def _in_a_child(call: Callable[[], Any]) -> Any:
    """What *call* returns in a child process whose caches are empty. Raises ChildError."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()  # a search for cycles would copy every page that is shared
        os.close(read)
        faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
        try:
            forget_caches()
            result = call()
        except BaseException as error:  # noqa: BLE001
            result = ChildError(repr(error))
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    result = pickle.loads(told) if told else ChildError("hung")
    if isinstance(result, ChildError):
        raise result
    return result


def one_at_each_place(points: Iterable[Point], kind: Callable[[str], Hashable]) -> list[Point]:
    """Points that together meet every place, for each owner and each *kind* of function by its name; those that meet
    the fewest places come first, since an exception ends where the first place meets it.
    """
    chosen, covered = [], set[Hashable]()
    for point in sorted(points, key=lambda point: len(point.places)):
        meets = {(point.of, place, kind(point.function)) for place in point.places}
        if not meets <= covered:
            chosen.append(point)
            covered |= meets
    return chosen


def table(store: WorldStore, choose: Callable[[list[Point]], Iterable[Point]]) -> Iterator[Row]:
    """The exception planted into what is chosen of all points, one row after the other."""
    with closing(sqlite3.connect(":memory:")) as kept:
        field = Field(store, kept)
        for point in choose([p for p in field.points if p.of is not Whose.GOOD]):
            yield field.row(point)
