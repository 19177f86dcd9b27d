"""The reach of one step: the functions and files that it enters, and how often it changes file.

``python -m tools.trace_step`` traces two steps over the simulated world with SQLite: one that buys a node for a waiting
pod, and one that begins to remove an idle node. The simulated world itself is not counted.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import receiver
from tests.faults.stores import a_store, silent_log
from tests.reconcile.harness import Life, a_job, a_policy, a_world

HOME = f"{Path(receiver.__file__).parent}/"
SIMULATED = "replay/"


@dataclass
class Trace:
    """The functions and files of one step."""

    functions: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    calls: int = 0
    changes: int = 0
    _last: str = ""

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        """Note a call; `sys.setprofile` takes this."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(HOME):
            return
        file = code.co_filename.removeprefix(HOME)
        if file.startswith(SIMULATED):
            return
        self.calls += 1
        self.files.add(file)
        self.functions.add(f"{file}:{code.co_qualname}")
        self.changes += file != self._last
        self._last = file

    def __str__(self) -> str:
        """The figures in one line."""
        entered = f"{len(self.functions)} functions in {len(self.files)} files"
        return f"{entered}, {self.calls} calls, {self.changes} changes of file"


def traced(act: Callable[[], object]) -> Trace:
    """Return what *act* entered."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        act()
    finally:
        sys.setprofile(None)
    return trace


def main() -> None:
    """Print both traces."""
    with a_store() as store, silent_log([]):
        life = Life(world=a_world(), policy=a_policy(), store=store)
        life.run(timedelta(minutes=2))
        life.submit(a_job())
        print(f"buys a node:             {traced(life.step)}")
        assert life.required() == 1, "the step bought nothing"
        while True:
            due = life.wake_after_step(timedelta(seconds=10))
            before = len(life.writes("cordon"))
            life.world.advance(due)
            trace = traced(life.step)
            if len(life.writes("cordon")) > before:
                print(f"begins to remove a node: {trace}")
                return


if __name__ == "__main__":
    main()
