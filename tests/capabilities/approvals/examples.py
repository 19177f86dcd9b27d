"""Requests of this capability as `tests/web/test_openapi.py` sends them."""

from typing import Any

QUESTION = "/api/v1/questions/open"
APPROVE = {"answer": "approve", "who": "ada"}

WELL: dict[tuple[str, str], tuple[str, Any]] = {
    ("get", "/api/v1/questions/{question_id}"): (QUESTION, None),
    ("post", "/api/v1/questions/{question_id}"): (QUESTION, APPROVE),
}
BADLY: dict[tuple[str, str, int], tuple[str, Any]] = {
    ("get", "/api/v1/questions", 400): ("/api/v1/questions?limit=0", None),
    ("get", "/api/v1/questions", 404): ("/api/v1/questions?pool=h100", None),
    ("get", "/api/v1/questions/{question_id}", 404): ("/api/v1/questions/none", None),
    ("post", "/api/v1/questions/{question_id}", 400): (QUESTION, {**APPROVE, "answer": "perhaps"}),
    ("post", "/api/v1/questions/{question_id}", 404): ("/api/v1/questions/none", APPROVE),
    ("post", "/api/v1/questions/{question_id}", 409): ("/api/v1/questions/over", APPROVE),
    ("post", "/api/v1/questions/{question_id}", 413): (QUESTION, {**APPROVE, "why": "x" * 20_000}),
}
WITHOUT_STORE: frozenset[str] = frozenset()
