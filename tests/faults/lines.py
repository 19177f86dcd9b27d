"""A crash at a line: the process dies when the step is about to run the n-th line of its own code from now on.

Calls of ports die at `tests.faults.doors`; here it is everything between them. Only the lines of the step and the store
count: a crash within a pure function is one before the next effect. The machinery of connections and locks is left
out, because what it holds a kill takes with the process, and here the process goes on; so is the outbox, of which the
checks follow whole calls.
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
LEFT_OUT = frozenset(f"{STORE}{name}.py" for name in ("database", "migrate", "outbox"))
LONGEST_WAIT = 12  # steps in which a trap waits for its line: tracing makes a step slower


class CrashError(BaseException):
    """The process dies here; nothing may catch it."""


def _modules() -> dict[str, str]:
    """The traced files: path below `receiver` by the name that code objects bear."""
    files = [*(ROOT / "step").rglob("*.py"), *(ROOT / STORE).glob("*.py")]
    named = {str(f): f.relative_to(ROOT).as_posix() for f in files}
    return {path: name for path, name in named.items() if name not in LEFT_OUT}


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

    @property
    def armed(self) -> bool:
        """True while it waits for its line."""
        return self._left > 0 and self._steps > 0

    def arm(self, within: str, lines: int) -> None:
        """Die before line number *lines* of those to come whose file begins with *within* (``step/act``, or all)."""
        self._within, self._left, self._steps = within, lines, LONGEST_WAIT

    def disarm(self) -> None:
        """Let every line pass."""
        self._left = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the lines that run meanwhile, if it is armed. Raises CrashError at the one it waits for."""
        if not self.armed:
            yield
            return
        self._steps -= 1
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(before)

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        name = MODULES.get(frame.f_code.co_filename)
        return self._ran if name is not None and name.startswith(self._within) else None

    def _ran(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event != "line" or self._left <= 0:
            return self._ran
        self._left -= 1
        if self._left == 0:
            code = frame.f_code
            self.died_at = f"{MODULES[code.co_filename]}:{frame.f_lineno} in {code.co_name}"
            self.strike(self.died_at)
        return self._ran
