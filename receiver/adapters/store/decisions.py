"""Decisions and their inputs, so that another version can reproduce them: facts and policy, each keyed by its digest.

Unknown fields are ignored, missing ones get their defaults. Neither holds secrets: tokens are not policy."""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, Connection, RowMapping, Text, and_, bindparam, cast, func, or_, select
from sqlalchemy import insert as plain_insert

from receiver.adapters.store.database import StorePart, fields_of, insert, value_of
from receiver.adapters.store.figures import count
from receiver.adapters.store.schema import decisions, grounds
from receiver.core.model.actions import Change, Decision, Verdict
from receiver.core.model.model import Facts, Source, Stage
from receiver.core.model.policy import Policy
from receiver.core.report.report import RULES, Spoke
from receiver.ports import DecisionFilter, DecisionKind, Grounds, GroundsKept, StoredDecision, WontWork
from receiver.ports.earlier_facts import EarlierFacts
from receiver.ports.store import EVERY_DECISION

LEAVES = (Verdict.HOLDS, Verdict.LIMITS)
LAST = (
    select(decisions.c.id, decisions.c.present, decisions.c.target, decisions.c.verdicts)
    .where(decisions.c.pool == bindparam("of_pool"))
    .order_by(decisions.c.id.desc())
    .limit(1)
)
NEWEST = select(func.max(decisions.c.id))
FORMAT = 5  # of the inputs of decisions; incremented when a name in them changes (see `EarlierFacts`)
LEVEL = 6  # of zlib: a third smaller than 1 at twice its time; 9 takes three times as long for another tenth

Said = tuple[int, int, list[list[str]]]  # present and target size, verdicts as stored


class SqlDecisions(StorePart):
    """Decisions. Each pool's last one is cached, so that a step that decides the same again does not query."""

    _written: tuple[Grounds | None, Mapping[str, bytes]] = None, {}  # of the last step that decided anew
    _newest: int | None = None  # the last decision's number, when `memory` was read
    _said: Mapping[str, tuple[int, Said]] = {}  # each pool's last decision, while it is known

    def decided(self, decision: Decision, made_from: Grounds | None = None) -> int:
        content, last = _said(decision), self._said.get(decision.pool)
        if last is not None and last[1] == content:
            return last[0]
        with self._database.read() as connection:
            number = _in_force(connection, decision)
        if number is None:
            if self._written[0] is not made_from:
                self._written = made_from, grounds_values(made_from) if made_from is not None else {}
            with self._database.write() as connection:
                number = _insert(connection, decision, self._written[1])
            if self._newest is not None and number == self._newest + 1:
                self._newest = number
        if self._newest is not None:
            self._said = {**self._said, decision.pool: (number, content)}
        return number

    def _forget_what_others_follow(self, connection: Connection) -> None:
        """Drop the cache before the first step, and when another process has stored a decision."""
        newest = int(connection.execute(NEWEST).scalar() or 0)
        if newest != self._newest:
            self._newest, self._said = newest, {}

    def decisions(self, only: DecisionFilter = EVERY_DECISION, *, limit: int = 50) -> Sequence[StoredDecision]:
        query = select(decisions).where(*_conditions(only)).order_by(decisions.c.id.desc()).limit(limit)
        return tuple(_stored(row) for row in self._rows(query))

    def decision(self, number: int) -> StoredDecision | None:
        return next((_stored(row) for row in self._rows(select(decisions).where(decisions.c.id == number))), None)

    def grounds(self, number: int) -> GroundsKept | None:
        query = (
            select(grounds, (grounds.c.digest == decisions.c.facts).label("is_facts"))
            .join(decisions, grounds.c.digest.in_([decisions.c.facts, decisions.c.policy]))
            .where(decisions.c.id == number)
        )
        rows = {row["is_facts"]: row for row in self._rows(query)}
        if len(rows) < 2:
            return None
        return GroundsKept(
            format=max(row["format"] for row in rows.values()),
            facts=decompressed(rows[True]["body"]),
            policy=decompressed(rows[False]["body"]),
        )

    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]:
        of_pool = decisions.c.pool == stored.decision.pool
        before = select(func.max(decisions.c.id)).where(of_pool, decisions.c.id < stored.id)
        after = select(func.min(decisions.c.id)).where(of_pool, decisions.c.id > stored.id)
        with self._database.read() as connection:
            return connection.execute(before).scalar(), connection.execute(after).scalar()

    def spoken(self, since: datetime, until: datetime) -> Sequence[Spoke]:
        last = select(func.max(decisions.c.id)).where(decisions.c.at < since).group_by(decisions.c.pool)
        which = or_(decisions.c.at.between(since, until), decisions.c.id.in_(last))
        query = select(decisions.c.pool, decisions.c.at, decisions.c.id).where(which)
        held = select(decisions.c.id, decisions.c.reasons, decisions.c.evidence).where(which, _held_by_a_budget())
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(decisions.c.at, decisions.c.id)).all()
            details: dict[int, str] = {}  # how budgets held growth back
            budgets: dict[int, frozenset[str]] = {}
            for row in connection.execute(held):
                reasons = [r for r in row.reasons if r.rule in RULES and r.verdict in LEAVES]
                details[row.id] = "; ".join(f"{r.rule}: {r.detail}" for r in reasons)
                budgets[row.id] = frozenset(budget["title"] for budget in row.evidence.get("uncovered", ()))
        return tuple(
            Spoke(
                pool=row.pool,
                at=row.at,
                detail=details.get(row.id, ""),
                budgets=budgets.get(row.id, frozenset()),
            )
            for row in rows
        )


