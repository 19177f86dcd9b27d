"""The store: its place, access, schema and clock."""

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
    "mount the volume there, or correct GPU_AUTOSCALER_DATABASE_URL; check that the database server is reachable",
)
SCHEMA = Check(
    "store.schema",
    "whether this version supports the schema",
    ("warn", "fail", "skip"),
    "start the server of this version: it migrates the database",
)
WRITABLE = Check(
    "store.writable",
    "whether the file and its folder are writable, or the PostgreSQL server accepts writes; nothing is written",
    ("fail",),
    "make the volume writable for the server's user (fsGroup), or use the URL of the primary",
)
SPACE = Check(
    "store.space",
    "whether the file system of the SQLite file has 1 GiB free",
    ("warn", "fail", "skip"),
    "enlarge the volume: with no space left nothing is decided and webhooks get status 503",
)
FILE_SYSTEM = Check(
    "store.file_system",
    "whether the SQLite file is on a local and permanent file system: locks do not work over a network, and a "
    "container's own files are lost with it",
    ("warn", "skip"),
    "use a block volume (Civo's default StorageClass), or PostgreSQL",
)
STORE_CLOCK = clock_check("store", "the PostgreSQL server's")
CHECKS = (OPENS, SCHEMA, WRITABLE, SPACE, FILE_SYSTEM, STORE_CLOCK)
GIB = 2**30
WARN_BELOW, FAIL_BELOW = GIB, GIB // 10


def look(installation: Installation) -> Iterator[Finding]:
    """Check the SQLite file or the PostgreSQL server."""
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
    yield STORE_CLOCK.skipped("the store is a local file")
    yield from located(where)
    if not where.exists:
        return
    try:
        schema = survey.sqlite_schema(where.file)
    except TryLater as error:
        yield OPENS.failed(str(error), "restore a backup (docs/operations.md, Restore)")
        return
    yield OPENS.passed(f"{where.file} can be read")
    yield judged(schema)


def located(where: DatabasePlace) -> Iterator[Finding]:
    """Judge the place of a SQLite file."""
    if not where.folder:
        said = f"the folder {where.file.parent} does not exist"
        yield OPENS.failed(said, "mount the volume there, or run the doctor where the server runs (in its pod)")
        return
    if not where.exists:
        yield OPENS.skipped(f"{where.file} does not exist yet; the server creates it on its first start")
        yield SCHEMA.skipped("there is no database yet")
    if where.writable:
        yield WRITABLE.passed(f"{where.file.parent} is writable")
    else:
        yield WRITABLE.failed(f"{where.file} or its folder is not writable for this user")
    free = f"{where.free / GIB:.1f} GiB free at {where.file.parent}"
    if where.free < FAIL_BELOW:
        yield SPACE.failed(free)
    else:
        yield SPACE.warned(free) if where.free < WARN_BELOW else SPACE.passed(free)
    if where.remote:
        yield FILE_SYSTEM.warned(f"{where.file.parent} is on {where.kind}")
    elif where.passing:
        said = f"{where.file.parent} is on {where.kind}: it is lost with the container, or when the machine restarts"
        yield FILE_SYSTEM.warned(
            said, "mount a volume there (the PersistentVolumeClaim of k8s/base), or use PostgreSQL"
        )
    elif not where.kind:
        yield FILE_SYSTEM.skipped("the file system is unknown here")
    else:
        yield FILE_SYSTEM.passed(f"{where.file.parent} is on {where.kind}")


def _postgres(server: Postgres) -> Iterator[Finding]:
    yield OPENS.passed(f"PostgreSQL {server.version} answers")
    if server.takes_writes:
        yield WRITABLE.passed("the server accepts writes")
    else:
        yield WRITABLE.failed("the server is a standby or read-only")
    yield from (check.skipped("the store is PostgreSQL") for check in (SPACE, FILE_SYSTEM))
    yield judge_clock(STORE_CLOCK, server.told)


def judged(schema: Schema) -> Finding:
    """Judge the revision of a database."""
    if schema.revision is None:
        return SCHEMA.skipped("the database has no tables yet; the server creates them on its first start")
    if schema.revision >= schema.newest and schema.missing:
        said = f"revision {schema.revision}, and the database lacks {few(schema.missing)}: the server does not start"
        return SCHEMA.failed(said, "restore an intact backup (docs/operations.md, Restore)")
    if schema.revision == schema.newest:
        return SCHEMA.passed(f"revision {schema.revision}, the newest")
    if schema.revision < schema.newest:
        said = f"revision {schema.revision}; this version needs {schema.newest}"
        return SCHEMA.warned(said)
    if schema.oldest is not None and schema.oldest <= schema.newest:
        said = f"revision {schema.revision} of a newer version, which is compatible with this one"
        return SCHEMA.warned(said, "finish the upgrade: run the newer version everywhere")
    said = f"revision {schema.revision} of a newer version; the newest known here is {schema.newest}"
    return SCHEMA.failed(
        said, "run the newer version, or restore a backup from before the upgrade (docs/operations.md, Restore)"
    )


AREA = Area(
    name="store",
    source="the store",
    checks=CHECKS,
    look=look,
    remedy="check that the database answers, and run the doctor again",
)
