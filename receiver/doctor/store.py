"""The store: its place, access and schema."""

from collections.abc import Iterator

from receiver.adapters.store.database import is_sqlite, parse
from receiver.adapters.survey import store as survey
from receiver.adapters.survey.store import DatabasePlace, Schema
from receiver.doctor.checks import Area, Check, Finding, Installation, few, skipped
from receiver.ports import TryLater, WontWork

OPENS = Check(
    "store.opens",
    "whether the database of `GPU_AUTOSCALER_DATABASE_URL` can be opened and read, beside a running server",
    "mount the volume there, or correct GPU_AUTOSCALER_DATABASE_URL; check that the database server is reachable",
)
SCHEMA = Check(
    "store.schema",
    "whether this version supports the schema",
    "start the server of this version: it migrates the database",
)
WRITABLE = Check(
    "store.writable",
    "whether the file and its folder are writable, or the PostgreSQL server accepts writes; nothing is written",
    "make the volume writable for the server's user (fsGroup), or use the URL of the primary",
)
SPACE = Check(
    "store.space",
    "whether the file system of the SQLite file has 1 GiB free",
    "enlarge the volume: with no space left nothing is decided and webhooks get status 503",
)
FILE_SYSTEM = Check(
    "store.file_system",
    "whether the SQLite file is on a local and permanent file system: locks do not work over a network, and a "
    "container's own files are lost with it",
    "use a block volume (Civo's default StorageClass, the PersistentVolumeClaim of k8s/base), or PostgreSQL",
)
GIB = 2**30
WARN_BELOW, FAIL_BELOW = GIB, GIB // 10


def look(installation: Installation) -> Iterator[Finding]:
    """Check the SQLite file or the PostgreSQL server."""
    try:
        url = parse(installation.settings.environment.database_url.get_secret_value())
        if is_sqlite(url):
            yield from _sqlite(survey.place(url))
            return
        server = survey.postgres(url)
    except (TryLater, WontWork) as error:
        yield OPENS.failed(str(error))
        return
    yield OPENS.passed(f"PostgreSQL {server.version} answers")
    yield WRITABLE.failed_if(
        not server.takes_writes, "the server is a standby or read-only", "the server accepts writes"
    )
    yield from skipped((SPACE, FILE_SYSTEM), "the store is PostgreSQL")
    yield judged(server.schema)


def _sqlite(where: DatabasePlace) -> Iterator[Finding]:
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
    folder = where.file.parent
    if not where.folder:
        remedy = "mount the volume there, or run the doctor where the server runs (in its pod)"
        yield OPENS.failed(f"the folder {folder} does not exist", remedy)
        return
    if not where.exists:
        yield OPENS.skipped(f"{where.file} does not exist yet; the server creates it on its first start")
        yield SCHEMA.skipped("there is no database yet")
    closed = f"{where.file} or its folder is not writable for this user"
    yield WRITABLE.failed_if(not where.writable, closed, f"{folder} is writable")
    judge = SPACE.failed if where.free < FAIL_BELOW else SPACE.warned if where.free < WARN_BELOW else SPACE.passed
    yield judge(f"{where.free / GIB:.1f} GiB free at {folder}")
    if not where.kind:
        yield FILE_SYSTEM.skipped("the file system is unknown here")
        return
    said, passing = f"{folder} is on {where.kind}", where.kind in survey.PASSING
    lost = ": it is lost with the container, or when the machine restarts" if passing else ""
    yield FILE_SYSTEM.warned_if(passing or where.kind in survey.NETWORK, f"{said}{lost}", said)


def judged(schema: Schema) -> Finding:
    """Judge the revision of a database."""
    if schema.revision is None:
        return SCHEMA.skipped("the database has no tables yet; the server creates them on its first start")
    said = f"revision {schema.revision}"
    if schema.revision >= schema.newest and schema.missing:
        said += f", and the database lacks {few(schema.missing)}: the server does not start"
        return SCHEMA.failed(said, "restore an intact backup (docs/operations.md, Restore)")
    if schema.revision == schema.newest:
        return SCHEMA.passed(f"{said}, the newest")
    if schema.revision < schema.newest:
        return SCHEMA.warned(f"{said}; this version needs {schema.newest}")
    if schema.oldest is not None and schema.oldest <= schema.newest:
        said += " of a newer version, which is compatible with this one"
        return SCHEMA.warned(said, "finish the upgrade: run the newer version everywhere")
    remedy = "run the newer version, or restore a backup from before the upgrade (docs/operations.md, Restore)"
    return SCHEMA.failed(f"{said} of a newer version; the newest known here is {schema.newest}", remedy)


AREA = Area(
    name="store",
    source="the store",
    checks=(OPENS, SCHEMA, WRITABLE, SPACE, FILE_SYSTEM),
    look=look,
    remedy="check that the database answers, and run the doctor again",
)
