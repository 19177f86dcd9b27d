"""GET /api/v1/decisions/{number}/grounds: what a decision was made from, to make it again."""

from typing import Annotated, Any

from flask import Blueprint, Response, jsonify

from receiver.reports.document import Count, Published, says
from receiver.web.api.routes import decision_asked
from receiver.web.errors import Problem
from receiver.web.operation import Request
from receiver.web.parts import WebParts


class GroundsDocument(Published):
    """What a decision was made from: all that the program was told."""

    decision: Count = 0
    format: Annotated[Count, says("of the two parts; a program reads those up to its own")] = 0
    facts: Annotated[dict[str, Any], says("what was known, as the version that made it wrote it")]
    policy: Annotated[dict[str, Any], says("what the operator had said, likewise")]


REQUESTS = (
    Request("decisions/{number}/grounds", "grounds", "What it was made from, to make it again", GroundsDocument,
            (400, 404)),
)  # fmt: skip


def add_routes(routes: Blueprint, parts: WebParts) -> None:
    """Add the route to *routes*."""

    @routes.get("/decisions/<number>/grounds")
    def grounds(number: str) -> Response:
        decision_id = decision_asked(parts, number).id
        stored_grounds = parts.store.grounds(decision_id)
        if stored_grounds is None:
            remedy = "decisions made before this version did not keep it; `gpu-autoscaler status` lists later ones"
            raise Problem(404, "what this decision was made from is not kept", remedy, field="id")
        return jsonify(GroundsDocument.of(stored_grounds, decision=decision_id))
