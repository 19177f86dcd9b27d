"""The WSGI application: every blueprint, with what holds for all answers."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from flask import Blueprint, Flask, Response, g, request
from flask.json.provider import DefaultJSONProvider
from jinja2 import BaseLoader, ChainableUndefined, ChoiceLoader, FileSystemLoader
from werkzeug.exceptions import BadHost
from werkzeug.routing import RequestRedirect

from receiver.core.model.text import in_zone
from receiver.reports.document import Published
from receiver.web import errors, health, webhook
from receiver.web.api import routes as api
from receiver.web.auth import access
from receiver.web.pages import forms, guides
from receiver.web.pages.budgets import add_budgets_page
from receiver.web.pages.decisions import add_decisions
from receiver.web.pages.overview import add_overview
from receiver.web.pages.pool_page import add_pool_page
from receiver.web.pages.show import FILTERS
from receiver.web.parts import HEADERS, NO_STORE, WebParts


class DocumentProvider(DefaultJSONProvider):
    """Writes documents too; fields keep their documented order."""

    sort_keys = False

    @staticmethod
    def default(o: object) -> object:
        """Return *o* as what JSON knows."""
        return o.document() if isinstance(o, Published) else DefaultJSONProvider.default(o)


def create_app(parts: WebParts) -> Flask:
    """Return the WSGI application over *parts*. It starts no thread and keeps no state but counters."""
    app = Flask("receiver.web")
    # A picture kept by an older version lacks keys: they show as unknown, the page does not fail.
    app.jinja_options = {**app.jinja_options, "undefined": ChainableUndefined}
    app.jinja_loader = _templates(app.jinja_loader, parts)
    app.json = DocumentProvider(app)
    app.jinja_env.filters.update(FILTERS)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals["version"] = parts.version
    app.jinja_env.globals["cluster_name"] = parts.configuration.cluster_name
    app.jinja_env.globals["added_links"] = _links(parts)
    errors.install(app)
    doors = access.Access(parts)
    acting = forms.overrides(doors, parts)
    add_budgets_page(acting, doors, parts)
    sealed = [make(doors, parts) for addition in parts.added for make in addition.sealed.values()]
    for blueprint in (access.blueprint(doors, parts), acting, *sealed):
        app.register_blueprint(blueprint)
    for routes_of in (webhook.blueprint, health.blueprint, api.blueprint, guides.blueprint, _pages):
        app.register_blueprint(routes_of(parts))

    @app.context_processor
    def clocks() -> dict[str, object]:
        return {"zone": parts.policy.timezone, "clocks": ZoneInfo(parts.policy.timezone)}

    @app.before_request
    def start_watch() -> None:
        g.started = time.perf_counter()
        if isinstance(request.routing_exception, BadHost):
            raise request.routing_exception

    access.install(app, doors)

    @app.after_request
    def finish(response: Response) -> Response:
        for name, value in (HEADERS if request.endpoint == "static" else {**HEADERS, **NO_STORE}).items():
            response.headers.setdefault(name, value)
        if isinstance(request.routing_exception, RequestRedirect):  # made of the host that was asked for: keep the path
            to = urlsplit(response.location or "/")
            response.location = "/" + to._replace(scheme="", netloc="").geturl().lstrip("/")
        if response.mimetype == "text/html" and request.blueprint != "guides" and not response.is_streamed:
            html = response.get_data(as_text=True)
            response.set_data(in_zone(html, parts.policy.timezone, parts.clock.now()))
        if request.path == webhook.PATH:
            parts.instruments.webhook_answered(response.status_code, time.perf_counter() - g.started)
        return response

    return app


def _pages(parts: WebParts) -> Blueprint:
    pages = Blueprint("pages", __name__)
    for add in (add_overview, add_pool_page, add_decisions):
        add(pages, parts)
    for addition in parts.added:
        addition.add_pages(pages, parts)
    return pages


def _templates(own: BaseLoader | None, parts: WebParts) -> BaseLoader:
    folders = [addition.templates for addition in parts.added if addition.templates is not None]
    return ChoiceLoader([*([own] if own is not None else []), FileSystemLoader(folders)])


def _links(parts: WebParts) -> Mapping[str, Sequence[tuple[str, str]]]:
    """The endpoint and the words of each added link, by the page that has it."""
    links: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for addition in parts.added:
        for link in addition.links:
            links[link.on].append((link.endpoint, link.words))
    return links
