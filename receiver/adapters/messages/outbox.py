"""Deliver the outbox to every destination: grouped, one by one, with retries.

How far each notice is with each destination is in the store, so one that fails does not make the others hear a notice
twice, and a restart or another replica changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from receiver.adapters.messages import cloudevents
from receiver.adapters.messages.destinations import Destination, Routes, keep_secrets_out_of_logs, opened
from receiver.core.model.text import in_zone
from receiver.core.notices import grouping
from receiver.core.notices.grouping import Message, PageLinks
from receiver.core.notices.routing import Format, recipients
from receiver.ports import Clock, OutboxStore, StoredNotice, Telling, TryLater

log = structlog.get_logger("receiver")

FIRST_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(minutes=30)
GIVE_UP_AFTER = timedelta(hours=24)
EVENTS_A_ROUND = 20  # of one group: a slow endpoint must not keep the others waiting
DELIVERED, FAILED = "delivered", "failed"


class Outbox:
    """Deliver notices to every destination that wants them, each once, with retries. All but Slack's blocks and events
    are plain text: the one format that Telegram and mail both show as it was written (underscores and asterisks in pod
    names would turn into emphasis in Markdown)."""

    def __init__(
        self,
        store: OutboxStore,
        destinations: Sequence[str],
        clock: Clock,
        of_teams: Mapping[str, Sequence[str]] | None = None,
        *,
        links: PageLinks,
        routes: Routes | None = None,
        every: timedelta = grouping.AT_MOST_EVERY,
        may_send: Callable[[], bool] = lambda: True,
        zone: str = "UTC",
    ) -> None:
        """Deliver from *store* to *destinations* (``URL`` or ``NAME=URL``, filtered by *routes*); with none, notices go
        to the log. What is about a team that has destinations in *of_teams* goes to them and nowhere else. *links* is
        where messages lead to. Of one group of notices a destination gets at most one message in *every*, but each as
        an event of its own. *may_send* is asked right before each message: of several replicas only the one that leads
        sends. People read times by the clocks of *zone*."""
        keep_secrets_out_of_logs()
        self._store, self._clock, self._links, self._every, self._may_send = store, clock, links, every, may_send
        self._zone = zone
        self._destinations = opened(destinations, routes=routes)
        self._of_teams = {team: opened(urls, f"of team {team} ") for team, urls in (of_teams or {}).items()}
        self._resting: dict[str, datetime] = {}  # by digest: a destination that failed, and when it is tried again

    @property
    def destinations(self) -> tuple[str, ...]:
        return tuple(d.name for destinations in (self._destinations, *self._of_teams.values()) for d in destinations)

    def deliver_due(self, now: datetime) -> int:
        """Deliver what is due at *now*; return how many notices were finished. Raises nothing. A destination that
        failed is tried once in half a minute, after the others: one that hangs costs them its timeout that often and
        no more."""
        finished = 0
        errors: dict[int, list[str]] = {}
        try:
            groups = dict.fromkeys(grouping.group_of(due.notice) for due in self._store.notices_due(now))
            notices_by_group = {group: self._true(group, now) for group in groups}
            for destination, group in self._in_order(notices_by_group):
                self._tell(destination, group, notices_by_group[group], now, errors)
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

    def _audience(self, stored: StoredNotice) -> tuple[Destination, ...]:
        return recipients(stored.notice, self._destinations, self._of_teams)

    def _in_order(self, notices_by_group: Mapping[str, Sequence[StoredNotice]]) -> Sequence[tuple[Destination, str]]:
        """Return which destination gets which group: first those that answered last, then what failed least often."""
        pairs = [
            (destination, group)
            for group, notices in notices_by_group.items()
            for destination in {d.digest: d for stored in notices for d in self._audience(stored)}.values()
        ]

        def failures(pair: tuple[Destination, str]) -> int:
            tried = [_telling(stored, pair[0]).attempts for stored in notices_by_group[pair[1]]]
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
        missing = [n for n in notices if _telling(n, destination).open and destination.route.wants(n.notice)]
        due = [n for n in missing if _is_due(_telling(n, destination), now)]
        if not due or self._rests_until(destination) is not None:
            return
        if destination.format is Format.CLOUDEVENTS:
            for n in due[:EVENTS_A_ROUND]:
                if not self._deliver(destination, self._event(n), [n], [n], errors):
                    return
            return
        last = self._store.reached_last(group, destination.digest, now)
        waiting = [grouping.Waiting(number=n.id, notice=n.notice, at=n.at) for n in missing]
        for bundle in grouping.goes_out(waiting, last, now, self._every):
            message = grouping.compose(bundle.as_one(now), self._links)
            title, text = (in_zone(part, self._zone, now) for part in (message.title, message.text))
            message = replace(message, title=title, text=text)
            self._deliver(destination, message, due, missing, errors)

    def _event(self, stored: StoredNotice) -> Message:
        # Links that answer a question act; events pass through machines that others read.
        message = grouping.compose(replace(stored.notice, question=None), self._links)
        return replace(message, id=cloudevents.event_id(stored), at=stored.at)

    def _deliver(
        self,
        destination: Destination,
        message: Message,
        due: Sequence[StoredNotice],
        missing: Sequence[StoredNotice],
        errors: dict[int, list[str]],
    ) -> bool:
        """Send *message*, which holds *missing*, and store what became of it; True when it was delivered."""
        if not self._may_send():
            return False
        error = destination.send(message)
        at = self._clock.now()
        if not error:
            self._resting.pop(destination.digest, None)
            reached = {n.id: replace(_telling(n, destination), reached_at=at) for n in missing}
            self._store.tell(reached, destination.digest, (destination.name, DELIVERED))
            return True
        self._resting[destination.digest] = at + FIRST_RETRY
        tried: dict[int, Telling] = {}  # what went along keeps its own time
        for n in due:
            attempts = _telling(n, destination).attempts
            retry_at = next_try(attempts, at)
            given_up_at = at if retry_at is None else None
            tried[n.id] = Telling(attempts=attempts + 1, retry_at=retry_at, given_up_at=given_up_at)
            errors.setdefault(n.id, []).append(error)
        self._store.tell(tried, destination.digest, (destination.name, FAILED))
        return False

    def _settle(self, group: str, now: datetime, errors: Mapping[int, Sequence[str]]) -> int:
        """Mark what every destination has as sent, and store until when the rest waits."""
        notices = self._store.notices_like(group)
        everyone = {d.digest for stored in notices for d in self._audience(stored)}
        last = {digest: self._store.reached_last(group, digest, now) for digest in everyone}
        finished = 0
        waits: dict[datetime, list[int]] = {}
        for stored in notices:
            audience = self._audience(stored)
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
        spaced = last + self._every if last and destination.format is not Format.CLOUDEVENTS else None
        moments = (spaced, self._rests_until(destination), again)
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
