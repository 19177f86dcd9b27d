"""Questions to people: each is asked once and answered once, and kept for a while so that it can be looked up."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import outbox
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart
from receiver.adapters.store.overrides import insert_override
from receiver.adapters.store.prepared import Query, Row
from receiver.adapters.store.schema import questions
from receiver.core.model.approval_request import Answer, Asks, Question
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Unanswered
from receiver.core.notices.sentences import Notice

STANDING = Query(
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
            connection.execute(plain_insert(questions).values(_values(question)))
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
            return tuple(_question(row) for row in STANDING.rows(connection, now=now))

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
    """True when somebody answered about the same pool while the step that now asks was already under way."""
    of_pool = select(questions.c.id).where(questions.c.pool == question.pool)
    return connection.execute(of_pool.where(questions.c.answered_at > question.asked_at).limit(1)).first() is not None


def _kept(connection: Connection, question: str) -> Question | None:
    row = connection.execute(select(questions).where(questions.c.id == question)).mappings().first()
    return None if row is None else _question(row)


def _values(question: Question) -> dict[str, Any]:
    values = {name: getattr(question, name) for name in Question.__slots__}
    return {
        **values,
        "asks": question.asks.value,
        "unanswered": question.unanswered.value,
        "instances": list(question.instances),
        "nodes": list(question.nodes),
        "answer": question.answer.value if question.answer else None,
    }


def _question(row: Row) -> Question:
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
