"""Where the questions are kept that people are asked before a change."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from receiver.core.model.approval_request import Answer, Question
from receiver.core.model.overrides import Override
from receiver.core.notices.sentences import Notice


class QuestionStore(Protocol):
    """Questions and their answers. Every write is one transaction; every call may raise TryLater (store down)."""

    def ask(self, question: Question, notice: Notice) -> bool:
        """Keep *question* durably and put *notice* into the outbox; False, and nothing is written, when one of its id
        is kept already, or another one of its pool was answered after it was to be asked: the step that asks has not
        seen what that answer set, and the next one will."""

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
        """Keep *answer* to the question of that id with the *override* that it sets, and put *notice* into the outbox;
        False, and nothing is written, unless it stands at *at* and nobody answered it."""

    def question_done(self, question: str, at: datetime) -> None:
        """Note that nothing is left of what the question of that id asks."""

    def questions_standing(self, now: datetime) -> Sequence[Question]:
        """Return those that are not over at *now*, answered or not, the oldest first."""

    def questions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[Question]:
        """Return questions, the newest first."""

    def question(self, question: str) -> Question | None:
        """Return the question of that id."""
