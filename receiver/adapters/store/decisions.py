"""Decisions, and what they were made from, so that another version can make them again.

Facts and policy are two rows, each under the digest of what it says: a policy is there once however often it decided,
and the decisions of a step share their facts. Both are compressed JSON of the values, field by field, as pydantic reads
and writes dataclasses: a field that this version does not know is passed over, one that was not there yet has its
default. What deployments keep secret is in neither: tokens are settings, not policy.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, bindparam, func, or_, select
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import rows
from receiver.adapters.store.database import AT_ONCE, StorePart, insert_in
from receiver.adapters.store.prepared import Query, Write
from receiver.adapters.store.schema import decisions, grounds
from receiver.adapters.store.totals import count
from receiver.core.model.actions import Decision, Verdict
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.core.report.budget_lines import RULES, Spoke
from receiver.ports import Grounds, GroundsKept, StoredDecision, WontWork

LEAVES = (Verdict.HOLDS.value, Verdict.LIMITS.value)
LAST = Query(
    select(decisions.c.id, decisions.c.present, decisions.c.target, decisions.c.verdicts)
    .where(decisions.c.pool == bindparam("of_pool"))
    .order_by(decisions.c.id.desc())
    .limit(1)
)
INSERT = Write(
    lambda _: plain_insert(decisions).returning(decisions.c.id), [c.name for c in decisions.columns if c.name != "id"]
)
NEWEST = Query(select(func.max(decisions.c.id)))
INSERT_GROUNDS = Write(lambda dialect: insert_in(dialect, grounds).on_conflict_do_nothing(), grounds.columns.keys())
FORMAT = 1  # raised when what an older version kept can no longer be read as it is
LEVEL = 6  # of zlib: a third smaller than 1 for twice its time, and 9 takes three times that for a tenth

Said = tuple[int, int, list[list[str]]]  # present and target size, verdicts as stored


class SqlDecisions(StorePart):
    """Decisions. What each pool's last one says is kept, so that a step that decides the same again asks nothing."""

    _written: tuple[Grounds, Mapping[str, bytes]] | None = None  # of the last step that decided anew
    _newest: int | None = None  # the last decision's number, when `memory` was read
    _said: Mapping[str, tuple[int, Said]] = {}  # each pool's last decision, while that is known

    def decided(self, decision: Decision, made_from: Grounds | None = None) -> int:
        said, known = _said(decision), self._said.get(decision.pool)
        if known is not None and known[1] == said:
            return known[0]
        with self._database.read() as connection:
            number = _in_force(connection, decision)
        if number is None:
            with self._database.write() as connection:
                number = _insert(connection, decision, self._written_once(made_from))
            if self._newest is not None and number == self._newest + 1:
                self._newest = number
        if self._newest is not None:
            self._said = {**self._said, decision.pool: (number, said)}
        return number

    def _written_once(self, made_from: Grounds | None) -> Mapping[str, bytes] | None:
        """What *made_from* is kept as; the decisions of a step share it."""
        if made_from is None:
            return None
        if self._written is None or self._written[0] is not made_from:
            self._written = (made_from, grounds_values(made_from))
        return self._written[1]

    def _forget_what_others_follow(self, connection: Connection) -> None:
        """Forget each pool's last decision before the first step, and when another process has stored one."""
        newest = int(NEWEST.scalar(connection) or 0)
        if newest != self._newest:
            self._newest, self._said = newest, {}

    def decisions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredDecision]:
        query = select(decisions).order_by(decisions.c.id.desc()).limit(limit)
        if pool is not None:
            query = query.where(decisions.c.pool == pool)
        with self._database.read() as connection:
            return tuple(rows.decision(row) for row in connection.execute(query).mappings())

    def decision(self, number: int) -> StoredDecision | None:
        with self._database.read() as connection:
            row = connection.execute(select(decisions).where(decisions.c.id == number)).mappings().first()
        return None if row is None else rows.decision(row)

    def grounds(self, number: int) -> GroundsKept | None:
        with self._database.read() as connection:
            return _kept_grounds(connection, number)

    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]:
        of_pool = decisions.c.pool == stored.decision.pool
        before = select(func.max(decisions.c.id)).where(of_pool, decisions.c.id < stored.id)
        after = select(func.min(decisions.c.id)).where(of_pool, decisions.c.id > stored.id)
        with self._database.read() as connection:
            return connection.execute(before).scalar(), connection.execute(after).scalar()

    def spoken(self, since: datetime, until: datetime) -> Sequence[Spoke]:
        last = select(func.max(decisions.c.id)).where(decisions.c.at < since).group_by(decisions.c.pool)
        query = (
            select(decisions.c.pool, decisions.c.at, decisions.c.verdicts, decisions.c.id)
            .where(or_(decisions.c.at.between(since, until), decisions.c.id.in_(last)))
            .order_by(decisions.c.at, decisions.c.id)
        )
        with self._database.read() as connection:
            found = connection.execute(query).all()
            held = [row.id for row in found if any(rule in RULES and said in LEAVES for rule, said, *_ in row.verdicts)]
            details = _details(connection, held)
        return tuple(Spoke(pool=row.pool, at=row.at, detail=details.get(row.id, "")) for row in found)


