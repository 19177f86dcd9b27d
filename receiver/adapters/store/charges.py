"""Civo's last answer on what it charged, and what months had cost before this store watched.

What is dated later than now was kept under a wrong clock. It is not read while it is, and its month is told anew.
"""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import put
from receiver.adapters.store.prepared import Query, Row
from receiver.adapters.store.schema import charges, seeds
from receiver.core.model.charges import Charge, Charged, RunsElsewhere
from receiver.core.model.seed import Seed

FIELDS = tuple(f.name for f in fields(Charge))
VALUES = attrgetter(*FIELDS)
ELSEWHERE = tuple(f.name for f in fields(RunsElsewhere))
NOW = bindparam("now", type_=Moment)
NEWEST = Query(select(charges).where(charges.c.asked_at <= NOW).order_by(charges.c.month.desc()).limit(1))
NEWEST_ASKED = Query(
    select(charges.c.month, charges.c.asked_at)
    .where(charges.c.asked_at <= NOW)
    .order_by(charges.c.month.desc())
    .limit(1)
)
SEED = Query(
    select(seeds).where(or_(seeds.c.at <= NOW, seeds.c.stated.is_not(None))).order_by(seeds.c.month.desc()).limit(1)
)


def keep_charged(connection: Connection, charged: Charged) -> None:
    """Keep *charged* in place of an older answer for its month."""
    row = {
        "month": charged.month,
        "asked_at": charged.asked_at,
        "answered_at": charged.answered_at,
        "records": {"fields": list(FIELDS), "rows": [list(VALUES(r)) for r in charged.records]},
        "unreadable": list(charged.unreadable),
        "failure": charged.failure,
        "failing_since": charged.failing_since,
    }
    put(connection, charges, row)


def charged(connection: Connection, held: Charged | None, now: datetime) -> Charged | None:
    """Return the newest month's answer; *held* is not read again while it is that."""
    newest = NEWEST_ASKED.first(connection, now=now)
    if newest is None:
        return None
    if held is not None and (held.month, held.asked_at) == (newest["month"], newest["asked_at"]):
        return held
    return _charged(NEWEST.rows(connection, now=now)[0])


def charged_of(connection: Connection, month: str) -> Charged | None:
    """Return the last answer for *month*."""
    row = connection.execute(select(charges).where(charges.c.month == month)).mappings().first()
    return None if row is None else _charged(row)


def _charged(row: Row) -> Charged:
    return Charged(
        month=row["month"],
        asked_at=row["asked_at"],
        answered_at=row["answered_at"],
        records=tuple(_charge(row["records"]["fields"], values) for values in row["records"]["rows"]),
        unreadable=tuple(row["unreadable"]),
        failure=row["failure"],
        failing_since=row["failing_since"],
    )


def keep_seed(connection: Connection, seed: Seed) -> None:
    """Keep *seed* in place of an older one for its month."""
    row = {"month": seed.month, "at": seed.at, "hours": dict(seed.hours), "usd": seed.usd, "stated": seed.stated}
    elsewhere = [[getattr(node, name) for name in ELSEWHERE] for node in seed.elsewhere]
    put(connection, seeds, {**row, "elsewhere": elsewhere})


def seed(connection: Connection, now: datetime) -> Seed | None:
    """Return the newest month's seed. A stated amount names its month itself: it stands whatever its date."""
    row = SEED.first(connection, now=now)
    return None if row is None else _seed(row)


def seed_of(connection: Connection, month: str) -> Seed | None:
    """Return the seed of *month*."""
    row = connection.execute(select(seeds).where(seeds.c.month == month)).mappings().first()
    return None if row is None else _seed(row)


def _seed(row: Row) -> Seed:
    nodes = (RunsElsewhere(**dict(zip(ELSEWHERE, values, strict=True))) for values in row["elsewhere"])
    return Seed(**{**row, "elsewhere": tuple(nodes)})


def _charge(names: Sequence[str], values: Sequence[Any]) -> Charge:
    return Charge(**dict(zip(names, values, strict=True)))
