"""The table of functions of a step x planted exception: what the other pools came to."""

import faulthandler
import os
import pickle
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any

from receiver.core.model.actions import OutcomeKind
from receiver.ports import Store, TryLater, WriterLostError
from tests.faults.stores import empty, silent_log
from tests.step.failures.planting import Whose, functions, name_of, planted, whose
from tests.step.failures.scenario import POOLS, Came, is_bad, prepared
from tests.step.harness import Life

MOST_STEPS = 24
LONGEST_SECONDS = 10.0
FEWEST_STEPS = 4
TICK = timedelta(seconds=10)
LATER = timedelta(minutes=8)  # once the bug is gone: nodes that missed their hour's end wait for the next one
# The simulated world, and the machinery of connections and locks: what is broken there is broken for every write. The
# simulated cluster names what keeps its nodes by `named`; with the cluster silent, kube-state-metrics tells no node
# selectors, and the cheapest pool gets what waits for two (docs/limits.md).
OUTSIDE = (
    "replay/",
    "core/model/pods.py:named",
    "adapters/store/database.py",
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


def recorded(store: Store) -> Mapping[str, Counter[Whose]]:
    """Every function that the steps of the scenario enter, and whose calls they were."""
    life = prepared(store)
    tells = is_bad(life)
    found: dict[str, Counter[Whose]] = {}

    def profile(frame: FrameType, event: str, _arg: Any) -> None:
        if event != "call":
            return
        name = name_of(frame.f_code)
        if name is not None and not name.startswith(OUTSIDE):
            found.setdefault(name, Counter())[whose(frame, tells)] += 1

    _run(life, watch=profile)
    return found


def _run(
    life: Life,
    watch: Callable[..., None] | None = None,
    until: Callable[[Came], bool] = lambda came: came.served,
    tick: timedelta = TICK,
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
        if number >= FEWEST_STEPS:
            with suppress(Exception):  # the store may be what the bug is in
                if failed == number or until(_came(life, number, failed)):
                    break
        life.world.advance(due)
    try:
        return _came(life, MOST_STEPS, failed)
    except Exception:  # noqa: BLE001
        return Came(done=frozenset(), considered=False, twice=False, steps=MOST_STEPS, failed_steps=failed)


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


class Field:
    """Runs each plant in a child process that begins where the scenario is prepared, on a copy of its store."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._life = prepared(store)
        self._path = store._database.engine.url.database
        self._kept = sqlite3.connect(":memory:")
        store.close()
        with closing(sqlite3.connect(self._path)) as file:
            file.backup(self._kept)
        self._functions = functions()

    def row(self, name: str, of: Whose) -> Row:
        """Plant into function *name* for the calls that are *of* somebody."""
        self._restore()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
            try:
                row = self._planted(name, of)
            except BaseException as error:  # noqa: BLE001
                row = Row(function=name, whose=of, raised=0, came=None, error=repr(error))
            os.write(write, pickle.dumps(row))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            told = pipe.read()
            row = pickle.loads(told) if told else Row(function=name, whose=of, raised=0, came=None, error="hung")
        os.waitpid(child, 0)
        return row

    def _restore(self) -> None:
        with closing(sqlite3.connect(self._path)) as file:
            self._kept.backup(file)

    def _planted(self, name: str, of: Whose) -> Row:
        raised = 0

        def strikes(told: Whose) -> bool:
            nonlocal raised
            raised += told is of
            return told is of

        with silent_log([]):
            with planted(self._functions[name], strikes, is_bad(self._life)):
                came = _run(self._life)
            after = came if came.all_served else _run(self._life, until=lambda seen: seen.all_served, tick=LATER)
        return Row(function=name, whose=of, raised=raised, came=came, after=after)


def table(store: Any, chosen: Callable[[str], bool] = lambda _name: True) -> Iterator[Row]:
    """Every function that a step enters, with the exception planted for the bug's pools, or where it serves all."""
    seen = recorded(store)
    empty(store)
    field = Field(store)
    for name, calls in sorted(seen.items()):
        if not chosen(name) or name not in field._functions:
            continue
        for of in (Whose.BAD, Whose.ALL):
            if calls[of]:
                yield field.row(name, of)
