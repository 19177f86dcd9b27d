"""HTTP sessions with short timeouts, error texts, timestamps, and warnings that do not repeat.

Only a GET is ever retried, and no message contains credentials.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from time import monotonic
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import requests
import structlog
from requests.adapters import HTTPAdapter
from urllib3 import PoolManager, exceptions
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import ConnectionPool, HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import BaseHTTPResponse
from urllib3.util.retry import Retry

from receiver import installed_version
from receiver.ports import Clock, TryLater

LONGEST_DELAY = timedelta(hours=1)
WRITE_SECONDS = 10.0  # from connecting to the end of the answer: a takeover waits as long for a former leader's writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How calls are made. *before_write* is called right before each that changes something, after the reads that
    precede it; what it raises stops the call. *last_word* is called again as the bytes leave, and must return at once.
    *ended* receives method, outcome (``ok``, ``try_later``, ``wont_work``) and seconds of each call to Civo."""

    timeouts: tuple[float, float] = (5, 30)  # to connect and to read, in seconds
    write_seconds: float = WRITE_SECONDS  # at most, for a whole call that changes something: all pools wait as long
    before_write: Callable[[], None] = lambda: None
    last_word: Callable[[], None] | None = None
    ended: Callable[[str, str, float], None] = lambda _method, _outcome, _seconds: None


class QuickRetry(Retry):
    """Two quick retries of a GET without a connection, with a broken one, or with status 500, 502, 503 or 504 and no
    ``Retry-After``.

    The slow retry is the next step of the loop. Timeouts are not retried, because they have taken their time already:
    neither of a read, nor of a connection that a firewall or NetworkPolicy drops, nor of a DNS lookup, which may take
    most of a minute. urllib3's retry of a failed connection is limited to GET, so that a write is sent at most once.
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
        if isinstance(error, exceptions.ReadTimeoutError):
            raise error
        refused = type(error) is exceptions.NewConnectionError  # urllib3 counts it as a timeout, as a failed lookup
        timed_out = isinstance(error, exceptions.ConnectTimeoutError) and not refused
        if error is not None and _pool is not None and (method != "GET" or timed_out):
            raise exceptions.MaxRetryError(_pool, url or "", error) from error
        return super().increment(method, url, response, error, _pool, _stacktrace)

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """False for an answer that says when to come again."""
        return not has_retry_after and super().is_retry(method, status_code, has_retry_after)


def quick_retry(repeats: int = 2) -> QuickRetry:
    """Return the retry policy of every session: at most two *repeats* within half a second, GET only."""
    return QuickRetry(
        total=repeats,
        allowed_methods=frozenset({"GET"}),
        redirect=False,  # urllib3 would follow redirects of writes
        status_forcelist=(500, 502, 503, 504),
        backoff_factor=0.2,
        respect_retry_after_header=False,  # a step must not sleep; the next one waits
        raise_on_status=False,
    )


def quick_session(repeats: int = 2) -> requests.Session:
    """Return a session with `quick_retry` and the project's User-Agent."""
    session = requests.Session()
    session.headers["User-Agent"] = user_agent()
    for prefix in ("http://", "https://"):
        session.mount(prefix, HTTPAdapter(max_retries=quick_retry(repeats)))
    return session


def user_agent() -> str:
    """Return the User-Agent, such as ``civo-gpu-autoscaler/0.1.0``."""
    return f"civo-gpu-autoscaler/{installed_version()}"


class Bearer(requests.auth.AuthBase):
    """A token as an auth hook: credentials in the URL or in ~/.netrc would override a header of the session."""

    def __init__(self, token: str, scheme: str = "Bearer") -> None:
        self._text = f"{scheme} {token}"

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._text
        return request


