"""Requests of this capability as `tests/web/test_openapi.py` sends them."""

from typing import Any

WELL: dict[tuple[str, str], tuple[str, Any]] = {}
BADLY: dict[tuple[str, str, int], tuple[str, Any]] = {
    ("get", "/api/v1/costs", 400): ("/api/v1/costs?month=soon", None),
    ("get", "/api/v1/report", 400): ("/api/v1/report?month=2030-01", None),
    ("get", "/api/v1/report", 404): ("/api/v1/report?team=nobody", None),
}
WITHOUT_STORE: frozenset[str] = frozenset()
