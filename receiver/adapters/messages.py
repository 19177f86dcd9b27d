"""Deliver the outbox to every destination: grouped, one by one, with retries.

A destination is remembered by a digest of its URL; destination URLs hold secrets and appear in no log and no error. How
far each notice is with each destination is in the store, so one that fails does not make the others hear a notice
twice, and a restart or another replica changes nothing. A URL with several targets in it counts as one destination.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote, unquote_plus

import apprise
import structlog

from receiver.core.model.text import harmless
from receiver.core.notices import grouping
from receiver.core.notices.grouping import Message, PageLinks
from receiver.core.notices.notice import Severity
from receiver.ports import Clock, OutboxStore, StoredNotice, Telling, TryLater

ERROR_LENGTH = 300
HIDE_FROM = 5  # characters: shorter parts of a destination are words like "bot", not secrets

# A zero-width space after the sign: the text reads the same, mentions no one, and cannot hide a link.
_MENTIONS = (
    (re.compile(r"@(?=(?:channel|here|everyone|all|room|group|team)\b)", re.IGNORECASE), "@\u200b"),
    (re.compile(r"(?<![A-Za-z0-9_])@(?=\w)"), "@\u200b"),  # @alice, also after a dot, but no mail address
    (re.compile(r"<(?=[!@#]|[a-z][a-z0-9+.-]*:)", re.IGNORECASE), "<\u200b"),  # <!channel>, <@user>, <https://...|text>
    (re.compile(r"\](?=[(\[:])"), "]\u200b"),  # [text](https://...), ![picture](...), [text][1], [1]: https://...
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One destination: its *digest*, its name without secrets, and what Apprise made of its URL (None: nothing)."""

    digest: str
    name: str
    url: str = field(repr=False)
    service: Any = field(repr=False)

    def send(self, message: Message, severity: Severity) -> str:
        """Deliver *message*; return an error without secrets, or nothing when it was taken."""
        if self.service is None:
            return f"{self.name}: Apprise does not understand its URL"
        try:
            with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as said:
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


def opened(urls: Sequence[str], whose: str = "") -> tuple[Destination, ...]:
    """Return the destinations behind *urls*, one that is named twice once; *whose* stands before their names."""
    found = [
        Destination(
            digest=hashlib.sha256(url.encode()).hexdigest()[:16],
            name=whose + _name(number, url),
            url=url,
            service=_service(url),
        )
        for number, url in enumerate(urls, start=1)
        if url not in urls[: number - 1]
    ]
    return tuple(found)


def check_destinations(urls: Sequence[str]) -> list[str]:
    """Return a sentence for each of *urls* that Apprise does not understand, without its secret part."""
    keep_secrets_out_of_logs()
    return [
        f"{_name(number, url)}: Apprise does not understand it, so no message is sent there;"
        " correct its URL (https://github.com/caronc/apprise/wiki has the forms)"
        for number, url in enumerate(urls, start=1)
        if _service(url) is None
    ]


