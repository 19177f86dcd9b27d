"""HTTP sessions that answer soon or not at all, and words for what went wrong on the wire.

Promises to repeat nothing but a GET, and to keep credentials out of every message.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import ConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    MaxRetryError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
)
from urllib3.exceptions import SSLError as Urllib3SSLError
from urllib3.exceptions import TimeoutError as Urllib3TimeoutError
from urllib3.response import BaseHTTPResponse
from urllib3.util.retry import Retry

LONGEST_DELAY = timedelta(hours=1)


class QuickRetry(Retry):
    """Two quick repeats of a GET that found no connection, was cut off or was answered 500, 502, 503 or 504.

    The slow repeat is the next step of the loop. What timed out is not repeated, it has cost its timeout already:
    neither a read, nor a connection to who is out of reach behind a firewall or a NetworkPolicy. Nor is a name that
    was not resolved: where its servers do not answer that has taken most of a minute. And urllib3's repeat of a failed
    connection is narrowed to GET, so that "a write is sent at most once" holds without exception.
    """

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        _pool: ConnectionPool | None = None,
        _stacktrace: TracebackType | None = None,
    ) -> Self:
        """Return the retries that are left, or raise what ended them."""
        if isinstance(error, ReadTimeoutError):
            raise error
        if error is not None and _pool is not None and (method != "GET" or _vanished(error)):
            raise MaxRetryError(_pool, url or "", error) from error
        return super().increment(method, url, response, error, _pool, _stacktrace)


def _vanished(error: Exception) -> bool:
    """True when nobody answered, or nobody said where to; a connection that was refused is filed under the timeouts,
    too."""
    if isinstance(error, NameResolutionError):
        return True
    return isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError)


def quick_retry(repeats: int = 2) -> QuickRetry:
    """Return the retry policy of every session: at most two *repeats* within half a second, GET only."""
    return QuickRetry(
        total=repeats,
        allowed_methods=frozenset({"GET"}),
        redirect=False,  # urllib3 by itself would send a write on to wherever an answer points (requests asks us)
        status_forcelist=(500, 502, 503, 504),
        backoff_factor=0.2,
        respect_retry_after_header=False,  # a step must not sleep because a server says so; the next one waits
        raise_on_status=False,
    )


def quick_session(repeats: int = 2) -> requests.Session:
    """Return a session with `quick_retry` of so many *repeats* and the project's own User-Agent."""
    session = requests.Session()
    session.headers["User-Agent"] = user_agent()
    for prefix in ("http://", "https://"):
        session.mount(prefix, HTTPAdapter(max_retries=quick_retry(repeats)))
    return session


def user_agent() -> str:
    """Return how we introduce ourselves, e.g. ``civo-gpu-autoscaler/0.1.0``."""
    try:
        return f"civo-gpu-autoscaler/{version('civo-gpu-autoscaler')}"
    except PackageNotFoundError:
        return "civo-gpu-autoscaler"


def shown(url: str) -> str:
    """Return *url* without the credentials, query and fragment that it may carry."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without(secret: str, value: Any) -> Any:
    """Return *value*, which was decoded from JSON, with *secret* blotted out wherever a text in it repeats it.

    Gateways put the headers that they got into their errors, and into any field.
    """
    if not secret:
        return value
    if isinstance(value, str):
        return value.replace(secret, "***")
    if isinstance(value, dict):
        return {without(secret, key): without(secret, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without(secret, inner) for inner in value]
    return value


def wire_failure(error: BaseException) -> tuple[str, str]:
    """Return a code and a phrase for an error of requests or urllib3; the phrase quotes nothing of it."""
    causes = _causes(error)
    if any(isinstance(e, requests.exceptions.SSLError | Urllib3SSLError) for e in causes):
        return "tls", "its certificate was not accepted"
    if any(isinstance(e, NameResolutionError) for e in causes):
        return "unreachable", "its name cannot be resolved"
    refused = any(isinstance(e, NewConnectionError) for e in causes)  # urllib3 files it under the timeouts
    if not refused and any(isinstance(e, requests.exceptions.Timeout | Urllib3TimeoutError) for e in causes):
        return "timeout", "it did not answer in time"
    return "unreachable", "no connection, or it was cut off"


def _causes(error: BaseException) -> list[BaseException]:
    """Return *error* and what it wraps: requests keeps urllib3's error in args, urllib3 keeps it in ``reason``."""
    found = [error]
    for known in found:  # grows while it is walked
        inner = [getattr(known, "reason", None), *known.args[:1], known.__cause__]
        found.extend(e for e in inner if isinstance(e, BaseException) and not any(e is f for f in found))
    return found


def retry_after(headers: Mapping[str, str] | None, now: datetime) -> timedelta | None:
    """Return how long a server asked us to wait (``Retry-After``: seconds or an HTTP date), at most an hour."""
    text = (headers.get("Retry-After") or "").strip() if headers else ""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_DELAY)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the second for a zone that is ten digits away
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max(until - now, timedelta(0)), LONGEST_DELAY)
