"""gunicorn with our application, forked from a process that has imported both.

A fresh interpreter imports the application for two seconds of CPU time, which most tests need not prove once more.
"""

import atexit
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

CONFIG = "python:receiver.server.gunicorn_conf"
_IMPORTED = ("receiver.server.bootstrap", "receiver.server.gunicorn_worker", "gunicorn.app.wsgiapp")
_IMPORTED_LATE = (
    "psycopg",
    "alembic.command",
    "sqlalchemy.dialects.postgresql.psycopg",
    "apprise",
    "tests.web.builders",
    "tests.adapters.store.builders",
)
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, *_IMPORTED, *_IMPORTED_LATE])


class Forked:
    """One gunicorn in a session of its own: what `subprocess.Popen` would tell of it."""

    def __init__(self, environ: Mapping[str, str], output: Path, config: str = CONFIG) -> None:
        leads, tell = FORKS.Pipe(duplex=False)
        self._process: BaseProcess = FORKS.Process(
            target=_serve, args=(dict(environ), str(output), config, tell), daemon=True
        )
        self._process.start()
        tell.close()
        leads.recv()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the same."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raises TimeoutExpired after *timeout* seconds."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("gunicorn", timeout or 0.0)
        return status

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()


def _serve(environ: dict[str, str], output: str, config: str, leads: Connection) -> None:
    """Become gunicorn with *environ*, and end as an interpreter does."""
    os.setsid()
    leads.send(True)
    leads.close()
    with Path(output).open("ab") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # standard output is no mere TextIO
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["gunicorn", "--config", config]
    from gunicorn.app.wsgiapp import run

    try:
        run()
    finally:
        atexit._run_exitfuncs()
