"""Wait for what other processes do: ask again until it is so, never for longer than a deadline."""

from collections.abc import Callable

from demo.processes import wait_until

PATIENCE = 60.0  # seconds; a machine that does other work as well takes its time


def until(ask: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Return when *ask* is true; a connection that is refused or cut means "not yet".

    Raises TimeoutError naming *what* was waited for after *patience* seconds.
    """

    def asked() -> bool:
        try:
            return bool(ask())
        except OSError:
            return False

    wait_until(asked, patience, what)
