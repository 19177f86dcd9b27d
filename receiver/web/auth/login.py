"""GET and POST /login, POST /logout: a person with a token gets a session that ends by itself."""

from typing import Any

import structlog
from flask import Blueprint, g, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from receiver.config.model import ReadAccess
from receiver.web.api.request_parts import read_form
from receiver.web.auth.access import COOKIE, LASTS, Access, Visitor, own_path
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

log = structlog.get_logger(__name__)


def blueprint(access: Access, parts: WebParts) -> Blueprint:
    """Return /login and /logout."""
    routes = Blueprint("login", __name__)
    attempts = access.attempts
    closed = parts.reading is ReadAccess.TOKEN

    def page(wanted: str, *, error: str = "", status: int = 200) -> Response:
        return make_response(render_template("login.html", wanted=wanted, error=error, closed=closed), status)

    def cookie() -> dict[str, Any]:
        """The attributes of the session's cookie, the same when it is set and deleted."""
        return {"secure": access.by_https(request), "httponly": True, "samesite": "Strict"}

    @routes.get("/login")
    def log_in() -> Response:
        """Ask for a token; redirect visitors who are logged in already."""
        wanted = own_path(request.args.get("next"))
        if g.visitor.session is not None:
            return redirect(wanted, 303)
        response = page(wanted)
        if request.headers.get("Sec-Fetch-Site", "cross-site") == "cross-site" and "again" not in request.args:
            # A link in a message brings no cookie (SameSite=Strict). Asked again by our own page, the browser sends it.
            # Over plain http browsers do not name the origin: then the page asks again each time.
            response.headers["Refresh"] = f"0; url={url_for('login.log_in', next=wanted, again=1)}"
        return response

    @routes.post("/login")
    def try_token() -> Response:
        access.require_own_site(request)
        form = read_form(request)
        wanted, address = own_path(form.get("next")), request.remote_addr or ""
        wait = attempts.wait(address)
        if wait:
            error = f"Too many failed log-ins from your address. Try again in {wait} s."
            response = page(wanted, error=error, status=429)
            response.headers["Retry-After"] = str(wait)
            return response
        token = form.get("token", "")
        begun = access.cookie_of(token)
        if begun is None:
            log.warning("log-in refused", address=address, failures=attempts.failed(address))
            return page(wanted, error=_refusal(g.visitor, token), status=403)
        role, session = begun
        log.info("log-in", role=role.value, address=address)
        response = redirect(wanted, 303)
        response.set_cookie(COOKIE, session, max_age=LASTS, **cookie())
        return response

    @routes.post("/logout")
    def log_out() -> Response:
        """Forget the session in this browser."""
        access.require_own_site(request)
        if g.visitor.session is not None and not g.visitor.sent(read_form(request).get("form_token", "")):
            raise Problem(403, "this form is of another session", "open the page again and log out there")
        response = redirect("/", 303)
        response.delete_cookie(COOKIE, **cookie())
        return response

    return routes


def _refusal(visitor: Visitor, token: str) -> str:
    if not visitor.can_log_in:
        return "This server has no token to log in with."
    if not token.strip():
        return "No token was given. Type the operator's or the reader's token."
    return "This is neither the operator's token nor the reader's. The webhook's token does not log in."
