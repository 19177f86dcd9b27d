"""The pages: everything is rendered here from the store, and nothing is decided."""

from flask import Blueprint

from receiver.web.api.reports import add_costs
from receiver.web.pages.decision_page import add_decisions
from receiver.web.pages.overview import add_overview
from receiver.web.pages.pool_page import add_pool_page
from receiver.web.pages.sources_page import add_sources_page
from receiver.web.parts import WebParts


def blueprint(parts: WebParts) -> Blueprint:
    """Return /, /pools/{pool}, /decisions/{id}, /costs and /sources."""
    routes = Blueprint("pages", __name__)
    add_overview(routes, parts)
    add_pool_page(routes, parts)
    add_decisions(routes, parts)
    add_sources_page(routes, parts)
    add_costs(routes, parts)
    return routes
