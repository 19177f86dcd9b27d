"""Requests of this capability as `tests/web/test_openapi.py` sends them."""

from typing import Any

GROUNDS = "/api/v1/decisions/{number}/grounds"
WELL: dict[tuple[str, str], tuple[str, Any]] = {("get", GROUNDS): ("/api/v1/decisions/42/grounds", None)}
BADLY: dict[tuple[str, str, int], tuple[str, Any]] = {
    ("get", GROUNDS, 400): ("/api/v1/decisions/x/grounds", None),
    ("get", GROUNDS, 404): ("/api/v1/decisions/7/grounds", None),
}
WITHOUT_STORE: frozenset[str] = frozenset()
