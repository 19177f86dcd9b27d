"""What a bug in one part of a step came to. The part is set aside, so that the other pools and workloads are served.

The core hides no exception: with a `Failures` to note them in they become values, and without one they are raised.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception of one *part* of a step. *pool* (an id) and *workload* (its owner) are whose it was, None where it
    was nobody's alone."""

    part: str
    error: Exception
    pool: str | None = None
    workload: str | None = None

    def __str__(self) -> str:
        """One line: the kind of error and its message."""
        return f"{type(self.error).__name__}: {self.error}"


@dataclass(slots=True)
class Failures:
    """The failures of one step. *set_aside* are the pools that the step serves no further, with the first error."""

    all: list[Failure] = field(default_factory=list)
    set_aside: dict[str, Failure] = field(default_factory=dict)

    def note(self, failure: Failure) -> None:
        """Keep *failure*; the rest goes on as before."""
        self.all.append(failure)

    def sets_aside(self, pool: str, failure: Failure) -> None:
        """Keep *failure*, and serve *pool* no further in this step."""
        self.note(failure)
        self.set_aside.setdefault(pool, failure)
