"""Wait for what other processes do: ask again until it is so, never for longer than a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 25.0  # seconds; a machine that does other work as well takes its time


def until(ask: Callable[[], T], what: str, patience: float = PATIENCE, every: float = 0.05) -> T:
    """Return the first true answer of *ask*; fail with *what* was waited for when *patience* seconds are over.

    A refused or cut connection is a "not yet".
    """
    give_up_at = time.monotonic() + patience
    last: object = None
    while True:
        try:
            answer = ask()
        except OSError as error:
            last = error
        else:
            if answer:
                return answer
            last = answer
        if time.monotonic() > give_up_at:
            raise AssertionError(f"waited {patience:.0f} s in vain for: {what} (last: {last!r})")
        time.sleep(every)
