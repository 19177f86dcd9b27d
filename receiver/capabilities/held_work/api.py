"""GET /api/v1/held-work: what planners ask before they ask for more."""

from flask import Blueprint, Response, g, jsonify, request

from receiver.capabilities.held_work.refusals import HeldWorkDocument, held_work, of_namespace
from receiver.reports.picture import kept_picture
from receiver.web.operation import OF_A_STEP, TEXT, Request
from receiver.web.parts import WebParts

_NAMESPACE = ("namespace", {**TEXT, "description": "all namespaces by default"})
REQUESTS = (
    Request("held-work", "heldWork", "Waiting work that gets no node now: why, until when, at what price",
            HeldWorkDocument, query=(_NAMESPACE,), headers=OF_A_STEP),
)  # fmt: skip


def add_routes(routes: Blueprint, parts: WebParts) -> None:
    """Add the route to *routes*."""

    @routes.get("/held-work")
    def held() -> Response:
        picture, g.step_at = kept_picture(parts.store)
        document = held_work(picture, g.step_at)
        lines = of_namespace(document.held, request.args.get("namespace"))
        return jsonify(document.model_copy(update={"held": lines}))