def shown(url: str) -> str:
    """Return *url* without the credentials, query and fragment that it may carry."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without(secret: str, value: object) -> object:
    """Return *value*, decoded from JSON, without *secret* in any text: gateways quote headers in errors."""
    if not secret:
        return value
    if isinstance(value, str):
        return value.replace(secret, "***")
    if isinstance(value, dict):
        return {without(secret, key): without(secret, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without(secret, inner) for inner in value]
    return value


def json_of(response: requests.Response) -> Any:
    """Return the decoded body, None if it is no JSON (or brackets without end)."""
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def wire_failure(error: BaseException) -> tuple[str, str]:
    """Return a code and a phrase for an error of requests or urllib3; the phrase does not quote it."""
    causes = [error]  # with what it wraps: requests keeps urllib3's error in args, urllib3 keeps it in ``reason``
    for cause in causes:  # grows while it is walked
        inner = (getattr(cause, "reason", None), *cause.args[:1], cause.__cause__)
        causes.extend(e for e in inner if isinstance(e, BaseException) and not any(e is f for f in causes))
    if any(isinstance(e, requests.exceptions.SSLError | exceptions.SSLError) for e in causes):
        return "tls", "its certificate is not trusted"
    if any(isinstance(e, exceptions.NameResolutionError) for e in causes):
        return "unreachable", "its name cannot be resolved"
    refused = any(isinstance(e, exceptions.NewConnectionError) for e in causes)  # urllib3 counts it as a timeout
    if not refused and any(isinstance(e, requests.exceptions.Timeout | exceptions.TimeoutError) for e in causes):
        return "timeout", "it did not answer in time"
    return "unreachable", "no connection, or it was closed"


def retry_after(headers: Mapping[str, str] | None, now: datetime) -> timedelta | None:
    """Return the wait of a ``Retry-After`` header (seconds or an HTTP date), at most an hour."""
    text = (headers.get("Retry-After") or "").strip() if headers else ""
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_DELAY)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):  # OverflowError: a time zone offset of ten digits
        return None
    return min(max((until if until.tzinfo else until.replace(tzinfo=UTC)) - now, timedelta(0)), LONGEST_DELAY)


class ReadPause:
    """The times before which a source asked not to be read again (``Retry-After``). *now* is monotonic seconds.

    A pause of `EVERYTHING` holds for every read, another one for what it names."""

    EVERYTHING = ""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._pauses: dict[str, tuple[float, str, str]] = {}  # end, text and code of the error

    def begin(self, error: TryLater, resource: str = EVERYTHING) -> None:
        """Begin a pause for reads of *resource* if *error* says how long to wait."""
        if error.delay:
            now = self._now()
            going_on = {each: pause for each, pause in self._pauses.items() if pause[0] > now}
            self._pauses = {**going_on, resource: (now + error.delay.total_seconds(), str(error), error.code)}

    def check(self, resource: str = EVERYTHING) -> None:
        """Raise TryLater with the rest of the delay during a pause for *resource*, or for everything."""
        for each in (self.EVERYTHING, resource):
            end, detail, code = self._pauses.get(each, (0.0, "", ""))
            seconds_left = end - self._now()
            if seconds_left > 0:
                raise TryLater(detail, code=code, delay=timedelta(seconds=seconds_left))


def last_word(pools: PoolManager, check: Callable[[], None]) -> None:
    """Call *check* right before the bytes of a write through *pools* are sent; if it raises, they are not. The server
    then has an incomplete request at most."""

    def guarding(connection: Any) -> type:
        class Guarding(connection):  # type: ignore[misc]  # either of urllib3's classes
            writes = False

            def putrequest(self, method: str, *arguments: object, **options: object) -> None:
                self.writes = method != "GET"
                super().putrequest(method, *arguments, **options)

            def send(self, data: object) -> None:
                if self.writes:
                    check()
                super().send(data)

        return Guarding

    pools.pool_classes_by_scheme = {
        "http": type("GuardingPool", (HTTPConnectionPool,), {"ConnectionCls": guarding(HTTPConnection)}),
        "https": type("GuardingPool", (HTTPSConnectionPool,), {"ConnectionCls": guarding(HTTPSConnection)}),
    }


def mount_last_word(session: requests.Session, check: Callable[[], None]) -> None:
    """Guard the writes of *session* by `last_word`, but for those through a proxy."""

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
            super().init_poolmanager(*arguments, **options)
            last_word(self.poolmanager, check)

    for prefix in ("http://", "https://"):
        session.mount(prefix, Adapter(max_retries=quick_retry()))


def moment(text: object) -> datetime | None:
    """Return the RFC 3339 time *text* in UTC, or None if it is not one. Digits beyond microseconds are dropped (Go
    writes nanoseconds); a time without a zone is UTC. Go's zero time, year 1, means "no time" and gives None."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text.strip())
        if parsed.year <= 1:
            return None
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):  # the last day of year 9999, west of Greenwich
        return None


AGAIN = timedelta(hours=1)
MOST = 200  # of one event within that time: authors of pods may change a text at each step

log = structlog.get_logger("receiver")


class Remarks:
    """Logs a repeated warning once an hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], datetime] = {}

    def warn(self, event: str, detail: str) -> None:
        """Log *detail* under *event* unless the same was logged within the hour, or too much else under that event."""
        now = self._clock.now()
        at = self._said.get((event, detail))
        if at is not None and now - at < AGAIN:
            return
        self._said = {key: at for key, at in self._said.items() if now - at < AGAIN}
        if sum(e == event for e, _ in self._said) < MOST:
            self._said[event, detail] = now
            log.warning(event, detail=detail)
