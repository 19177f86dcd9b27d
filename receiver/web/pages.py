"""The pages: everything is rendered here from the store, and nothing is decided."""

from flask import Blueprint

from receiver.web.decision_page import add_decisions
from receiver.web.overview import add_overview
from receiver.web.parts import WebParts
from receiver.web.pool_page import add_pool_page
from receiver.web.reports import add_costs
from receiver.web.sources_page import add_sources_page


def blueprint(parts: WebParts) -> Blueprint:
    """Return /, /pools/{pool}, /decisions/{id}, /costs and /sources."""
    routes = Blueprint("pages", __name__)
    add_overview(routes, parts)
    add_pool_page(routes, parts)
    add_decisions(routes, parts)
    add_sources_page(routes, parts)
    add_costs(routes, parts)
    return routes
