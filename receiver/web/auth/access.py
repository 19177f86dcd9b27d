"""Access: what visitors, readers and operators may do, and the log-ins (/login, /logout) that begin their sessions.

Reading may be open or take a token. What changes something takes the operator's: in a header for programs, by a session
and a form that carries its token for people in a browser.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlsplit

import structlog
from flask import Blueprint, Flask, Request, g, make_response, redirect, render_template, request, url_for
from flask import Response as FlaskResponse
from itsdangerous import BadData, URLSafeSerializer
from werkzeug.wrappers import Response

from receiver.config.web import ReadAccess
from receiver.ports import TryLater
from receiver.web.api.request_parts import read_form
from receiver.web.auth.names import ProxyNames, remember, remembered, short_name
from receiver.web.auth.tokens import BLANK, READER, client_address, is_one_of, is_ours, require_bearer
from receiver.web.errors import Problem, for_machines, loggable
from receiver.web.parts import WebParts

LASTS = timedelta(hours=12)
SKEW = timedelta(minutes=5)  # by which the clocks of two replicas may differ
SALT = "gpu-autoscaler session of "
COOKIE = "gpu_autoscaler_session"
# What never takes the reader's token: Alertmanager and sealed links carry their own, a kubelet and a scraper have none,
# who logs in has none yet, and the documentation holds no secret: a person with a pager opens a runbook first.
# Everything else is closed, also what is added some day.
OPEN_BLUEPRINTS = frozenset({"webhook", "health", "login", "guides"})
ASKED_BY_MACHINES = frozenset({"webhook", "health"})  # no browser: whatever name they have for us is fine
OPEN_ENDPOINTS = frozenset({"static"})

log = structlog.get_logger(__name__)


class Role(StrEnum):
    """What a token lets its holder do; the operator may read as well."""

    READER = "reader"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One log-in. *form_token* is what every form of it carries: another site cannot know it."""

    role: Role
    form_token: str
    until: datetime


class Sessions:
    """Signs and reads cookies of sessions with the random *key* of the store and *tokens*: a new token ends the
    sessions of the old one."""

    def __init__(self, tokens: Mapping[Role, str], key: str) -> None:
        signed = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
        self._seals = {
            role: URLSafeSerializer(f"{key}.{token}", salt=f"{SALT}{role}", signer_kwargs=signed)
            for role, token in tokens.items()
        }

    def begin(self, role: Role, now: datetime) -> str:
        """Return the cookie of a new session; KeyError for a role without a token."""
        until = int((now + LASTS).timestamp())
        return str(self._seals[role].dumps({"until": until, "form": secrets.token_urlsafe(24)}))

    def read(self, cookie: str | None, now: datetime) -> Session | None:
        """Return the session that *cookie* holds; None for one that is over, forged, or of a token that was changed."""
        for role, seal in self._seals.items():
            try:
                payload = seal.loads(cookie or "")
                until = datetime.fromtimestamp(payload["until"], tz=now.tzinfo)
                session = Session(role=role, form_token=str(payload["form"]), until=until)
            except (BadData, KeyError, TypeError, ValueError, OverflowError, OSError):
                continue
            # One from the future began under a wrong clock and would last too long.
            if now < session.until <= now + LASTS + SKEW:
                return session
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The reader of a page: *name* from a trusted proxy, which forms do not change, and *remembered* from the last
    form.

    *can_log_in* and *can_act* say whether the server has tokens for that at all."""

    session: Session | None = None
    name: str = ""
    remembered: str = ""
    can_log_in: bool = False
    can_act: bool = False

    @property
    def is_operator(self) -> bool:
        """True when forms that act are shown."""
        return self.session is not None and self.session.role is Role.OPERATOR

    @property
    def form_token(self) -> str:
        return self.session.form_token if self.session else ""

    def sent(self, form_token: str) -> bool:
        """True when *form_token* is what the forms of the session carry."""
        return bool(self.form_token) and hmac.compare_digest(form_token.encode(), self.form_token.encode())

    def name_in(self, form: Mapping[str, str]) -> str:
        """Return the name that counts for *form*: the proxy's, else the typed one; empty for none."""
        return self.name or short_name(form.get("who", ""))


