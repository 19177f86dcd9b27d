"""Requests of this capability as `tests/web/test_openapi.py` sends them, over a server with a last step."""

from typing import Any

from tests.web.last_step import CONFIGURATION

WELL: dict[tuple[str, str], tuple[str, Any]] = {
    ("post", "/api/v1/what-if"): ("/api/v1/what-if", CONFIGURATION.replace("max_nodes: 4", "max_nodes: 3")),
    ("get", "/api/v1/nodes/{name}/what-if"): ("/api/v1/nodes/n1/what-if", None),
}
BADLY: dict[tuple[str, str, int], tuple[str, Any]] = {
    ("post", "/api/v1/what-if", 400): ("/api/v1/what-if", "pools: []"),
    ("post", "/api/v1/what-if", 413): ("/api/v1/what-if", "#" * 300_000),
    ("get", "/api/v1/nodes/{name}/what-if", 404): ("/api/v1/nodes/n9/what-if", None),
}
WITHOUT_STORE = frozenset({"/api/v1/what-if", "/api/v1/nodes/{name}/what-if"})
