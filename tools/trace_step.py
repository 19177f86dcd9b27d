"""The reach of one step: the functions and files that it enters, and how often it changes file.

``python -m tools.trace_step`` traces two steps over the simulated world with SQLite: one that buys a node for a waiting
pod, and one that begins to remove an idle node. The simulated world itself is not counted; comprehensions and lambdas
are counted as functions, and no capability adds anything. With ``--files`` it also lists the functions by file and the
commonest changes of file.
"""

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import receiver
from receiver.step.parts import NOTHING
from tests.given.life import Life, a_job, a_policy, a_world
from tests.stores import a_store, silent_log

HOME = f"{Path(receiver.__file__).parent}/"
SIMULATED = "replay/"
MOST_CHANGES = 60


@dataclass
class Trace:
    """The functions and files of one step."""

    functions: dict[str, Counter[str]] = field(default_factory=dict)  # calls by function, by file
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)  # by file left and file entered
    _last: str = ""

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        """Note a call; `sys.setprofile` takes this."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(HOME):
            return
        file = code.co_filename.removeprefix(HOME)
        if file.startswith(SIMULATED):
            return
        self.functions.setdefault(file, Counter())[code.co_qualname] += 1
        if file != self._last:
            self.changes[self._last, file] += 1
        self._last = file

    @property
    def file_count(self) -> int:
        """How many files it entered."""
        return len(self.functions)

    @property
    def named_functions(self) -> int:
        """How many functions it entered, without comprehensions and lambdas."""
        return sum("<" not in name.rpartition(".")[2] for entered in self.functions.values() for name in entered)

    @property
    def moves(self) -> int:
        """How often it changed file."""
        return self.changes.total()

    def __str__(self) -> str:
        """The figures in one line."""
        functions = sum(len(entered) for entered in self.functions.values())
        calls = sum(entered.total() for entered in self.functions.values())
        where = f"{functions} functions ({self.named_functions} with a name) in {self.file_count} files"
        return f"{where}, {calls} calls, {self.moves} changes of file"

    def files(self) -> str:
        """The functions by file with their calls, and the commonest changes of file."""
        lines = [
            f"{len(entered):4} {file}: {', '.join(f'{name} {count}' for name, count in entered.most_common())}"
            for file, entered in sorted(self.functions.items(), key=lambda item: -len(item[1]))
        ]
        return "\n".join([*lines, *(f"{n:4} {a} -> {b}" for (a, b), n in self.changes.most_common(MOST_CHANGES))])


def traced(act: Callable[[], object]) -> Trace:
    """Return what *act* entered."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        act()
    finally:
        sys.setprofile(None)
    return trace


@contextmanager
def growing() -> Iterator[tuple[Life, Trace]]:
    """Give a world after the step that bought its first node, and the trace of that step."""
    with a_store() as store, silent_log([]):
        life = Life(world=a_world(), policy=a_policy(), store=store, additions=NOTHING)
        life.run(timedelta(minutes=2))
        life.submit(a_job())
        trace = traced(life.step)
        assert life.required() == 1, "the step bought nothing"
        yield life, trace


def growing_step() -> Trace:
    """Return the trace of a step that buys a node for a waiting pod."""
    with growing() as (_, trace):
        return trace


def deleting_step(life: Life) -> Trace:
    """Go on until a step begins to remove the idle node of *life*, and return the trace of that step."""
    before = len(life.writes("cordon"))
    while True:
        life.world.advance(life.wake_after_step(timedelta(seconds=10)))
        trace = traced(life.step)
        if len(life.writes("cordon")) > before:
            return trace


def main() -> None:
    """Print both traces."""
    parser = ArgumentParser(prog="python -m tools.trace_step", description="The reach of one step.")
    parser.add_argument("--files", action="store_true", help="list the functions by file and the changes of file")
    by_file = parser.parse_args().files
    with growing() as (life, trace):
        print(f"buys a node:             {trace}")
        if by_file:
            print(trace.files())
        print(f"begins to remove a node: {deleting_step(life)}")


if __name__ == "__main__":
    main()
