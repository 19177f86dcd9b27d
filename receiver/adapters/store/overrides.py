"""What operators set at run time: overrides, answers to approval requests, and budget allowances; and the key of their
sessions and links.

Ended ones are kept for a while as a record; the last allowance of each scope and month is in force."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Executable, RowMapping, Update, and_, bindparam, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import outbox
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, fields_of, insert, value_of
from receiver.adapters.store.schema import budget_changes, overrides, questions, seals
from receiver.core.model.overrides import Override, Question
from receiver.core.model.policy import BudgetChange
from receiver.core.notices.notice import Notice
from receiver.ports import StoredOverride

BY_AGE = select(overrides).order_by(overrides.c.at, overrides.c.id)
RAN_OUT = overrides.c.ended_at.is_not(None), overrides.c.ended_by.is_(None)
# Those that have not ended (the step decides by time which are in force), and those that expired before their time: a
# step ran under a clock that was ahead.
NOT_OVER = BY_AGE.where(
    or_(overrides.c.ended_at.is_(None), and_(*RAN_OUT, overrides.c.until > bindparam("now", type_=Moment)))
)
CHANGES = select(budget_changes).order_by(budget_changes.c.id)
STANDING = (
    select(questions)
    .where(questions.c.expires_at > bindparam("now", type_=Moment))
    .order_by(questions.c.asked_at, questions.c.id)
)


def changes_in_force(connection: Connection) -> tuple[BudgetChange, ...]:
    """Return the last change of a budget for each scope, name and month."""
    changes = (value_of(BudgetChange, row) for row in connection.execute(CHANGES).mappings())
    return tuple({(change.scope, change.name, change.month): change for change in changes}.values())


THE_ONE = 1  # the row of the key
SEALING_KEY = select(seals.c.key).where(seals.c.id == THE_ONE)


class SqlOverrides(StorePart):
    """Overrides, questions with their answers, and changes of budgets."""

    _sealing_key = ""  # as read: it never changes

    def sealing_key(self) -> str:
        if not self._sealing_key:
            with self._database.read() as connection:
                key = connection.execute(SEALING_KEY).scalar()
            self._sealing_key = str(key or self._new_sealing_key())
        return self._sealing_key

    def _new_sealing_key(self) -> str:
        """Keep a new key, unless another process has kept one meanwhile; return the one that is kept."""
        with self._database.write() as connection:
            new = insert(connection, seals).values(id=THE_ONE, key=secrets.token_hex(32))
            connection.execute(new.on_conflict_do_nothing())
            return str(connection.execute(SEALING_KEY).scalar_one())

    def set_override(self, override: Override, notice: Notice) -> None:
        with self._database.write() as connection:
            connection.execute(plain_insert(overrides), fields_of(override))
            outbox.say(connection, notice, override.at)

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        going_on = overrides.c.id == override, overrides.c.ended_at.is_(None)
        return self._change(update(overrides).where(*going_on).values(ended_at=at, ended_by=by), notice, at)

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        ended = overrides.c.id == override, *RAN_OUT
        return self._change(update(overrides).where(*ended).values(ended_at=None), notice, at)

    def _change(self, statement: Update, notice: Notice, at: datetime, override: Override | None = None) -> bool:
        """Change one row, store what follows from that, and return True; False if there is no such row."""
        with self._database.write() as connection:
            if connection.execute(statement).rowcount != 1:
                return False
            if override is not None:
                connection.execute(plain_insert(overrides), fields_of(override))
            outbox.say(connection, notice, at)
        return True

    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]:
        order = overrides.c.ended_at.is_not(None), overrides.c.at.desc(), overrides.c.id
        return tuple(_stored(row) for row in self._rows(select(overrides).order_by(*order).limit(limit)))

    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]:
        lasted = overrides.c.until > since, or_(overrides.c.ended_at.is_(None), overrides.c.ended_at > since)
        return tuple(_stored(row) for row in self._rows(BY_AGE.where(overrides.c.at < until, *lasted)))

    def override(self, override: str) -> StoredOverride | None:
        return next((_stored(row) for row in self._rows(BY_AGE.where(overrides.c.id == override))), None)

    def change_budget(self, change: BudgetChange, notice: Notice) -> None:
        with self._database.write() as connection:
            connection.execute(plain_insert(budget_changes), fields_of(change))
            outbox.say(connection, notice, change.at)

    def allowances_set(self, month: str) -> Sequence[BudgetChange]:
        with self._database.read() as connection:
            return tuple(change for change in changes_in_force(connection) if change.month == month)

    def ask(self, question: Question, notice: Notice) -> bool:
        # A question of the same pool that was answered while the step that asks was under way changes its mind.
        same = questions.c.id == question.id
        answered = (questions.c.pool == question.pool) & (questions.c.answered_at > question.asked_at)
        with self._database.write() as connection:
            if connection.execute(select(questions.c.id).where(same | answered).limit(1)).first() is not None:
                return False
            connection.execute(plain_insert(questions), fields_of(question))
            outbox.say(connection, notice, question.asked_at)
        return True

    def answer_question(self, question: Question, notice: Notice, override: Override | None = None) -> bool:
        at = question.answered_at
        assert at is not None
        unanswered = questions.c.answer.is_(None), questions.c.done_at.is_(None), questions.c.expires_at > at
        statement = update(questions).where(questions.c.id == question.id, *unanswered)
        values = {name: getattr(question, name) for name in ("answer", "who", "why", "answered_at")}
        return self._change(statement.values(values), notice, at, override)

    def question_done(self, question: str, at: datetime) -> None:
        with self._database.write() as connection:
            open_one = questions.c.id == question, questions.c.done_at.is_(None)
            connection.execute(update(questions).where(*open_one).values(done_at=at))

    def questions_standing(self, now: datetime) -> Sequence[Question]:
        return self._questions(STANDING, {"now": now})

    def questions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[Question]:
        query = select(questions).order_by(questions.c.asked_at.desc(), questions.c.id).limit(limit)
        return self._questions(query if pool is None else query.where(questions.c.pool == pool))

    def question(self, question: str) -> Question | None:
        return next(iter(self._questions(select(questions).where(questions.c.id == question))), None)

    def _questions(self, query: Executable, values: dict[str, Any] | None = None) -> Sequence[Question]:
        return tuple(value_of(Question, row) for row in self._rows(query, values))


def _stored(row: RowMapping) -> StoredOverride:
    return StoredOverride(override=value_of(Override, row), ended_at=row["ended_at"], ended_by=row["ended_by"])
