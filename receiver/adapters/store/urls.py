"""What GPU_AUTOSCALER_DATABASE_URL may say, and where its lock files are."""

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from receiver.ports import WontWork

VARIABLE = "GPU_AUTOSCALER_DATABASE_URL"
EXAMPLES = "sqlite:////var/lib/gpu-autoscaler/store.db or postgresql://user:password@host:5432/database"


def parse(url: str) -> URL:
    """Return *url* with the driver we use. WontWork, without the password, for one that cannot be used."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise WontWork(f"{VARIABLE} is no database URL; write {EXAMPLES}", code="store") from error
    backend = parsed.drivername.partition("+")[0]
    if backend in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise WontWork(f"{VARIABLE} names {backend!r}, which is not supported; write {EXAMPLES}", code="store")
    if parsed.database in (None, "", ":memory:") or (parsed.database or "").startswith("file:") or parsed.host:
        raise WontWork(
            f"{VARIABLE} must name a file on disk, or nothing would survive a restart; write {EXAMPLES}"
            " (four slashes before an absolute path)",
            code="store",
        )
    return parsed.set(drivername="sqlite")


def is_sqlite(url: URL) -> bool:
    """True for SQLite, in a file or in memory."""
    return url.get_backend_name() == "sqlite"


def is_in_memory(url: URL) -> bool:
    """True for a SQLite database without a file; only `open_in_memory` makes one."""
    return is_sqlite(url) and not url.database


def database_file(url: URL) -> Path:
    """The absolute path of a SQLite database, symbolic links followed: two names of one file share its locks."""
    assert is_sqlite(url)
    assert url.database is not None
    return Path(url.database).resolve()


def beside(url: URL, suffix: str) -> Path:
    """The path of a lock file beside a SQLite database: ``<db file><suffix>``."""
    file = database_file(url)
    return file.with_name(file.name + suffix)
