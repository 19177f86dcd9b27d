"""Deliver the outbox through Apprise. Destination URLs hold secrets: they appear in no log and no error.

A destination is remembered by a digest of its URL, so one that fails does not make the others hear a notice
twice, and a restart changes nothing. A URL with several targets in it (two channels) counts as one
destination: name each target in a URL of its own to have them retried one by one.
"""

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import apprise
import structlog

from receiver.core.message import Links, Message, compose
from receiver.core.tell import Severity
from receiver.ports import Clock, StoredNotice, TryLater

log = structlog.get_logger("receiver")

FIRST_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(minutes=30)
GIVE_UP_AFTER = timedelta(hours=24)
ERROR_LENGTH = 300
HIDE_FROM = 5  # characters: shorter parts of a destination are words like "bot", not secrets

# A zero-width space between the sign and the word: it reads the same and calls nobody.
_MENTIONS = (
    (re.compile(r"@(?=(?:channel|here|everyone|all|room|group|team)\b)", re.IGNORECASE), "@\u200b"),
    (re.compile(r"<(?=[!@#])"), "<\u200b"),  # <!channel>, <!subteam^...>, <@user>, <@&role>, <#channel>
)


class OutboxStore(Protocol):
    """The part of the store that delivery needs (`receiver.adapters.store.SqlStore`)."""

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]:
        """See `receiver.ports.Store`."""

    def notice_sent(self, notice: int, at: datetime) -> None:
        """See `receiver.ports.Store`."""

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        """See `receiver.ports.Store`."""

    def reached(self, notice: int) -> frozenset[str]:
        """Return the digests of the destinations that have *notice*."""

    def notice_reached(self, notice: int, destination: str) -> None:
        """Note that the destination with this digest has *notice*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Destination:
    """One destination: its digest, its name without secrets, and what Apprise made of its URL (None: nothing)."""

    digest: str
    name: str
    url: str = field(repr=False)
    service: Any = field(repr=False)

    def send(self, message: Message, severity: Severity) -> str:
        """Deliver *message*; return an error without secrets, or nothing when it was taken."""
        if self.service is None:
            return f"{self.name}: Apprise does not understand its URL"
        try:
            capture = apprise.LogCapture(level=logging.WARNING, fmt="%(message)s")  # type: ignore[no-untyped-call]  # its __init__ has no annotations
            with capture as said:
                taken = self.service.notify(
                    title=disarm(message.title),
                    body=disarm(message.body),
                    notify_type=severity.value,
                    body_format=apprise.NotifyFormat.TEXT,
                )
                detail = said.getvalue()
        except Exception as error:  # noqa: BLE001 (a hundred plugins by others: none may end a delivery)
            return f"{self.name}: {type(error).__name__}"
        if taken:
            return ""
        return hide(f"{self.name}: {' '.join(detail.split()) or 'not taken'}", self.url)[:ERROR_LENGTH]


class Outbox:
    """Deliver notices to every destination, each once, with retries.

    Notices are plain text: the one format that Slack, Telegram and mail all show as it was written
    (underscores and asterisks in pod names would turn into emphasis in Markdown).
    """

    def __init__(
        self,
        store: OutboxStore,
        destinations: Sequence[str],
        clock: Clock,
        of_teams: Mapping[str, Sequence[str]] | None = None,
        *,
        links: Links,
    ) -> None:
        """Deliver from *store* to *destinations* (Apprise URLs); with none, notices go to the log.

        What is about a team that has destinations in *of_teams* goes to them and nowhere else. *links* is where
        messages lead to.
        """
        _keep_secrets_out_of_logs()
        self._store, self._clock, self._links = store, clock, links
        self._destinations = _opened(destinations)
        self._of_teams = {team: _opened(urls, f"of team {team} ") for team, urls in (of_teams or {}).items()}

    def deliver_due(self, now: datetime) -> int:
        """Deliver what is due at *now*; return how many notices were finished. Raises nothing.

        A destination that fails is not tried again within this call, so that one that hangs does not keep the
        others waiting for each notice anew.
        """
        finished = 0
        failing: dict[str, str] = {}
        try:
            for stored in self._store.notices_due(now):
                finished += self._deliver(stored, failing)
        except TryLater as error:
            log.warning("notices wait", error=str(error))
        except Exception:
            log.exception("notices failed")
        return finished

    def _deliver(self, stored: StoredNotice, failing: dict[str, str]) -> bool:
        """Deliver one notice to whom it has not reached yet; True when everybody has it."""
        destinations = self._of_teams.get(stored.notice.team or "", self._destinations)
        notice, message = stored.notice, compose(stored.notice, self._links)
        if not destinations:
            log.info("notice", title=message.title, body=message.body, severity=notice.severity.value, pool=notice.pool)
        errors: list[str] = []
        reached = self._store.reached(stored.id) if destinations else frozenset()
        for destination in destinations:
            if destination.digest in reached:
                continue
            error = failing.get(destination.digest) or destination.send(message, notice.severity)
            if error:
                failing[destination.digest] = error
                errors.append(error)
            else:
                self._store.notice_reached(stored.id, destination.digest)
        at = self._clock.now()
        if not errors:
            self._store.notice_sent(stored.id, at)
            return True
        retry_at = next_try(stored.attempts, at)
        self._store.notice_failed(stored.id, at, retry_at, "; ".join(errors))
        log.warning(
            "notice given up" if retry_at is None else "notice not delivered",
            notice=stored.id,
            title=notice.title,
            attempts=stored.attempts + 1,
            retry_at=retry_at.isoformat() if retry_at else None,
            errors=errors,
        )
        return False


def _opened(urls: Sequence[str], whose: str = "") -> tuple[_Destination, ...]:
    return tuple(
        _Destination(digest=digest(url), name=whose + _name(number, url), url=url, service=_service(url))
        for number, url in enumerate(urls, start=1)
    )


def next_try(failures: int, now: datetime) -> datetime | None:
    """When to try again after *failures* earlier ones: 30 s doubling to 30 min; None once 24 h were waited."""
    waited = sum((_wait(n) for n in range(failures)), timedelta(0))
    return now + _wait(failures) if waited < GIVE_UP_AFTER else None


def _wait(failures: int) -> timedelta:
    return min(FIRST_RETRY * (1 << min(failures, 10)), LONGEST_RETRY)


def check_destinations(urls: Sequence[str]) -> list[str]:
    """Return a sentence for each of *urls* that Apprise does not understand, without its secret part."""
    _keep_secrets_out_of_logs()
    return [
        f"{_name(number, url)}: Apprise does not understand it (https://github.com/caronc/apprise/wiki has the forms)"
        for number, url in enumerate(urls, start=1)
        if _service(url) is None
    ]


def disarm(text: str) -> str:
    """Return *text* with mentions that would call a whole channel made harmless."""
    for pattern, replacement in _MENTIONS:
        text = pattern.sub(replacement, text)
    return text


def digest(url: str) -> str:
    """A name for a destination that does not give it away."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def hide(text: str, url: str) -> str:
    """Return *text* without any part of *url* that could be a secret (its scheme may stay)."""
    rest = url.partition("://")[2] or url
    parts = {part for part in re.split(r"[/?&=:@#,;\s]+", rest) if len(part) >= HIDE_FROM}
    for part in sorted({rest, *parts}, key=len, reverse=True):
        text = text.replace(part, "***")
    return text


def _name(number: int, url: str) -> str:
    """``destination 2 (slack)``: the place in the list, and the scheme where it is one that Apprise knows."""
    scheme = url.partition("://")[0].lower()
    known = "://" in url and re.fullmatch(r"[a-z][a-z0-9]{1,15}", scheme) is not None
    return f"destination {number} ({scheme})" if known else f"destination {number}"


def _service(url: str) -> Any:
    """What Apprise makes of *url*: an object with `notify`, or None."""
    asset = apprise.AppriseAsset(
        app_id="gpu-autoscaler",
        app_desc="GPU node-pool autoscaler",
        app_url="",
        image_url_mask="",  # no pictures from somebody else's server
        image_url_logo="",
        interpret_emojis=False,
        secure_logging=True,
    )
    service = apprise.Apprise(asset=asset)
    return service if service.add(url) else None


def _keep_secrets_out_of_logs() -> None:
    """Keep what Apprise and urllib3 log about a request to themselves: both write the whole URL at DEBUG."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # without one Python would print its warnings on stderr
    wire = logging.getLogger("urllib3.connectionpool")
    wire.setLevel(max(wire.level, logging.INFO))
