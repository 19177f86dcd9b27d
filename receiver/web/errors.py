"""Errors as answers: JSON for programs, a page for people, and the stack trace in the log only."""

import math
from collections.abc import Mapping

import structlog
from flask import Flask, jsonify, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import BadHost, HTTPException

from receiver.ports import TryLater
from receiver.web.auth.tokens import Unauthorized

RETRY_AFTER_SECONDS = 5
MACHINE_PATHS = ("/api/", "/webhook", "/healthz", "/readyz", "/metrics")
REMEDIES = {
    404: "check the address; docs/http-api.md lists the paths of the API",
    405: "use one of the methods in the Allow header",
    413: "raise webhook.max_bytes, or make messages smaller: group by more labels in Alertmanager's route",
}

log = structlog.get_logger(__name__)


class Problem(Exception):
    """An answer other than success. *more* goes into its JSON, except ``retry_after``: the seconds of that header."""

    def __init__(self, status: int, error: str, remedy: str, *, field: str | None = None, **more: object) -> None:
        super().__init__(error)
        self.status, self.remedy, self.field, self.more = status, remedy, field, more


def for_machines(path: str) -> bool:
    """True when clients of *path* read JSON."""
    return path == "/api" or path.startswith(MACHINE_PATHS)


def loggable(path: str) -> str:
    """Return *path* without the signature of an approval link, which would let readers of the log answer."""
    return "/answer/..." if path.startswith("/answer/") else path


def retry_after(error: TryLater) -> int:
    """Return whole seconds to wait: what the other side said, rounded up, else a short default."""
    return RETRY_AFTER_SECONDS if error.delay is None else max(1, math.ceil(error.delay.total_seconds()))


def _answer(
    status: int, error: str, remedy: str, headers: Mapping[str, str] | None = None, **more: object
) -> ResponseReturnValue:
    """The answer in the form that fits the path. Under a host that is none no page could link anywhere."""
    if for_machines(request.path) or isinstance(request.routing_exception, BadHost):
        return jsonify({"error": error, "remedy": remedy, **more}), status, headers or {}
    remedy = "see one of these pages" if remedy == REMEDIES[404] else remedy
    return render_template("error.html", status=status, error=error, remedy=remedy), status, headers or {}


def _on_problem(problem: Problem) -> ResponseReturnValue:
    more = dict(problem.more)
    if problem.field is not None:
        more["field"] = problem.field
    wait = more.pop("retry_after", RETRY_AFTER_SECONDS if problem.status == 503 else None)
    headers = {} if wait is None else {"Retry-After": str(wait)}
    return _answer(problem.status, str(problem), problem.remedy, headers, **more)


def _on_unauthorized(error: Unauthorized) -> ResponseReturnValue:
    return _answer(401, str(error), error.remedy, {"WWW-Authenticate": error.challenge})


def _on_try_later(error: TryLater) -> ResponseReturnValue:
    """Answer 503: the store is down. Alertmanager retries on 5xx only."""
    log.warning("store unavailable", path=loggable(request.path), code=error.code, error=str(error))
    remedy = "try again; if it lasts, check the volume or database behind GPU_AUTOSCALER_DATABASE_URL"
    return _answer(503, f"the store does not answer: {error}", remedy, {"Retry-After": str(retry_after(error))})


def _on_http(error: HTTPException) -> ResponseReturnValue:
    """Answer what Flask and Werkzeug refuse (unknown path, wrong method, a client that went away)."""
    status = error.code or 500
    allow = {name: value for name, value in error.get_headers(request.environ) if name.lower() == "allow"}
    return _answer(status, (error.name or "error").lower(), REMEDIES.get(status, "see docs/http-api.md"), allow)


def _on_anything(error: Exception) -> ResponseReturnValue:
    """Answer 500 and log the trace: what broke is for the operator, not for who asked."""
    log.error("request failed", path=loggable(request.path), method=request.method, exc_info=error)
    return _answer(500, "internal error", "the server's log has the details")


def install(app: Flask) -> None:
    """Register every handler on *app*."""
    app.register_error_handler(Problem, _on_problem)
    app.register_error_handler(Unauthorized, _on_unauthorized)
    app.register_error_handler(TryLater, _on_try_later)
    app.register_error_handler(HTTPException, _on_http)
    app.register_error_handler(Exception, _on_anything)
