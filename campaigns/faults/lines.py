"""A crash at a line: the process dies when the step is about to run the n-th line of its own code from now on.

Calls of ports die at `campaigns.faults.doors`; here it is everything between them. Only the lines of the step and the
store count: a crash within a pure function is one before the next effect. The machinery of connections and locks is
left out, because what it holds a kill takes with the process, and here the process goes on; so is the outbox, of which
the checks follow whole calls. The store in memory has no transactions to roll back: a process that is to die within one
of its calls dies once that is over, or before the next.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import receiver

ROOT = Path(receiver.__file__).parent
STORE = "adapters/store/"
IN_MEMORY = f"{STORE}in memory/"
LEFT_OUT = {f"{STORE}{name}.py" for name in ("database", "migrate", "outbox")}
LEFT_OUT |= {f"{IN_MEMORY}{name}.py" for name in ("forms", "outbox")}
LONGEST_WAIT = 12  # steps in which a trap waits for its line: tracing makes a step slower


class CrashError(BaseException):
    """The process dies here; nothing may catch it."""


def _modules() -> dict[str, str]:
    """The traced files: path below `receiver` by the name that code objects bear."""
    files = [*(ROOT / "step").rglob("*.py"), *(ROOT / STORE).glob("*.py")]
    named = {str(f): f.relative_to(ROOT).as_posix() for f in files}
    named |= {path: f"{IN_MEMORY}{Path(path).name}" for path in MEMORY}
    return {path: name for path, name in named.items() if name not in LEFT_OUT}


MEMORY = frozenset(str(f) for f in (ROOT / "replay/ledger.py", *(ROOT.parent / "simulator/store").glob("*.py")))
MODULES = _modules()


def crash(_line: str) -> None:
    """Raise CrashError: the process that it stands for is gone."""
    raise CrashError


class LineTrap:
    """Dies once, by *strike*. *died_at* names the line: ``step/carry_out.py:153 in _grow``."""

    def __init__(self, strike: Callable[[str], None] = crash) -> None:
        self.strike = strike
        self.died_at = ""
        self._within = ""
        self._left = 0
        self._steps = 0
        self._side = ""  # of a call of the store in memory at which it dies, by the event of the trace
        self._due = False  # the line is reached, within such a call
        self._call: FrameType | None = None  # of the store in memory that is under way

    @property
    def armed(self) -> bool:
        """True while it waits for its line."""
        return (self._left > 0 or self._due) and self._steps > 0

    def arm(self, within: str, lines: int) -> None:
        """Die before line number *lines* of those to come whose file begins with *within* (``step/act``, or all)."""
        self._within, self._left, self._steps = within, lines, LONGEST_WAIT
        self._side, self._due = ("return" if lines % 2 else "call"), False

    def disarm(self) -> None:
        """Let every line pass."""
        self._left, self._due = 0, False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the lines that run meanwhile, if it is armed. Raises CrashError at the one it waits for."""
        if not self.armed:
            yield
            return
        self._steps -= 1
        self._call = None
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(before)

    def _entered(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if self._call is None and frame.f_code.co_filename in MEMORY:
            self._call = frame
            self._may_end(frame, event)
        return self._ran if self._counts(frame) or frame is self._call else None

    def _ran(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "return" and frame is self._call:
            self._call = None
            self._may_end(frame, event)
        if event != "line" or self._left <= 0 or not self._counts(frame):
            return self._ran
        self._left -= 1
        if self._left == 0:
            self._due = self._call is not None
            if not self._due:
                self._end(frame)
        return self._ran

    def _counts(self, frame: FrameType) -> bool:
        name = MODULES.get(frame.f_code.co_filename)
        return name is not None and name.startswith(self._within)

    def _may_end(self, frame: FrameType, event: str) -> None:
        """Die at the begin or the end of a whole call of the store in memory, if it is time."""
        if self._due and event == self._side and frame.f_code.co_filename in MODULES:
            self._due = False
            self._end(frame)

    def _end(self, frame: FrameType) -> None:
        code = frame.f_code
        self.died_at = f"{MODULES[code.co_filename]}:{frame.f_lineno} in {code.co_name}"
        self.strike(self.died_at)
