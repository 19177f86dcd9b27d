"""GET and POST /what-if: what another configuration would decide now. The form changes nothing."""

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, make_response, render_template, request
from werkzeug.wrappers import Response

from receiver.capabilities.what_if.api import LARGEST_CONFIGURATION, WhatIf
from receiver.config.values import ConfigError
from receiver.web.api.request_parts import read_form
from receiver.web.parts import WebParts

EXAMPLE = "budget.monthly_usd: 6000\npools.{name}.max_nodes: {most}\n"


def add_page(routes: Blueprint, parts: WebParts) -> None:
    """Add the page to *routes*."""
    evaluator = WhatIf(parts)

    def page(form: Mapping[str, str], status: int = 200, **extra_context: object) -> Response:
        pool = next(iter(parts.policy.pools), None)
        example = EXAMPLE.format(name=pool.name, most=pool.max_nodes + 2) if pool else ""
        context: dict[str, Any] = {"found": None, "mistakes": (), **extra_context}
        html = render_template(
            "what_if.html", now=parts.clock.now(), mode=parts.mode, form=form, example=example, **context
        )
        return make_response(html, status)

    @routes.get("/what-if")
    def what_if() -> Response:
        return page({})

    @routes.post("/what-if")
    def answer() -> Response:
        """Compare, and show the form again with what was sent."""
        form = read_form(request, 3 * LARGEST_CONFIGURATION)  # a browser writes a line break as six characters
        try:
            return page(form, found=evaluator.of_text(form.get("text", ""), changes=form.get("as") != "file"))
        except ConfigError as error:
            return page(form, 400, mistakes=error.mistakes)
