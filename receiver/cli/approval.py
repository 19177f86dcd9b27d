"""`gpu-autoscaler questions` and `gpu-autoscaler answer`: what people are asked before a change, and answering it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.client import acting_token, as_json, server, show, who_asks
from receiver.core.model.approval_request import Answer, Standing
from receiver.core.model.text import span
from receiver.ports import Clock
from receiver.web.api.documents import QuestionDocument


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also those that were answered or are over.")
@as_json
@click.pass_obj
def questions(clock: Clock | None, everything: bool, as_json: bool) -> None:
    """List the approval requests that have no answer yet.

    GPU_AUTOSCALER_URL names the server (default http://127.0.0.1:8080). The exit status is 0,
    or 3 if the server cannot be reached.
    """
    with server(as_json=as_json) as api:
        found = [q for q in api.get_list("questions") if everything or q.get("state") == "open"]
    asked = [QuestionDocument.model_validate(question) for question in found]
    show(as_json, found, about_questions(asked, (clock or SystemClock()).now()))


@click.command()
@click.argument("number", metavar="ID")
@click.argument("word", metavar="ANSWER", type=click.Choice([answer.value for answer in Answer]))
@click.option("--who", default=who_asks, help="Who answers.", show_default="your login name")
@click.option("--why", default="", help="The reason, in one sentence; it is shown to everyone.")
@as_json
def answer(number: str, word: str, who: str, why: str, as_json: bool) -> None:
    """Answer the question ID with approve, snooze-1h, snooze-4h, snooze-tomorrow or pin.

    The token in GPU_AUTOSCALER_OPERATOR_TOKEN is sent. The exit status is 0 if the answer counts, 1 if there is no such
    question, 2 if it was answered otherwise or is over, for a wrong command line or token, and 3 if the server cannot
    be reached.
    """
    token = acting_token()
    body: dict[str, Any] = {"answer": word, "who": who, **({"why": why} if why else {})}
    with server(as_json=as_json) as api:
        document = api.post("questions", number, body=body, token=token).document
    show(as_json, document, about_answer(QuestionDocument.model_validate(document)))


def about_questions(questions: Sequence[QuestionDocument], now: datetime) -> Iterator[str]:
    """Lines on *questions*."""
    for question in questions:
        yield f"{_line(question)}{_left(question, now)}"
    if not questions:
        yield "no approval is requested"


def about_answer(question: QuestionDocument) -> Iterator[str]:
    """Lines on one that was answered."""
    yield _line(question)
    if question.answer == Answer.APPROVE:
        yield "the next step acts on it; see `gpu-autoscaler explain pool`"
    else:
        yield "it set an override; see `gpu-autoscaler override list`"


def _line(question: QuestionDocument) -> str:
    return f"{question.id}: GPU pool {question.pool_name}: {question.said}"


def _left(question: QuestionDocument, now: datetime) -> str:
    """How long an answer still counts."""
    ends = question.expires_at
    left = (ends - now).total_seconds() if ends is not None and question.state == Standing.OPEN else 0
    return f" (an answer counts for {span(left)})" if left > 0 else ""
