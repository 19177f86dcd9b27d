"""What the API says of approval requests, and what it takes as an answer."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Self

from receiver.capabilities.approvals.sentences import sentence
from receiver.core.model.overrides import Answer, Question
from receiver.core.model.policy import Unanswered
from receiver.reports.document import Instant, Usd, says, word
from receiver.reports.picture import QuestionInShort
from receiver.web.api.documents import LONGEST_TEXT, Asked

if TYPE_CHECKING:  # it loads Flask, which the command line does not need
    from receiver.web.parts import WebParts


class QuestionDocument(QuestionInShort):
    """A request for approval."""

    wait_ends: Annotated[Instant | None, says("until when an answer is waited for")] = None
    expires_at: Annotated[Instant | None, says("until when an answer counts")] = None
    pool: str = ""
    pool_name: str = ""
    usd_per_hour: Annotated[Usd | None, says("what the nodes that are asked about cost")] = None
    asked_at: Instant | None = None
    due_at: Annotated[Instant | None, says("when the change would come at the earliest")] = None
    unanswered: Annotated[str, word(Unanswered), says("what happens when the wait ends")] = ""
    answer: Annotated[str, word(Answer)] | None = None
    who: Annotated[str, says("empty before the answer")] = ""
    why: Annotated[str, says("empty where none was given")] = ""
    answered_at: Instant | None = None

    @classmethod
    def of_question(cls, question: Question, parts: "WebParts", now: datetime) -> Self:
        name, state = parts.pool_name(question.pool), question.standing(now)
        return cls.of(question, pool_name=name, state=state, said=sentence(question, now))


class AnswerAsked(Asked):
    """An answer to a question."""

    sometimes = ("why",)
    answer: Annotated[str, word(Answer)]
    who: Annotated[str, says("the person", json_schema_extra={"minLength": 1, "maxLength": LONGEST_TEXT})]
    why: Annotated[str | None, says("the reason", json_schema_extra={"maxLength": LONGEST_TEXT})]
