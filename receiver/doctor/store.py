"""The store: where it is, whether it can be used and written, its schema, and the time of its server."""

from collections.abc import Iterator

from receiver.adapters.store.database import is_sqlite, parse
from receiver.adapters.survey import store as survey
from receiver.adapters.survey.store import DatabasePlace, Postgres, Schema
from receiver.doctor.checks import Area, Check, Finding, Installation, clock_check, few, judge_clock
from receiver.ports import TryLater, WontWork

OPENS = Check(
    "store.opens",
    "whether the database of `GPU_AUTOSCALER_DATABASE_URL` can be opened and read, beside a running server",
    ("fail", "skip"),
    "mount the volume there, or correct GPU_AUTOSCALER_DATABASE_URL; see that the database server runs and is reached",
)
SCHEMA = Check(
    "store.schema",
    "whether the schema is the one that this version works with",
    ("warn", "fail", "skip"),
    "start the server of this version: it brings the database up to date by itself",
)
WRITABLE = Check(
    "store.writable",
    "whether the file and its folder may be written to, or the PostgreSQL server takes writes; nothing is written",
    ("fail",),
    "let the user that runs us own the volume (fsGroup), or let the URL name the primary",
)
SPACE = Check(
    "store.space",
    "whether 1 GiB is free where the SQLite file is",
    ("warn", "fail", "skip"),
    "make the volume larger: with no space left nothing is decided and webhooks are answered 503",
)
FILE_SYSTEM = Check(
    "store.file_system",
    "whether the SQLite file is on a local file system that lasts: locks do not work over a network, and what a "
    "container keeps in itself is gone with it",
    ("warn", "skip"),
    "use a block volume (Civo's default StorageClass), or PostgreSQL",
)
STORE_CLOCK = clock_check("store", "the PostgreSQL server's")
CHECKS = (OPENS, SCHEMA, WRITABLE, SPACE, FILE_SYSTEM, STORE_CLOCK)
GIB = 2**30
WARN_BELOW, FAIL_BELOW = GIB, GIB // 10


def look(installation: Installation) -> Iterator[Finding]:
    """Look at the SQLite file, or at the PostgreSQL server."""
    try:
        url = parse(installation.settings.environment.database_url.get_secret_value())
    except WontWork as error:
        yield OPENS.failed(str(error))
        return
    if is_sqlite(url):
        yield from _sqlite(survey.place(url))
        return
    try:
        server, schema = survey.postgres(url, installation.clock)
    except TryLater as error:
        yield OPENS.failed(str(error))
        return
    yield from _postgres(server)
    yield judged(schema)


def _sqlite(where: DatabasePlace) -> Iterator[Finding]:
    yield STORE_CLOCK.skipped("the store is a file here")
    yield from located(where)
    if not where.exists:
        return
    try:
        schema = survey.sqlite_schema(where.file)
    except TryLater as error:
        yield OPENS.failed(str(error), "restore a copy (docs/operations.md, Restore)")
        return
    yield OPENS.passed(f"{where.file} can be read")
    yield judged(schema)


def located(where: DatabasePlace) -> Iterator[Finding]:
    """Judge the place of a SQLite file."""
    if not where.folder:
        said = f"there is no folder {where.file.parent}"
        yield OPENS.failed(said, "mount the volume there, or run the doctor where the server runs (in its pod)")
        return
    if not where.exists:
        yield OPENS.skipped(f"{where.file} is not there yet; the server makes it on its first start")
        yield SCHEMA.skipped("there is no database yet")
    if where.writable:
        yield WRITABLE.passed(f"{where.file.parent} may be written to")
    else:
        yield WRITABLE.failed(f"{where.file} or its folder may not be written to by the user that runs this")
    free = f"{where.free / GIB:.1f} GiB are free at {where.file.parent}"
    if where.free < FAIL_BELOW:
        yield SPACE.failed(free)
    else:
        yield SPACE.warned(free) if where.free < WARN_BELOW else SPACE.passed(free)
    if where.remote:
        yield FILE_SYSTEM.warned(f"{where.file.parent} is on {where.kind}")
    elif where.passing:
        said = (
            f"{where.file.parent} is on {where.kind}: it is gone with the container, or with the machine's next start"
        )
        yield FILE_SYSTEM.warned(
            said, "mount a volume there (the PersistentVolumeClaim of k8s/base), or use PostgreSQL"
        )
    elif not where.kind:
        yield FILE_SYSTEM.skipped("the kind of file system is not told here")
    else:
        yield FILE_SYSTEM.passed(f"{where.file.parent} is on {where.kind}")


def _postgres(server: Postgres) -> Iterator[Finding]:
    yield OPENS.passed(f"PostgreSQL {server.version} answers")
    if server.takes_writes:
        yield WRITABLE.passed("the server takes writes")
    else:
        yield WRITABLE.failed("the server is a standby or read-only")
    yield from (check.skipped("the store is PostgreSQL, which has its own") for check in (SPACE, FILE_SYSTEM))
    yield judge_clock(STORE_CLOCK, server.told)


def judged(schema: Schema) -> Finding:
    """Judge a database's revision."""
    if schema.revision is None:
        return SCHEMA.skipped("the database has no tables yet; the server makes them on its first start")
    if schema.revision >= schema.newest and schema.missing:
        said = f"revision {schema.revision}, and the database lacks {few(schema.missing)}: the server does not start"
        return SCHEMA.failed(said, "restore a copy from when it was whole (docs/operations.md, Restore)")
    if schema.revision == schema.newest:
        return SCHEMA.passed(f"revision {schema.revision}, the newest")
    if schema.revision < schema.newest:
        said = f"revision {schema.revision}; this version works with {schema.newest}"
        return SCHEMA.warned(said)
    if schema.oldest is not None and schema.oldest <= schema.newest:
        said = f"revision {schema.revision} of a newer version, which says that this one can go on with it"
        return SCHEMA.warned(said, "finish the upgrade: run the newer version everywhere")
    said = f"revision {schema.revision} of a newer version; this one knows {schema.newest}"
    return SCHEMA.failed(said, "run the newer version, or restore a copy from before it (docs/operations.md, Restore)")


AREA = Area(
    name="store",
    source="the store",
    checks=CHECKS,
    look=look,
    remedy="see that the database answers, and try again",
)