class Access:
    """The server's tokens and the sessions that they began."""

    def __init__(self, parts: WebParts) -> None:
        self._parts = parts
        self.attempts = parts.attempts
        self._web, self._public_url = parts.configuration.web, parts.configuration.public_url
        self.slow = frozenset(endpoint for addition in parts.added for endpoint in addition.slow)
        self._open = OPEN_BLUEPRINTS | {name for addition in parts.added for name in addition.sealed}
        self._names = ProxyNames(self._web.user_header or "", self._web.trusted_proxies)

    @property
    def _tokens(self) -> Mapping[Role, str]:
        """Access control by the tokens that are valid now."""
        valid = self._parts.tokens()
        tokens_by_role = {Role.OPERATOR: valid.operator, Role.READER: valid.reader}
        return {role: token.strip() for role, token in tokens_by_role.items() if token and token.strip()}

    def cookie_of(self, token: str) -> tuple[Role, str] | None:
        """Return the role of *token* and the cookie of a new session. Every token is compared, in constant time. Raises
        TryLater where the key was never read and the store does not answer."""
        token_bytes, tokens = token.strip().encode("utf-8", "replace"), self._tokens
        roles = [role for role, role_token in tokens.items() if is_one_of(token_bytes, (role_token,))]
        if not roles:
            return None
        return roles[0], Sessions(tokens, self._parts.store.sealing_key()).begin(roles[0], self._parts.clock.now())

    def visitor(self, incoming: Request) -> Visitor:
        """Return who sends *incoming*, as far as a cookie says it."""
        tokens = self._tokens
        session = self._session(incoming.cookies.get(COOKIE), tokens)
        named = {"name": self._names.name(incoming), "remembered": remembered(incoming)}
        return Visitor(session=session, can_log_in=bool(tokens), can_act=Role.OPERATOR in tokens, **named)

    def _session(self, cookie: str | None, tokens: Mapping[Role, str]) -> Session | None:
        if not cookie or not tokens:
            return None
        try:
            key = self._parts.store.sealing_key()
        except TryLater:  # never read yet; pages that take no session are shown all the same
            return None
        return Sessions(tokens, key).read(cookie, self._parts.clock.now())

    def remember(self, response: Response, visitor: Visitor, name: str) -> None:
        """Let the browser of *visitor* offer *name* in its next form, unless a proxy names the person."""
        if not visitor.name:
            remember(response, name, secure=self.by_https(request))

    def by_https(self, incoming: Request) -> bool:
        """True when the browser came by https, as we see or are configured; any client can set X-Forwarded-Proto."""
        public_url = urlsplit(self._public_url or "")
        return incoming.is_secure or (public_url.scheme == "https" and public_url.netloc == incoming.host)

    def require_our_host(self, incoming: Request) -> None:
        """Raise Problem 421 for pages and API under a name that is none of ours (`receiver.web.auth.tokens`)."""
        if incoming.blueprint in ASKED_BY_MACHINES or is_ours(incoming.host, self._public_url, self._web.hosts):
            return
        remedy = "set public_url to what the browser shows, or add the name to web.hosts"
        raise Problem(421, "this server does not answer under this host name", remedy)

    def require_own_site(self, incoming: Request) -> None:
        """Raise Problem 403 for a form that another site sent.

        The browser's own judgement counts (Sec-Fetch-Site, by https only), else its Origin. A client that sends neither
        is no current browser, and has no session unless its owner gave it.
        """
        fetched, origin = incoming.headers.get("Sec-Fetch-Site"), incoming.headers.get("Origin")
        if fetched is not None:
            same_site = fetched in ("same-origin", "none")
        else:
            own_hosts = {incoming.host, urlsplit(self._public_url or "/").netloc} - {""}
            same_site = origin is None or origin.partition("://")[2] in own_hosts
        if not same_site:
            remedy = "open the page here and send its own form; behind a proxy set public_url to what the browser shows"
            raise Problem(403, "this form was sent by another site", remedy)

    def address(self, incoming: Request) -> str:
        """Return the address of the client, behind the proxies that are trusted."""
        forwarded = incoming.headers.get("X-Forwarded-For", "")
        return client_address(incoming.remote_addr or "", forwarded, self._web.trusted_proxies)

    def is_wrong(self, token: str) -> bool:
        """True when *token* is none of this server's, the webhook's included: only these are guesses."""
        valid = self._parts.tokens()
        encodings = (
            token.encode("latin-1", "replace"),
            token.strip().encode("utf-8", "replace"),
        )  # of a header, of a form
        valid_tokens = tuple(
            valid_token
            for valid_token in (*valid.webhook, valid.operator, valid.reader)
            if valid_token and valid_token.strip()
        )
        right = [is_one_of(encoding, valid_tokens) for encoding in encodings]
        return bool(token.strip()) and not any(right)

    def require_no_guesser(self, incoming: Request) -> None:
        """Raise Problem 429 for a wrong token of a client that tried many others within a minute; not at the webhook.
        A right token always passes: who shares an address with a guesser is not locked out."""
        reads = incoming.method in ("GET", "HEAD") and self._web.reading is ReadAccess.OPEN
        if reads or self._is_open(incoming) or not self.is_wrong(_bearer(incoming)):
            return
        wait = self.attempts.wait(self.address(incoming))
        if wait:
            remedy = f"send the right one, or wait {wait} seconds"
            raise Problem(429, "too many different wrong tokens came from this address", remedy, retry_after=wait)

    def note_refusal(self, incoming: Request) -> None:
        """Count and log a wrong token; one that is sent again and again is one."""
        sent, address = _bearer(incoming), self.address(incoming)
        failures = self.attempts.failed(address, sent) if self.is_wrong(sent) else None
        if failures is not None:
            log.warning("token refused", address=address, path=loggable(incoming.path), failures=failures)

    def requires_token(self, incoming: Request, visitor: Visitor) -> bool:
        """True when *visitor* must log in first; raises Unauthorized for a wrong token and a program without one."""
        if self._web.reading is ReadAccess.OPEN or self._is_open(incoming) or visitor.session is not None:
            return False
        if incoming.blueprint == "acting" and incoming.method == "POST":
            return False  # it asks for the operator itself, shows nothing to others, and keeps what was typed
        header = incoming.headers.get("Authorization")
        # The page's scheme may differ from ours: a proxy in front passes its own on.
        if for_machines(incoming.path) or (header or "").lower().startswith("bearer "):
            require_bearer(header, tuple(self._tokens.values()), READER)
            return False
        return True

    def _is_open(self, incoming: Request) -> bool:
        return incoming.blueprint in self._open or incoming.endpoint in OPEN_ENDPOINTS


