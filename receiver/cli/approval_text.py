"""What `gpu-autoscaler questions` and `answer` print: documents of /api/v1/questions as lines."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from receiver.core.model.text import span


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
    try:
        left = (datetime.fromisoformat(str(question.get("expires_at"))) - now).total_seconds()
    except (ValueError, TypeError):
        return ""
    return f" (an answer counts for {span(left)})" if left > 0 else ""
