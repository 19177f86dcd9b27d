"""`gpu-autoscaler questions` and `gpu-autoscaler answer`: what people are asked before a change, and answering it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from receiver.adapters.clock import SystemClock
from receiver.cli.client import as_json, print_json, print_lines, refuse, server, who_asks
from receiver.config import ConfigError, operator_token
from receiver.core.model.approval_request import Answer
from receiver.core.model.text import span
from receiver.ports import Clock
from receiver.reports.screen import moment


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also those that were answered or are over.")
@as_json
@click.pass_obj
def questions(clock: Clock | None, everything: bool, as_json: bool) -> None:
    """List what people are asked and nobody has answered.

    The server is asked that GPU_AUTOSCALER_URL names (http://127.0.0.1:8080 unless it is set). The exit status is 0,
    or 3 if the server cannot be reached.
    """
    with server(as_json=as_json) as api:
        found = [q for q in api.get_list("questions") if everything or q.get("state") == "open"]
    if as_json:
        print_json(found)
    else:
        print_lines(about_questions(found, (clock or SystemClock()).now()))


@click.command()
@click.argument("number", metavar="ID")
@click.argument("word", metavar="ANSWER", type=click.Choice([answer.value for answer in Answer]))
@click.option("--who", default=who_asks, help="Who answers.", show_default="your login name")
@click.option("--why", default="", help="The reason, in one sentence; everybody will read it.")
@as_json
def answer(number: str, word: str, who: str, why: str, as_json: bool) -> None:
    """Answer the question ID with approve, snooze-1h, snooze-4h, snooze-tomorrow or pin.

    The token in GPU_AUTOSCALER_OPERATOR_TOKEN is sent. The exit status is 0 if the answer counts, 1 if there is no such
    question, 2 if it was answered otherwise or is over, for a wrong command line or token, and 3 if the server cannot
    be reached.
    """
    try:
        token = operator_token(os.environ)
    except ConfigError as error:
        refuse(error)
    body: dict[str, Any] = {"answer": word, "who": who, **({"why": why} if why else {})}
    with server(as_json=as_json) as api:
        document = api.post("questions", number, body=body, token=token).document
    if as_json:
        print_json(document)
    else:
        print_lines(about_answer(document))


def about_questions(questions: Sequence[Mapping[str, Any]], now: datetime) -> Iterator[str]:
    """Lines on *questions*, from GET /api/v1/questions."""
    for question in questions:
        yield f"{_line(question)}{_left(question, now)}"
    if not questions:
        yield "nobody is asked anything"


def about_answer(question: Mapping[str, Any]) -> Iterator[str]:
    """Lines on one that was answered, from POST /api/v1/questions/ID."""
    yield _line(question)
    if question.get("answer") == "approve":
        yield "the next step acts on it; see `gpu-autoscaler explain pool`"
    else:
        yield "it set an override; see `gpu-autoscaler override list`"


def _line(question: Mapping[str, Any]) -> str:
    return f"{question.get('id')}: GPU pool {question.get('pool_name')}: {question.get('said')}"


def _left(question: Mapping[str, Any], now: datetime) -> str:
    """How long an answer still counts."""
    if question.get("state") != "open":
        return ""
    ends = moment(question.get("expires_at"))
    left = (ends - now).total_seconds() if ends is not None else 0
    return f" (an answer counts for {span(left)})" if left > 0 else ""
