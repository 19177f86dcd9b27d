"""The web side: webhook, health, JSON API and pages. It remembers deliveries, reads the store and acts on nothing."""

import time

from flask import Flask, Response, g, request
from jinja2 import ChainableUndefined
from werkzeug.exceptions import BadHost

from receiver.web import access, acting, answer, api, errors, health, login, pages, reports, webhook
from receiver.web.parts import LoopHealth, WebInstruments, WebParts

__all__ = ["LoopHealth", "WebInstruments", "WebParts", "create_app"]

# Nothing but our own files: no inline script or style, no frame, no other host; forms and requests go to ourselves.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    # Other sites learn nothing. With no-referrer browsers would send our own forms as of Origin: null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def create_app(parts: WebParts) -> Flask:
    """Return the WSGI application over *parts*. It starts no thread and keeps no state but counters."""
    app = Flask("receiver.web")
    # A picture kept by an older version lacks keys: they show as unknown, the page does not fail.
    app.jinja_options = {**app.jinja_options, "undefined": ChainableUndefined}
    app.json.sort_keys = False  # type: ignore[attr-defined]  # the default provider has it; fields keep their documented order
    app.jinja_env.filters.update(reports.FILTERS)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals["version"] = parts.version
    errors.install(app)
    doors = access.Access(parts)
    for module_of_doors in (login, acting):
        app.register_blueprint(module_of_doors.blueprint(doors, parts))
    for module in (webhook, health, api, answer, pages):
        app.register_blueprint(module.blueprint(parts))

    @app.before_request
    def start_watch() -> None:
        g.started = time.perf_counter()
        if isinstance(request.routing_exception, BadHost):
            raise request.routing_exception

    access.install(app, doors)

    @app.after_request
    def finish(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if request.endpoint != "static":
            response.headers.setdefault("Cache-Control", "no-store")
        if request.path == "/webhook":
            parts.instruments.webhook_answered(response.status_code, time.perf_counter() - g.started)
        return response

    return app
