"""Requests of this capability as `tests/web/test_openapi.py` sends them."""

from typing import Any

WELL: dict[tuple[str, str], tuple[str, Any]] = {}
BADLY: dict[tuple[str, str, int], tuple[str, Any]] = {}
WITHOUT_STORE: frozenset[str] = frozenset()
