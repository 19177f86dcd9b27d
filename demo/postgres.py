"""A PostgreSQL server of our own on loopback, where its programs are installed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from demo.processes import free_port

# The variable with the URL of a server that tests use instead of one of their own. Empty: they do without.
SERVER = "POSTGRESQL_OF_TESTS"


def postgres_programs() -> Path | None:
    """The newest folder with PostgreSQL's server programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class PostgresProcess:
    """A server on loopback with its data in a folder of its own, which may be stopped and started again.

    The user that it runs as must be able to enter *folder*.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        """Make an empty cluster in *folder*; nothing listens yet."""
        self.port = free_port()
        user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, "postgres", "postgres")
            user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        self._quiet: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/", **user}
        self._control: list[str | Path] = [programs / "pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log"]
        named = ("-U", "receiver", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        initdb: list[str | Path] = [programs / "initdb", "-D", folder / "data", *named]
        subprocess.run(initdb, **self._quiet)
        self.runs = False

    @property
    def url(self) -> str:
        """The URL of its own database."""
        return f"postgresql://receiver@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        settings = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories= -c fsync=off"
        subprocess.run([*self._control, "-o", settings, "start"], **self._quiet)
        self.runs = True

    def stop(self) -> None:
        """End it as a power cut would: every connection is gone, what was committed is not."""
        if self.runs:
            subprocess.run([*self._control, "-m", "immediate", "stop"], **self._quiet)
        self.runs = False


@contextmanager
def postgres_process(programs: Path) -> Iterator[PostgresProcess]:
    """Yield a server that was not started; it ends in any case."""
    with TemporaryDirectory(prefix="postgres-") as name:
        server = PostgresProcess(programs, Path(name))
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def postgres_server(programs: Path) -> Iterator[str]:
    """Run a server on loopback; yield the URL of its own database."""
    with postgres_process(programs) as server:
        server.start()
        yield server.url