def _bearer(incoming: Request) -> str:
    """The bearer token that *incoming* brings, empty for none."""
    scheme, _, sent = (incoming.headers.get("Authorization") or "").strip(BLANK).partition(" ")
    return sent.strip(BLANK) if scheme.lower() == "bearer" else ""


def own_path(text: str | None) -> str:
    """Return *text* when it is a path of ours that a browser may be sent to, else ``/``."""
    if not text or not text.startswith("/") or text.startswith("//"):
        return "/"
    # Browsers drop control characters and read a backslash as a slash, so ``//host`` hides behind both.
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
        g.visitor = Visitor()
        access.require_our_host(request)
        if request.endpoint in access.slow:
            access.require_own_site(request)
        g.visitor = access.visitor(request)
        access.require_no_guesser(request)
        if access.requires_token(request, g.visitor):
            return redirect(url_for("login.log_in", next=here(request)), 303)
        return None

    @app.after_request
    def count(response: FlaskResponse) -> FlaskResponse:
        if response.status_code == 401:
            access.note_refusal(request)
        return response

    @app.context_processor
    def said_to_pages() -> dict[str, object]:
        return {"visitor": g.get("visitor", Visitor()), "here": here(request)}


def blueprint(access: Access, parts: WebParts) -> Blueprint:
    """Return /login and /logout."""
    routes = Blueprint("login", __name__)
    attempts = access.attempts
    closed = parts.configuration.web.reading is ReadAccess.TOKEN

    def page(target: str, *, error: str = "", status: int = 200) -> Response:
        return make_response(render_template("login.html", wanted=target, error=error, closed=closed), status)

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
        wanted, address = own_path(form.get("next")), access.address(request)
        token = form.get("token", "")
        begun = access.cookie_of(token)
        if begun is None:
            wait = attempts.wait(address) if access.is_wrong(token) else 0
            if wait:
                error = f"Too many wrong tokens from your address. Type the right one, or try again in {wait} s."
                response = page(wanted, error=error, status=429)
                response.headers["Retry-After"] = str(wait)
                return response
            failures = attempts.failed(address) if access.is_wrong(token) else None
            log.warning("log-in refused", address=address, failures=failures)
            return page(wanted, error=_refusal(g.visitor, token), status=403)
        role, session = begun
        log.info("log-in", role=role.value, address=address)
        response = redirect(wanted, 303)
        response.set_cookie(COOKIE, session, max_age=LASTS, **cookie())
        return response

    @routes.post("/logout")
    def log_out() -> Response:
        access.require_own_site(request)
        if g.visitor.session is not None and not g.visitor.sent(read_form(request).get("form_token", "")):
            raise Problem(403, "this form belongs to another session", "open the page again and log out there")
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
