"""Schemas of questions that people are asked before a change, and of their answers."""

from receiver.core.model.approval_request import Answer, Asks, Standing
from receiver.core.model.policy import Unanswered
from receiver.web.api.overrides import LONGEST_TEXT
from receiver.web.openapi.shapes import (
    Schema,
    count,
    exact,
    fields,
    listed,
    maybe,
    moment,
    one_of,
    text,
    yes_or_no,
)

_ASKED = {
    "id": text("what it is answered by"),
    "asks": one_of(Asks),
    "from": count("nodes before"),
    "to": count("nodes after"),
    "nodes": listed(text(), "those that would go; empty for growth"),
    "state": one_of(Standing),
    "said": text("how it stands, in a sentence"),
    "wait_ends": moment("until when an answer is waited for"),
    "expires_at": moment("until when an answer counts"),
}
QUESTION = fields(
    "What people are or were asked.",
    {
        **_ASKED,
        "pool": text(),
        "pool_name": text(),
        "usd_per_hour": maybe(exact("what the nodes that are asked about cost")),
        "asked_at": moment(),
        "due_at": moment("when the change would come at the earliest"),
        "unanswered": one_of(Unanswered, "what happens when the wait ends"),
        "answer": maybe(one_of(Answer)),
        "who": text("empty before the answer"),
        "why": text("empty where none was given"),
        "answered_at": maybe(moment()),
    },
)
POOLS_QUESTION = fields(
    "A question about a pool that stands.",
    {**_ASKED, "wanted": yes_or_no("whether the change is still wanted")},
)
ANSWER_ASKED: Schema = {
    **fields(
        "An answer to a question.",
        {"answer": one_of(Answer), "who": text("the person", minLength=1, maxLength=LONGEST_TEXT)},
        {"why": maybe(text("the reason", maxLength=LONGEST_TEXT))},
    ),
    "additionalProperties": False,
}
SCHEMAS: dict[str, Schema] = {"Question": QUESTION, "PoolsQuestion": POOLS_QUESTION, "AnswerAsked": ANSWER_ASKED}
