"""Connections to PostgreSQL that do not wait without end for an answer.

The server's own time limits end what takes too long there. They do not help where nobody answers and the connection
stays: a server that is frozen or waits for its disk, a pooler that hangs. The kernels at both ends say that all is
well then, and libpq waits for ever: one delivery that waits so keeps all others out, also after the database is back.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Engine, event

LIMIT = "answers_within"  # the attribute of such a connection, in seconds


def limit_answers(engine: Engine, seconds: float) -> None:
    """Let each statement on connections of *engine*, to PostgreSQL, fail and end its connection after *seconds*."""

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: object, _record: object, arguments: Any, named: Any) -> Any:
        return _patient(seconds).connect(*arguments, **named)


@contextmanager
def more_patient(connection: Connection, seconds: float) -> Iterator[None]:
    """Wait *seconds* for each answer on *connection*, where answers are limited: what comes now may take longer."""
    driver: Any = connection.connection.driver_connection
    before = getattr(driver, LIMIT, None)
    if before is not None:
        setattr(driver, LIMIT, seconds)
    try:
        yield
    finally:
        if before is not None:
            setattr(driver, LIMIT, before)


@cache
def _patient(seconds: float) -> Any:
    """The driver's class of connections with this limit; the driver is an extra that need not be installed."""
    import psycopg

    class Patient(psycopg.Connection[Any]):
        """One that gives up."""

        answers_within = seconds

        def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
            """Do what the driver does, not longer than *answers_within* seconds. Raises OperationalError."""
            return super().wait(_limited(gen, self.answers_within, self._give_up), *given, **named)

        def _give_up(self) -> Exception:
            self.pgconn.finish()
            return psycopg.OperationalError(f"no answer within {self.answers_within:g} s")

    return Patient


def _limited(
    steps: Generator[Any, Any, Any], seconds: float, give_up: Callable[[], Exception]
) -> Generator[Any, Any, Any]:
    """Go through *steps*, which the driver resumes when something has come, and ten times a second in any case."""
    until = monotonic() + seconds
    try:
        wants = next(steps)
        while True:
            ready = yield wants
            if not ready and monotonic() > until:
                steps.close()
                raise give_up()
            wants = steps.send(ready)
    except StopIteration as end:
        return end.value
