"""What operators set at run time: overrides, answers to approval requests, and budget allowances.

Ended overrides and answered questions are kept for a while as a record. Every change of an allowance is kept; the last
one of each scope and month is in force.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, bindparam, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import outbox
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, Values, fields_of
from receiver.adapters.store.schema import budget_changes, overrides, questions
from receiver.core.model.approval_request import Answer, Asks, Question
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import BudgetChange, Scope, Unanswered
from receiver.core.notices.notice import Notice
from receiver.ports import StoredOverride

NOT_ENDED = select(overrides).where(overrides.c.ended_at.is_(None)).order_by(overrides.c.at, overrides.c.id)
RAN_OUT = overrides.c.ended_at.is_not(None), overrides.c.ended_by.is_(None)
RAN_OUT_EARLY = (
    select(overrides)
    .where(*RAN_OUT, overrides.c.until > bindparam("now", type_=Moment))
    .order_by(overrides.c.at, overrides.c.id)
)
CHANGES = select(budget_changes).order_by(budget_changes.c.id)


def not_ended(connection: Connection) -> tuple[Override, ...]:
    """Return the overrides that have not ended, oldest first: the step decides by time which are in force."""
    return tuple(_stored(row).override for row in connection.execute(NOT_ENDED).mappings())


def ran_out_early(connection: Connection, now: datetime) -> tuple[Override, ...]:
    """Return the overrides that expired before their time: a step ran under a clock that was ahead."""
    return tuple(_stored(row).override for row in connection.execute(RAN_OUT_EARLY, {"now": now}).mappings())


def insert_override(connection: Connection, override: Override) -> None:
    """Store *override*."""
    connection.execute(plain_insert(overrides), {**fields_of(override), "kind": override.kind.value})


def changes_in_force(connection: Connection) -> tuple[BudgetChange, ...]:
    """Return the last change of a budget for each scope, name and month."""
    last: dict[tuple[str, str, str], BudgetChange] = {}
    for row in connection.execute(CHANGES).mappings():
        given = {name: row[name] for name in BudgetChange.__slots__}
        last[row["scope"], row["name"], row["month"]] = BudgetChange(**{**given, "scope": Scope(row["scope"])})
    return tuple(last.values())


class SqlOverrides(StorePart):
    """Overrides and changes of budgets."""

    def set_override(self, override: Override, notice: Notice) -> None:
        with self._database.write() as connection:
            insert_override(connection, override)
            outbox.say(connection, notice, override.at)

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        going_on = overrides.c.id == override, overrides.c.ended_at.is_(None)
        with self._database.write() as connection:
            found = connection.execute(update(overrides).where(*going_on).values(ended_at=at, ended_by=by))
            if found.rowcount != 1:
                return False
            outbox.say(connection, notice, at)
        return True

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        with self._database.write() as connection:
            found = connection.execute(
                update(overrides).where(overrides.c.id == override, *RAN_OUT).values(ended_at=None)
            )
            if found.rowcount != 1:
                return False
            outbox.say(connection, notice, at)
        return True

    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]:
        order = overrides.c.ended_at.is_not(None), overrides.c.at.desc(), overrides.c.id
        with self._database.read() as connection:
            found = connection.execute(select(overrides).order_by(*order).limit(limit))
            return tuple(_stored(row) for row in found.mappings())

    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]:
        lasted = overrides.c.until > since, or_(overrides.c.ended_at.is_(None), overrides.c.ended_at > since)
        query = select(overrides).where(overrides.c.at < until, *lasted).order_by(overrides.c.at, overrides.c.id)
        with self._database.read() as connection:
            return tuple(_stored(row) for row in connection.execute(query).mappings())

    def override(self, override: str) -> StoredOverride | None:
        with self._database.read() as connection:
            row = connection.execute(select(overrides).where(overrides.c.id == override)).mappings().first()
        return None if row is None else _stored(row)

    def change_budget(self, change: BudgetChange, notice: Notice) -> None:
        values = {**fields_of(change), "scope": change.scope.value}
        with self._database.write() as connection:
            connection.execute(plain_insert(budget_changes), values)
            outbox.say(connection, notice, change.at)

    def allowances_set(self, month: str) -> Sequence[BudgetChange]:
        with self._database.read() as connection:
            return tuple(change for change in changes_in_force(connection) if change.month == month)


def _stored(row: RowMapping) -> StoredOverride:
    given = {name: row[name] for name in Override.__slots__}
    return StoredOverride(
        override=Override(**{**given, "kind": OverrideKind(row["kind"])}),
        ended_at=row["ended_at"],
        ended_by=row["ended_by"],
    )


STANDING = (
    select(questions)
    .where(questions.c.expires_at > bindparam("now", type_=Moment))
    .order_by(questions.c.asked_at, questions.c.id)
)


class SqlQuestions(StorePart):
    """Questions and their answers."""

    def ask(self, question: Question, notice: Notice) -> bool:
        with self._database.write() as connection:
            if _kept(connection, question.id) is not None or _answered_since(connection, question):
                return False
            connection.execute(plain_insert(questions), _values(question))
            outbox.say(connection, notice, question.asked_at)
        return True

    def answer_question(
        self,
        question: str,
        answer: Answer,
        who: str,
        why: str,
        at: datetime,
        notice: Notice,
        override: Override | None = None,
    ) -> bool:
        unanswered = questions.c.answer.is_(None), questions.c.done_at.is_(None), questions.c.expires_at > at
        values = {"answer": answer.value, "who": who, "why": why, "answered_at": at}
        with self._database.write() as connection:
            found = connection.execute(update(questions).where(questions.c.id == question, *unanswered).values(values))
            if found.rowcount != 1:
                return False
            if override is not None:
                insert_override(connection, override)
            outbox.say(connection, notice, at)
        return True

    def question_done(self, question: str, at: datetime) -> None:
        with self._database.write() as connection:
            open_one = questions.c.id == question, questions.c.done_at.is_(None)
            connection.execute(update(questions).where(*open_one).values(done_at=at))

    def questions_standing(self, now: datetime) -> Sequence[Question]:
        with self._database.read() as connection:
            return tuple(_question(row) for row in connection.execute(STANDING, {"now": now}).mappings())

    def questions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[Question]:
        query = select(questions).order_by(questions.c.asked_at.desc(), questions.c.id).limit(limit)
        if pool is not None:
            query = query.where(questions.c.pool == pool)
        with self._database.read() as connection:
            return tuple(_question(row) for row in connection.execute(query).mappings())

    def question(self, question: str) -> Question | None:
        with self._database.read() as connection:
            return _kept(connection, question)


def _answered_since(connection: Connection, question: Question) -> bool:
    """True when a question of the same pool was answered while the step that now asks was under way."""
    of_pool = select(questions.c.id).where(questions.c.pool == question.pool)
    return connection.execute(of_pool.where(questions.c.answered_at > question.asked_at).limit(1)).first() is not None


def _kept(connection: Connection, question: str) -> Question | None:
    row = connection.execute(select(questions).where(questions.c.id == question)).mappings().first()
    return None if row is None else _question(row)


def _values(question: Question) -> Values:
    return {
        **fields_of(question),
        "asks": question.asks.value,
        "unanswered": question.unanswered.value,
        "instances": list(question.instances),
        "nodes": list(question.nodes),
        "answer": question.answer.value if question.answer else None,
    }


def _question(row: RowMapping) -> Question:
    given = {name: row[name] for name in Question.__slots__}
    return Question(
        **{
            **given,
            "asks": Asks(row["asks"]),
            "unanswered": Unanswered(row["unanswered"]),
            "instances": tuple(row["instances"]),
            "nodes": tuple(row["nodes"]),
            "answer": Answer(row["answer"]) if row["answer"] else None,
        }
    )
