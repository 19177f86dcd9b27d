"""GET /api/v1/openapi.json: every route that programs use, as an OpenAPI 3.1 document (https://spec.openapis.org/oas/v3.1.1).

Written by hand and held to what is served by tests: every route is in it, and every answer is what it says.
"""

from typing import Any

from flask import Blueprint, Response, jsonify

from receiver.config.model import ReadAccess
from receiver.web.openapi import asked, decided, machines, money, overview, pools, report
from receiver.web.openapi.paths import paths
from receiver.web.parts import WebParts

SCHEMAS = {
    **pools.SCHEMAS,
    **asked.SCHEMAS,
    **decided.SCHEMAS,
    **money.SCHEMAS,
    **report.SCHEMAS,
    **machines.SCHEMAS,
    **overview.SCHEMAS,
}
_BEARER = {"type": "http", "scheme": "bearer"}


def add_openapi(routes: Blueprint, parts: WebParts) -> None:
    """Add the route to *routes*."""

    @routes.get("/openapi.json")
    def openapi() -> Response:
        return jsonify(document(parts.version, closed=parts.reading is ReadAccess.TOKEN))


def document(version: str, *, closed: bool = False) -> dict[str, Any]:
    """Return the document of the server's *version*; *closed* when reading takes a token."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GPU autoscaler",
            "version": version or "0",
            "summary": "Why GPU node pools grow and shrink, what that costs, and a person's word before policy.",
            "description": "Times are RFC 3339 in UTC, money is USD as text, ratios are 0 to 1, null is what nobody"
            " knows. docs/http-api.md explains each field. Newer servers may answer more fields.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths(closed=closed),
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "webhook": {**_BEARER, "description": "GPU_AUTOSCALER_WEBHOOK_TOKEN"},
                "operator": {**_BEARER, "description": "GPU_AUTOSCALER_OPERATOR_TOKEN"},
                "reader": {**_BEARER, "description": "GPU_AUTOSCALER_READER_TOKEN, where web.reading is token"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "gpu_autoscaler_session",
                    "description": "what /login gives a browser; it reads and does not write",
                },
            },
        },
    }