def check_every_destination(everybody: Sequence[str], of_teams: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the same of the destinations of everybody and of each team, each with the variable that holds its URL."""
    found = [f"GPU_AUTOSCALER_NOTIFY_URLS: {said}" for said in check_destinations(everybody)]
    for team, urls in of_teams.items():
        found += [f"GPU_AUTOSCALER_TEAM_NOTIFY_URLS: of team {team} {said}" for said in check_destinations(urls)]
    return found


def oddities(destination: Destination) -> list[str]:
    """Return what a destination that Apprise understands leaves open, so that messages go elsewhere or nowhere."""
    found = []
    for plugin in destination.service or ():
        kind = type(plugin).__name__
        if kind == "NotifyTelegram" and not plugin.targets:
            found.append("names no chat, so messages go to the last sender to the bot, if Telegram still knows it")
        if kind == "NotifySlack" and plugin.mode == "bot" and plugin.channels == ["#general"]:
            found += [] if "general" in destination.url else ["names no channel, so messages go to #general"]
    return found


def disarm(text: str) -> str:
    """Return *text*, which quotes alerts, workloads and other people, with what would act in a chat made harmless.
    That is mentions, links behind other words, and characters that a screen obeys."""
    text = harmless(text)
    for pattern, replacement in _MENTIONS:
        text = pattern.sub(replacement, text)
    return text


def hide(text: str, url: str) -> str:
    """Return *text* without any part of *url* that could be a secret (its scheme may stay), as it is written there or
    as Apprise reads it: ``p%40ss`` is ``p@ss``."""
    rest = url.partition("://")[2] or url
    parts = {part for part in re.split(r"[/?&=:@#,;\s]+", rest) if len(part) >= HIDE_FROM}
    read = {unquote(part) for part in parts} | {unquote_plus(part) for part in parts}
    for part in sorted({rest, *parts, *read}, key=len, reverse=True):
        text = text.replace(part, "***")
    return text


def _name(number: int, url: str) -> str:
    """``destination 2 (slack)``: the place in the list, and the scheme where it is one that Apprise knows."""
    scheme = re.match(r"([a-z][a-z0-9]{1,15})://", url.lower())
    return f"destination {number} ({scheme[1]})" if scheme else f"destination {number}"


def _service(url: str) -> Any:
    asset = apprise.AppriseAsset(
        app_id="gpu-autoscaler",
        app_desc="GPU node-pool autoscaler",
        app_url="",
        image_url_mask="",  # no pictures from third-party servers
        image_url_logo="",
        interpret_emojis=False,
        secure_logging=True,
    )
    service = apprise.Apprise(asset=asset)
    return service if service.add(url) else None


def keep_secrets_out_of_logs() -> None:
    """Keep what Apprise and urllib3 log about a request to themselves: both write the whole URL at DEBUG."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # without one Python would print its warnings on stderr
    wire = logging.getLogger("urllib3.connectionpool")
    wire.setLevel(max(wire.level, logging.INFO))


log = structlog.get_logger("receiver")

FIRST_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(minutes=30)
GIVE_UP_AFTER = timedelta(hours=24)
DELIVERED, FAILED = "delivered", "failed"


class Outbox:
    """Deliver notices to every destination, each once, with retries. Notices are plain text: the one format that
    Slack, Telegram and mail all show as it was written (underscores and asterisks in pod names would turn into
    emphasis in Markdown)."""

    def __init__(
        self,
        store: OutboxStore,
        destinations: Sequence[str],
        clock: Clock,
        of_teams: Mapping[str, Sequence[str]] | None = None,
        *,
        links: PageLinks,
        every: timedelta = grouping.AT_MOST_EVERY,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        """Deliver from *store* to *destinations* (Apprise URLs); with none, notices go to the log. What is about a
        team that has destinations in *of_teams* goes to them and nowhere else. *links* is where messages lead to. Of
        one group of notices a destination gets at most one message in *every*. *may_send* is asked right before each
        message: of several replicas only the one that leads sends."""
        keep_secrets_out_of_logs()
        self._store, self._clock, self._links, self._every, self._may_send = store, clock, links, every, may_send
        self._destinations = opened(destinations)
        self._of_teams = {team: opened(urls, f"of team {team} ") for team, urls in (of_teams or {}).items()}
        self._resting: dict[str, datetime] = {}  # by digest: a destination that failed, and when it is tried again

    @property
    def destinations(self) -> tuple[str, ...]:
        return tuple(d.name for found in (self._destinations, *self._of_teams.values()) for d in found)

    def deliver_due(self, now: datetime) -> int:
        """Deliver what is due at *now*; return how many notices were finished. Raises nothing. A destination that
        failed is tried once in half a minute, after the others: one that hangs costs them its timeout that often and
        no more."""
        finished = 0
        errors: dict[int, list[str]] = {}
        try:
            groups = dict.fromkeys(grouping.group_of(due.notice) for due in self._store.notices_due(now))
            found = {group: self._true(group, now) for group in groups}
            for destination, group in self._in_order(found):
                self._tell(destination, group, found[group], now, errors)
            for group in groups:
                finished += self._settle(group, now, errors)
        except TryLater as error:
            log.warning("notices wait", error=str(error))
        except Exception:
            log.exception("notices failed")
        return finished

    def _true(self, group: str, now: datetime) -> Sequence[StoredNotice]:
        """The undelivered notices of *group* that are not over by now; the others are never sent."""
        notices = self._store.notices_like(group)
        over = [n for n in notices if grouping.is_over(n.notice, n.followed_by)]
        if over:
            self._store.notices_over([n.id for n in over], now)
            log.info("notices are over", group=group, titles=[n.notice.title for n in over])
        return [n for n in notices if n not in over]

    def _audience(self, notices: Sequence[StoredNotice]) -> tuple[Destination, ...]:
        # Notices of one group are of one team.
        return self._of_teams.get(notices[0].notice.team or "", self._destinations) if notices else ()

    def _in_order(self, found: Mapping[str, Sequence[StoredNotice]]) -> Sequence[tuple[Destination, str]]:
        """Return which destination gets which group: first those that answered last, then what failed least often."""
        pairs = [(destination, group) for group, notices in found.items() for destination in self._audience(notices)]

        def failures(pair: tuple[Destination, str]) -> int:
            tried = [_telling(stored, pair[0]).attempts for stored in found[pair[1]]]
            return max(tried) if pair[0].digest in self._resting else -1

        return sorted(pairs, key=failures)

    def _tell(
        self,
        destination: Destination,
        group: str,
        notices: Sequence[StoredNotice],
        now: datetime,
        errors: dict[int, list[str]],
    ) -> None:
        """Send what *destination* does not have of *group* as one message, unless it has to wait."""
        missing = [n for n in notices if _telling(n, destination).open]
        due = [n for n in missing if _is_due(_telling(n, destination), now)]
        if not due or self._rests_until(destination) is not None:
            return
        last = self._store.reached_last(group, destination.digest, now)
        waiting = [grouping.Waiting(number=n.id, notice=n.notice, at=n.at) for n in missing]
        for bundle in grouping.goes_out(waiting, last, now, self._every):
            if not self._may_send():
                return
            notice = bundle.as_one(now)
            error = destination.send(grouping.compose(notice, self._links), notice.severity)
            at = self._clock.now()
            if error:
                self._resting[destination.digest] = at + FIRST_RETRY
                tried: dict[int, Telling] = {}  # what went along keeps its own time
                for n in due:
                    attempts = _telling(n, destination).attempts
                    retry_at = next_try(attempts, at)
                    given_up_at = at if retry_at is None else None
                    tried[n.id] = Telling(attempts=attempts + 1, retry_at=retry_at, given_up_at=given_up_at)
                    errors.setdefault(n.id, []).append(error)
                self._store.tell(tried, destination.digest, (destination.name, FAILED))
            else:
                self._resting.pop(destination.digest, None)
                reached = {n.id: replace(_telling(n, destination), reached_at=at) for n in missing}
                self._store.tell(reached, destination.digest, (destination.name, DELIVERED))

    def _settle(self, group: str, now: datetime, errors: Mapping[int, Sequence[str]]) -> int:
        """Mark what every destination has as sent, and store until when the rest waits."""
        notices = self._store.notices_like(group)
        audience = self._audience(notices)
        last = {d.digest: self._store.reached_last(group, d.digest, now) for d in audience}
        finished = 0
        waits: dict[datetime, list[int]] = {}
        for stored in notices:
            until = min((self._again_at(stored, d, last[d.digest], now) for d in audience), default=None)
            failed = errors.get(stored.id, ())
            if all(not _telling(stored, d).open for d in audience):
                finished += self._finish(stored, audience, failed)
            elif failed:
                self._failed(stored, failed, until)
            elif until is not None:
                waits.setdefault(until, []).append(stored.id)
        for until, numbers in waits.items():
            self._store.notices_wait(numbers, until)
        return finished

    def _finish(self, stored: StoredNotice, audience: Sequence[Destination], failed: Sequence[str]) -> int:
        notice = stored.notice
        if any(_telling(stored, d).given_up_at for d in audience):
            self._failed(stored, failed or ("a destination was given up",), None)
            return 0
        if not audience:
            message = grouping.compose(
                replace(notice, question=None), self._links
            )  # a link in a log lets its readers act
            log.info("notice", title=message.title, body=message.body, severity=notice.severity.value, pool=notice.pool)
        self._store.notice_sent(stored.id, self._clock.now())
        return 1

    def _failed(self, stored: StoredNotice, errors: Sequence[str], retry_at: datetime | None) -> None:
        self._store.notice_failed(stored.id, self._clock.now(), retry_at, "; ".join(errors))
        log.warning(
            "notice given up" if retry_at is None else "notice not delivered",
            notice=stored.id,
            title=stored.notice.title,
            attempts=stored.attempts + 1,
            retry_at=retry_at.isoformat() if retry_at else None,
            errors=list(errors),
        )

    def _again_at(
        self, stored: StoredNotice, destination: Destination, last: datetime | None, now: datetime
    ) -> datetime:
        """When something can be done about *stored* for *destination*, which heard of its group *last*."""
        telling = _telling(stored, destination)
        if not telling.open:
            return datetime.max.replace(tzinfo=now.tzinfo)
        again = None if _is_due(telling, now) else telling.retry_at
        moments = (last + self._every if last else None, self._rests_until(destination), again)
        return max((m for m in moments if m is not None), default=now)

    def _rests_until(self, destination: Destination) -> datetime | None:
        until, now = self._resting.get(destination.digest), self._clock.now()
        return until if until is not None and now < until <= now + FIRST_RETRY else None


def _telling(stored: StoredNotice, destination: Destination) -> Telling:
    return stored.tellings.get(destination.digest, Telling())


def _is_due(telling: Telling, now: datetime) -> bool:
    """True when it is to be tried; a time further away than any was set under a clock ahead of this one."""
    at = telling.retry_at
    return telling.open and (at is None or at <= now or at > now + LONGEST_RETRY)


def next_try(failures: int, now: datetime) -> datetime | None:
    """When to try again after *failures* earlier ones: 30 s doubling to 30 min; None once 24 h were waited."""
    *waited, wait = (min(FIRST_RETRY * (1 << min(n, 10)), LONGEST_RETRY) for n in range(failures + 1))
    return now + wait if sum(waited, timedelta(0)) < GIVE_UP_AFTER else None