def _said(decision: Decision) -> Said:
    """What of *decision* is compared with the pool's last one."""
    return decision.present, decision.target, rows.verdicts(decision)


def _in_force(connection: Connection, decision: Decision) -> int | None:
    """Return the number of the pool's last decision if *decision* says nothing else, or None."""
    before = LAST.first(connection, of_pool=decision.pool)
    if before is None or (before["present"], before["target"], before["verdicts"]) != _said(decision):
        return None
    return int(before["id"])


def _insert(connection: Connection, decision: Decision, made_from: Mapping[str, bytes] | None) -> int:
    """Insert *decision*, with what it was *made_from*, if it says something else than the pool's last one; return the
    number of the one in force."""
    before = _in_force(connection, decision)
    if before is not None:
        return before
    count(connection, "decisions", decision.pool, decision.change.value)
    grounds_of = _keep_grounds(connection, made_from) if made_from is not None else {"facts": None, "policy": None}
    return INSERT.numbered(connection, [{**rows.decision_values(decision), **grounds_of}])[0]


def _details(connection: Connection, numbers: Sequence[int]) -> dict[int, str]:
    """What held growth back for money's sake in the decisions *numbers*."""
    found: dict[int, str] = {}
    for start in range(0, len(numbers), AT_ONCE):
        chosen = decisions.c.id.in_(numbers[start : start + AT_ONCE])
        for row in connection.execute(select(decisions).where(chosen)).mappings():
            said = [r for r in rows.decision(row).decision.reasons if r.rule in RULES and r.verdict.value in LEAVES]
            found[row["id"]] = "; ".join(f"{r.rule}: {r.detail}" for r in said)
    return found


def newest_numbers(connection: Connection) -> list[int]:
    """Return the number of each pool's last decision, which the next one is compared with."""
    return list(connection.execute(select(func.max(decisions.c.id)).group_by(decisions.c.pool)).scalars())


@cache
def _facts() -> TypeAdapter[Facts]:
    return TypeAdapter(Facts)  # built once, and not before it is needed: that takes a tenth of a second


@cache
def _policy() -> TypeAdapter[Policy]:
    return TypeAdapter(Policy)


def grounds_values(made_from: Grounds) -> Mapping[str, bytes]:
    """Return *made_from* as it is kept, by the column of a decision that names it."""
    return {
        "facts": zlib.compress(_facts().dump_json(made_from.facts), LEVEL),
        "policy": zlib.compress(_policy().dump_json(made_from.policy), LEVEL),
    }


def _keep_grounds(connection: Connection, bodies: Mapping[str, bytes]) -> dict[str, str]:
    """Keep *bodies* unless they are there; return the columns of a decision that name them."""
    digests = {name: sha256(body).hexdigest() for name, body in bodies.items()}
    bodies_of = [{"digest": digests[name], "format": FORMAT, "body": body} for name, body in bodies.items()]
    INSERT_GROUNDS.run(connection, bodies_of)
    return digests


def _kept_grounds(connection: Connection, number: int) -> GroundsKept | None:
    """Return what decision *number* was made from as it is kept, or None."""
    row = connection.execute(select(decisions.c.facts, decisions.c.policy).where(decisions.c.id == number)).first()
    if row is None:
        return None
    found = {
        kept.digest: kept
        for kept in connection.execute(select(grounds).where(grounds.c.digest.in_([row.facts, row.policy])))
    }
    if row.facts not in found or row.policy not in found:
        return None
    facts, policy = found[row.facts], found[row.policy]
    return GroundsKept(
        format=max(facts.format, policy.format), facts=decompressed(facts.body), policy=decompressed(policy.body)
    )


def read_grounds(found: GroundsKept) -> Grounds:
    """Return the values again. Raises WontWork for what another version kept in a way that this one cannot read."""
    if found.format > FORMAT:
        raise WontWork(
            f"what it was made from was kept by a later version (format {found.format}, this one reads {FORMAT}): "
            "ask with that version",
            code="grounds",
        )
    try:
        return Grounds(
            facts=_facts().validate_json(json.dumps(found.facts)),
            policy=_policy().validate_json(json.dumps(found.policy)),
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise WontWork(
            f"what it was made from cannot be read by this version: {where}: {first['msg']}", code="grounds"
        ) from error


def decompressed(body: bytes) -> dict[str, Any]:
    """Return what *body* holds as JSON-able values."""
    document: dict[str, Any] = json.loads(zlib.decompress(body))
    return document
