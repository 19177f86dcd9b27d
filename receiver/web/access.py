"""Who asks: everybody, a reader or an operator; and what is closed to whom.

Reading may be open or take a token. What changes something takes the operator's: in a header for programs, by a session
(`receiver.web.sessions`) and a form that carries its token for people in a browser.
"""

import hmac
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from flask import Flask, Request, g, redirect, request, url_for
from werkzeug.wrappers import Response

from receiver.config.model import Reading
from receiver.web.auth import READER, is_one_of, require_bearer
from receiver.web.errors import Problem, for_machines
from receiver.web.parts import WebParts
from receiver.web.sessions import Role, Session, Sessions

COOKIE = "gpu_autoscaler_session"
# What never takes the reader's token: Alertmanager and the links in messages carry their own, a kubelet and a scraper
# have none, and who logs in has none yet. Everything else is closed, also what is added some day.
OPEN_BLUEPRINTS = frozenset({"webhook", "health", "login", "answers"})
OPEN_ENDPOINTS = frozenset({"static"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who looks at a page. *can_log_in* and *can_act* say whether the server has tokens for that at all."""

    session: Session | None = None
    can_log_in: bool = False
    can_act: bool = False

    @property
    def is_operator(self) -> bool:
        """True when forms that act are shown."""
        return self.session is not None and self.session.role is Role.OPERATOR

    @property
    def form_token(self) -> str:
        """What the session's forms carry; empty without one."""
        return self.session.form_token if self.session else ""


class Access:
    """The server's tokens and the sessions that they began."""

    def __init__(self, parts: WebParts) -> None:
        self._parts = parts
        tokens = {Role.OPERATOR: parts.operator_token, Role.READER: parts.reader_token}
        self._tokens = {role: token.strip() for role, token in tokens.items() if token and token.strip()}
        self.sessions = Sessions(self._tokens)

    def role_of(self, token: str) -> Role | None:
        """Return what *token* lets its holder do. Every token is compared, in constant time."""
        given = token.strip().encode("utf-8", "replace")
        found = [role for role, known in self._tokens.items() if is_one_of(given, (known,))]
        return found[0] if found else None

    def visitor(self, incoming: Request) -> Visitor:
        """Return who sends *incoming*, as far as a cookie says it."""
        session = self.sessions.read(incoming.cookies.get(COOKIE), self._parts.clock.now())
        return Visitor(session=session, can_log_in=bool(self._tokens), can_act=Role.OPERATOR in self._tokens)

    def by_https(self, incoming: Request) -> bool:
        """True when the browser came by https, as far as we saw it ourselves or the configuration says it.

        A header such as X-Forwarded-Proto is not asked: whoever sends the request could write it.
        """
        ours = urlsplit(self._parts.public_url or "")
        return incoming.is_secure or (ours.scheme == "https" and ours.netloc == incoming.host)

    def require_own_site(self, incoming: Request) -> None:
        """Raise Problem 403 for a form that another site sent.

        The browser's own judgement counts (Sec-Fetch-Site, by https only), else its Origin. Who sends neither is no
        browser of today, and has no session unless its owner gave it.
        """
        fetched, origin = incoming.headers.get("Sec-Fetch-Site"), incoming.headers.get("Origin")
        if fetched is not None:
            own = fetched in ("same-origin", "none")
        else:
            ours = {incoming.host, urlsplit(self._parts.public_url or "/").netloc} - {""}
            own = origin is None or origin.partition("://")[2] in ours
        if not own:
            raise Problem(
                403,
                "this form was sent by another site",
                "open the page here and send its own form; behind a proxy set public_url to what the browser shows",
            )

    def requires_token(self, incoming: Request, visitor: Visitor) -> bool:
        """True when *visitor* asks for something that is closed and brings nothing that opens it.

        Raises Unauthorized for a token that opens nothing, and where who asks is no person.
        """
        if self._parts.reading is Reading.OPEN or _is_open(incoming) or visitor.session is not None:
            return False
        if incoming.blueprint == "acting" and incoming.method == "POST":
            return False  # it asks for the operator itself, shows nothing to others, and keeps what was typed
        header = incoming.headers.get("Authorization")
        # Of a page another scheme than ours says nothing: a proxy in front passes its own on.
        if for_machines(incoming.path) or (header or "").lower().startswith("bearer "):
            require_bearer(header, tuple(self._tokens.values()), READER)
            return False
        return True


def _is_open(incoming: Request) -> bool:
    return incoming.blueprint in OPEN_BLUEPRINTS or incoming.endpoint in OPEN_ENDPOINTS


def same_token(sent: str, visitor: Visitor) -> bool:
    """True when *sent* is what the forms of the visitor's session carry."""
    return bool(visitor.form_token) and hmac.compare_digest(sent.encode(), visitor.form_token.encode())


def own_path(text: str | None) -> str:
    """Return *text* when it is a path of ours that a browser may be sent to, else ``/``.

    Browsers drop control characters and read a backslash as a slash, so ``//host`` hides behind both.
    """
    if not text or not text.startswith("/") or text.startswith("//"):
        return "/"
    if "\\" in text or any(c <= " " or c == "\x7f" for c in text):
        return "/"
    return "/" if text.partition("?")[0] in ("/login", "/logout") else text


def here(incoming: Request) -> str:
    """Return path and query of *incoming*, to come back to after the log-in; ``/`` for what was not a page to read."""
    if incoming.method not in ("GET", "HEAD"):
        return "/"
    query = incoming.query_string.decode("latin-1")
    return own_path(quote(incoming.path) + (f"?{query}" if query else ""))


def install(app: Flask, access: Access) -> None:
    """Ask of every request to *app* who sends it, and turn away who may not read."""

    @app.before_request
    def look() -> Response | None:
        g.visitor = access.visitor(request)
        if access.requires_token(request, g.visitor):
            return redirect(url_for("login.log_in", next=here(request)), 303)
        return None

    @app.context_processor
    def said_to_pages() -> dict[str, object]:
        """What every template may ask: ``visitor``, and ``here`` to come back to."""
        return {"visitor": g.get("visitor", Visitor()), "here": here(request)}