def _conditions(only: DecisionFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of *only*. The verdicts are text, ``[["demand","wants"],...]``: it is searched, and
    no comment of a person can look like a part of it, as quotes within texts are escaped."""
    of, verdicts = decisions.c, cast(decisions.c.verdicts, Text)
    held, not_whole = f',"{Verdict.HOLDS}"', '["gangs_whole",'
    holds = or_(verdicts.contains(held, autoescape=True), verdicts.contains(not_whole, autoescape=True), _unseen())
    if only.pool is not None:
        yield of.pool == only.pool
    if only.rule is not None:
        yield verdicts.contains(f'["{only.rule}",', autoescape=True)
        yield ~verdicts.contains(f'["{only.rule}","{Verdict.ALLOWS}"]', autoescape=True)
    if only.kind is DecisionKind.NEWS:
        yield or_(of.change != Change.HOLD.value, holds)
    elif only.kind is not None:
        stays = only.kind in (DecisionKind.BLOCKED, DecisionKind.STEADY)
        yield of.change == (Change.HOLD if stays else only.kind).value
        if stays:
            yield holds if only.kind is DecisionKind.BLOCKED else ~holds
    if only.since is not None:
        yield of.at >= only.since
    if only.until is not None:
        yield of.at < only.until
    if only.before is not None:
        yield of.id < only.before


def _held_by_a_budget() -> ColumnElement[bool]:
    """The condition of what `spoken` looks for, in the text of the verdicts."""
    verdicts = cast(decisions.c.verdicts, Text)
    return or_(*(verdicts.contains(f'["{rule}","{verdict}"', autoescape=True) for rule in RULES for verdict in LEAVES))


def _unseen() -> ColumnElement[bool]:
    """The condition of `receiver.reports.state.unseen`, in the text of the evidence."""
    evidence = cast(decisions.c.evidence, Text)
    civo, kubernetes, prometheus = (
        evidence.contains(f'"{source}":{{"up":false', autoescape=True)
        for source in (Source.CIVO, Source.KUBERNETES, Source.PROMETHEUS)
    )
    unknown = evidence.contains(f'"stage":"{Stage.UNKNOWN}"', autoescape=True)
    return or_(civo, and_(kubernetes, prometheus), unknown)


def _said(decision: Decision) -> Said:
    """The part of *decision* that is compared with the pool's last one."""
    return decision.present, decision.target, [list(pair) for pair in decision.verdicts]


def _in_force(connection: Connection, decision: Decision) -> int | None:
    """Return the number of the pool's last decision if *decision* equals it, or None."""
    before = connection.execute(LAST, {"of_pool": decision.pool}).first()
    if before is None or (before.present, before.target, before.verdicts) != _said(decision):
        return None
    return int(before.id)


def _insert(connection: Connection, decision: Decision, bodies: Mapping[str, bytes]) -> int:
    """Insert *decision* with the *bodies* of its inputs, unless it equals the pool's last one; return the number of the
    one in force."""
    before = _in_force(connection, decision)
    if before is not None:
        return before
    count(connection, "decisions", decision.pool, decision.change.value)
    digests = {name: sha256(body).hexdigest() for name, body in bodies.items()}
    if bodies:
        rows = [{"digest": digests[name], "format": FORMAT, "body": body} for name, body in bodies.items()]
        connection.execute(insert(connection, grounds).on_conflict_do_nothing(), rows)
    values = {**fields_of(decision), **digests, "change": decision.change.value, "verdicts": _said(decision)[2]}
    return int(connection.execute(plain_insert(decisions).returning(decisions.c.id), values).scalar_one())


def _stored(row: RowMapping) -> StoredDecision:
    return StoredDecision(id=row["id"], decision=value_of(Decision, row))


@cache  # takes 0.1 s to build: once, when first needed
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def grounds_values(made_from: Grounds) -> Mapping[str, bytes]:
    """Return the stored form of *made_from*, by the column of a decision that refers to it."""
    return {
        "facts": zlib.compress(_adapter(Facts).dump_json(made_from.facts), LEVEL),
        "policy": zlib.compress(_adapter(Policy).dump_json(made_from.policy), LEVEL),
    }


def read_grounds(record: GroundsKept) -> Grounds:
    """Return the inputs. Raises WontWork if another version stored them in a form that this one cannot read."""
    if record.format > FORMAT:
        raise WontWork(
            f"a later version stored the inputs of this decision (format {record.format}; this one reads {FORMAT}): "
            "use that version",
            code="grounds",
        )
    facts = record.facts if record.format == FORMAT else EarlierFacts(record.facts).in_todays_names()
    try:
        return Grounds(
            facts=_adapter(Facts).validate_json(json.dumps(facts)),
            policy=_adapter(Policy).validate_json(json.dumps(record.policy)),
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise WontWork(
            f"this version cannot read the inputs of this decision: {where}: {first['msg']}", code="grounds"
        ) from error


def decompressed(body: bytes) -> dict[str, Any]:
    """Return the JSON document in *body*."""
    document: dict[str, Any] = json.loads(zlib.decompress(body))
    return document
