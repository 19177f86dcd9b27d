"""What every in-memory port can do besides its work: fail when told to, and count what it wrote."""

from collections.abc import Callable


class Switches:
    """Faults for tests. *writes* lists every call that reached the world, as (verb, args), refused ones too."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, tuple[object, ...]]] = []
        self.down: Exception | None = None
        self._failures: list[tuple[Exception, str | None]] = []
        self._after: list[tuple[Exception, str]] = []

    def fail_next(self, error: Exception, verb: str | None = None) -> None:
        """Let the next call (of *verb*, if given) raise *error* before it does anything."""
        self._failures.append((error, verb))

    def fail_after(self, error: Exception, verb: str) -> None:
        """Let the next write *verb* take effect and then raise *error*, as a lost answer does."""
        self._after.append((error, verb))

    def fail_always(self, error: Exception | None) -> None:
        """Let every call raise *error* until this is called with None."""
        self.down = error

    def called(self, verb: str) -> None:
        """A port's method begins: raise what was asked for."""
        if self.down is not None:
            raise self.down
        for index, (error, only) in enumerate(self._failures):
            if only in (None, verb):
                del self._failures[index]
                raise error

    def write(self, verb: str, args: tuple[object, ...], do: Callable[[], object]) -> None:
        """Count a write, do it, and lose its answer if that was asked for."""
        self.writes.append((verb, args))
        do()
        for index, (error, only) in enumerate(self._after):
            if only == verb:
                del self._after[index]
                raise error
