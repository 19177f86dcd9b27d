"""What runs inside the receiver's processes in a schedule: Python imports a module of this name when it starts.

Some things cannot be done from outside. The wall clock (`receiver.adapters.clock` alone reads it) is moved by what the
harness writes to a file that both map into memory. A process that is told so kills itself with SIGKILL at a line of the
step (`campaigns.faults.lines`). SQLite writes nothing while it is told so. Failing steps count after seconds, and
watches back off at once. All else is the product as it is installed.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(os.environ["FAULTS_INSIDE"])
LAYOUT = "=dd"  # seconds by which every clock is ahead of the machine's, and ours of every other


def move_the_clock(module: Any) -> None:
    """Let `SystemClock` tell the time that the harness wants."""
    from datetime import UTC, datetime, timedelta

    with (FOLDER / "clock").open("rb") as file:
        moved = mmap.mmap(file.fileno(), struct.calcsize(LAYOUT), access=mmap.ACCESS_READ)

    def now(_clock: object) -> datetime:
        seconds = sum(struct.unpack_from(LAYOUT, moved))
        return datetime.now(UTC) + timedelta(seconds=seconds)  # noqa: TID251 (it stands in for the one place)

    module.SystemClock.now = now


def die_at_lines(module: Any) -> None:
    """Let a step die where the file ``line`` says (``act 37``); what was said there is used up by that."""
    from campaigns.faults.lines import LineTrap

    step = module.step

    def at_the_line(line: str) -> None:
        (FOLDER / "died").open("a").write(f"{line}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    trap = LineTrap(at_the_line)

    def stepping(*given: Any, **named: Any) -> Any:
        told = FOLDER / "line"
        if told.exists():
            within, lines = told.read_text().split(",")
            told.unlink()
            trap.arm(within, int(lines))
        with trap.watching():
            return step(*given, **named)

    module.step = stepping


def refuse_writes(module: Any) -> None:
    """Let SQLite refuse to write while the file ``read_only`` is there: who is root may write whatever its mode is."""
    from sqlalchemy import event

    durable = module._durable_sqlite

    def prepared(engine: Any) -> None:
        durable(engine)

        @event.listens_for(engine, "begin")
        def on_begin(connection: Any) -> None:
            refuses = "ON" if (FOLDER / "read_only").exists() else "OFF"
            connection.connection.execute(f"PRAGMA query_only = {refuses}").close()

    module._durable_sqlite = prepared


def be_impatient(module: Any) -> None:
    """Let a loop without a good step count as failing after seconds instead of minutes."""
    from dataclasses import replace
    from datetime import timedelta

    health = module.Loop.health
    module.Loop.health = lambda self: replace(health(self), good_within=timedelta(seconds=8))


def back_off_soon(module: Any) -> None:
    """Let a watch that falls wait at once as long as after some failures in a row."""
    backoff = module.backoff
    module.backoff = lambda failures: backoff(failures + 3)


CHANGES: dict[str, Callable[[Any], None]] = {
    "receiver.adapters.clock": move_the_clock,
    "receiver.step.reconcile": die_at_lines,
    "receiver.adapters.store.database": refuse_writes,
    "receiver.runtime.loop": be_impatient,
    "receiver.adapters.kubernetes.reflector": back_off_soon,
}


class _Changed(importlib.abc.Loader):
    """Loads a module as ever and changes it then."""

    def __init__(self, inner: importlib.abc.Loader, change: Callable[[Any], None]) -> None:
        self._inner, self._change = inner, change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._change(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that are to be changed, once each."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        change = CHANGES.pop(name, None)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Changed(spec.loader, change)
        return spec


sys.meta_path.insert(0, _Finder())
