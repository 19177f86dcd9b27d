"""The store: its place, access and schema."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from receiver.adapters import survey
from receiver.adapters.store.database import database_file, is_sqlite, parse
from receiver.adapters.survey import Schema
from receiver.doctor.checks import Area, Check, Finding, Installation, few, skipped
from receiver.ports import TryLater, WontWork

OPENS = Check(
    "store.opens",
    "whether the database of `GPU_AUTOSCALER_DATABASE_URL` can be opened and read, also while the server runs",
    "mount the volume there, or correct GPU_AUTOSCALER_DATABASE_URL; check that the database server is reachable",
)
SCHEMA = Check(
    "store.schema",
    "whether this version supports the schema",
    "start the server of this version: it migrates the database",
)
WRITABLE = Check(
    "store.writable",
    "whether the file and its folder are writable, or the PostgreSQL server accepts writes; the check writes nothing",
    "make the volume writable for the server's user (fsGroup), or use the URL of the primary",
)
SPACE = Check(
    "store.space",
    "whether the file system of the SQLite file has 1 GiB free",
    "enlarge the volume: with no space left, no decisions are made and webhooks get status 503",
)
FILE_SYSTEM = Check(
    "store.file_system",
    "whether the SQLite file is on a local and permanent file system: locks do not work over a network, and a "
    "container's own files are lost with it",
    "use a block volume (Civo's default StorageClass, the PersistentVolumeClaim of the chart), or PostgreSQL",
)
GIB = 2**30
WARN_BELOW, FAIL_BELOW = GIB, GIB // 10
PASSING = frozenset({"overlay", "tmpfs", "ramfs"})  # a container's own layer, or memory: lost on restart
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"})
MOUNTS = Path("/proc/self/mounts")


def look(installation: Installation) -> Iterator[Finding]:
    """Check the SQLite file or the PostgreSQL server."""
    try:
        url = parse(installation.settings.environment.database_url.get_secret_value())
        if is_sqlite(url):
            yield from _sqlite(database_file(url))
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


def _sqlite(file: Path) -> Iterator[Finding]:
    folder = file.parent
    if not folder.is_dir():
        remedy = "mount the volume there, or run the doctor where the server runs (in its pod)"
        yield OPENS.failed(f"the folder {folder} does not exist", remedy)
        return
    written = [path for path in (file, Path(f"{file}-wal"), folder) if path.exists()]
    closed = f"{file} or its folder is not writable for this user"
    writable = all(os.access(path, os.W_OK) for path in written)
    yield WRITABLE.failed_if(not writable, closed, f"{folder} is writable")
    free = shutil.disk_usage(folder).free
    judge = SPACE.failed if free < FAIL_BELOW else SPACE.warned if free < WARN_BELOW else SPACE.passed
    yield judge(f"{free / GIB:.1f} GiB free at {folder}")
    kind = file_system(folder)
    if kind:
        location = f"{folder} is on {kind}"
        effect = ": it is lost with the container, or when the machine restarts" if kind in PASSING else ""
        yield FILE_SYSTEM.warned_if(kind in PASSING | NETWORK, f"{location}{effect}", location)
    else:
        yield FILE_SYSTEM.skipped("the file system is unknown here")
    if not file.is_file():
        yield OPENS.skipped(f"{file} does not exist yet; the server creates it on its first start")
        yield SCHEMA.skipped("there is no database yet")
        return
    try:
        schema = survey.sqlite_schema(file)
    except TryLater as error:
        yield OPENS.failed(str(error), "restore a backup (docs/operations.md, Restore)")
        return
    yield OPENS.passed(f"{file} can be read")
    yield judged(schema)


def file_system(folder: Path) -> str:
    """Return the kind of file system of *folder*, empty if unknown (not Linux)."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    mounts = [(fields[1].replace("\\040", " "), fields[2]) for line in lines if len(fields := line.split()) > 2]
    over = [(point, kind) for point, kind in mounts if folder == Path(point) or Path(point) in folder.parents]
    return max(over, key=lambda mount: len(mount[0]), default=("", ""))[1]


def judged(schema: Schema) -> Finding:
    """Judge the revision of a database."""
    if schema.revision is None:
        return SCHEMA.skipped("the database has no tables yet; the server creates them on its first start")
    message = f"revision {schema.revision}"
    if schema.revision >= schema.newest and schema.missing:
        message += f", and the database lacks {few(schema.missing)}: the server does not start"
        return SCHEMA.failed(message, "restore an intact backup (docs/operations.md, Restore)")
    if schema.revision == schema.newest:
        return SCHEMA.passed(f"{message}, the newest")
    if schema.revision < schema.newest:
        return SCHEMA.warned(f"{message}; this version needs {schema.newest}")
    if schema.oldest is not None and schema.oldest <= schema.newest:
        message += " of a newer version, which is compatible with this one"
        return SCHEMA.warned(message, "finish the upgrade: run the newer version everywhere")
    remedy = "run the newer version, or restore a backup from before the upgrade (docs/operations.md, Restore)"
    return SCHEMA.failed(f"{message} of a newer version; the newest known here is {schema.newest}", remedy)


AREA = Area(
    name="store",
    source="the store",
    checks=(OPENS, SCHEMA, WRITABLE, SPACE, FILE_SYSTEM),
    look=look,
    remedy="check that the database answers, and run the doctor again",
)
