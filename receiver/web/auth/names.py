"""The name under which a person's change is recorded: from a trusted proxy's header, else typed and remembered.

A name is no credential: the token, the session or the signed link decides what a request may do.
"""

from datetime import timedelta

import structlog
from flask import Request
from werkzeug.wrappers import Response

from receiver.config.web import Network
from receiver.web.api.request_parts import one_line
from receiver.web.auth.tokens import is_in

COOKIE = "gpu_autoscaler_name"
LASTS = timedelta(days=365)
LONGEST = 100  # characters

log = structlog.get_logger(__name__)


class ProxyNames:
    """Reads names from *header* of requests whose peer address is in *proxies*; without *header* from none."""

    def __init__(self, header: str, proxies: tuple[Network, ...]) -> None:
        self._header, self._proxies = header, proxies
        self._ignored = False  # whether that was logged

    def name(self, incoming: Request) -> str:
        """Return the name that a trusted proxy gives, empty for none. A list counts as none: a proxy that appends its
        value to the client's passes a forged name on."""
        sent = incoming.headers.get(self._header, "") if self._header else ""
        if not sent:
            return ""
        # The peer of the connection: unlike X-Forwarded-For, no client chooses it.
        trusted = is_in(incoming.remote_addr or "", self._proxies)
        name = short_name(sent.encode("latin-1", "replace").decode("utf-8", "replace"))
        if trusted and name and "," not in name:
            return name
        if not self._ignored:
            self._ignored = True
            reason = "it holds no single name" if trusted else "the address is not in web.trusted_proxies"
            log.warning("user header ignored", header=self._header, address=incoming.remote_addr or "", detail=reason)
        return ""


def short_name(text: str) -> str:
    """Return *text* as a name: one line of at most 100 characters."""
    return one_line(text)[:LONGEST].strip()


def remembered(incoming: Request) -> str:
    """Return the name that this browser last gave, empty for none."""
    return short_name(incoming.cookies.get(COOKIE, ""))


def remember(response: Response, name: str, *, secure: bool) -> None:
    """Let the browser offer *name* the next time; an empty one changes nothing."""
    if name:
        response.set_cookie(COOKIE, name, max_age=LASTS, secure=secure, httponly=True, samesite="Strict")
