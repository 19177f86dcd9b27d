"""Deliver the outbox to every destination: grouped, one by one, with retries.

A destination is remembered by a digest of its URL. How far each notice is with each destination is in the store, so
one that fails does not make the others hear a notice twice, and a restart or another replica changes nothing. A URL
with several targets in it (two channels) counts as one destination: name each target in a URL of its own to have them
retried one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from receiver.adapters.messages.destinations import Destination, keep_secrets_out_of_logs, opened
from receiver.core.notices.grouping import AT_MOST_EVERY, PageLinks, Waiting, compose, goes_out, group_of, is_over
from receiver.ports import Clock, OutboxStore, StoredNotice, Telling, TryLater

log = structlog.get_logger("receiver")

FIRST_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(minutes=30)
GIVE_UP_AFTER = timedelta(hours=24)
DELIVERED, FAILED = "delivered", "failed"


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
        links: PageLinks,
        every: timedelta = AT_MOST_EVERY,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        """Deliver from *store* to *destinations* (Apprise URLs); with none, notices go to the log.

        What is about a team that has destinations in *of_teams* goes to them and nowhere else. *links* is where
        messages lead to. Of one group of notices a destination gets at most one message in *every*. *may_send* is
        asked right before each message: of several replicas only the one that leads sends.
        """
        keep_secrets_out_of_logs()
        self._store, self._clock, self._links, self._every = store, clock, links, every
        self._may_send = may_send
        self._destinations = opened(destinations)
        self._of_teams = {team: opened(urls, f"of team {team} ") for team, urls in (of_teams or {}).items()}
        self._resting: dict[str, datetime] = {}  # by digest: a destination that failed, and when it is tried again

    @property
    def destinations(self) -> tuple[str, ...]:
        """The names of all destinations, without their secrets."""
        of_teams = (d for found in self._of_teams.values() for d in found)
        return tuple(d.name for d in (*self._destinations, *of_teams))

    def deliver_due(self, now: datetime) -> int:
        """Deliver what is due at *now*; return how many notices were finished. Raises nothing.

        A destination that failed is tried once in half a minute, after the others: one that hangs costs them its
        timeout that often and no more.
        """
        finished = 0
        errors: dict[int, list[str]] = {}
        try:
            groups = dict.fromkeys(group_of(due.notice) for due in self._store.notices_due(now))
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
        over = [n for n in notices if is_over(n.notice, n.followed_by)]
        if over:
            self._store.notices_over([n.id for n in over], now)
            log.info("notices are over", group=group, titles=[n.notice.title for n in over])
        return [n for n in notices if n not in over]

    def _audience(self, notices: Sequence[StoredNotice]) -> tuple[Destination, ...]:
        """Who hears of *notices*, which are of one group and so of one team."""
        return self._of_teams.get(notices[0].notice.team or "", self._destinations) if notices else ()

    def _in_order(self, found: Mapping[str, Sequence[StoredNotice]]) -> Sequence[tuple[Destination, str]]:
        """Who is to hear of which group: first those who answered last, and of the others what failed least often."""
        pairs = [(destination, group) for group, notices in found.items() for destination in self._audience(notices)]

        def failures(pair: tuple[Destination, str]) -> int:
            destination, group = pair
            if destination.digest not in self._resting:
                return -1
            return max(_telling(stored, destination).attempts for stored in found[group])

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
        waiting = [Waiting(number=n.id, notice=n.notice, at=n.at) for n in missing]
        for bundle in goes_out(waiting, last, now, self._every):
            if not self._may_send():
                return
            notice = bundle.as_one(now)
            error = destination.send(compose(notice, self._links), notice.severity)
            at = self._clock.now()
            if error:
                self._resting[destination.digest] = at + FIRST_RETRY
                # What went along keeps its own time.
                tried = {n.id: _tried(_telling(n, destination), at) for n in due}
                for number in tried:
                    errors.setdefault(number, []).append(error)
                self._store.tell(tried, destination.digest, (destination.name, FAILED))
            else:
                self._resting.pop(destination.digest, None)
                reached = {n.id: replace(_telling(n, destination), reached_at=at) for n in missing}
                self._store.tell(reached, destination.digest, (destination.name, DELIVERED))

    def _settle(self, group: str, now: datetime, errors: Mapping[int, Sequence[str]]) -> int:
        """Mark what everybody has as sent, and say until when nothing is to be done about the rest."""
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
        """Close a notice with no open destination; 1 if every destination has it, 0 if one was given up."""
        notice = stored.notice
        if any(_telling(stored, d).given_up_at for d in audience):
            self._failed(stored, failed or ("a destination was given up",), None)
            return 0
        if not audience:
            message = compose(replace(notice, question=None), self._links)  # a link in a log lets its readers act
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
        moments = (
            last + self._every if last is not None else None,
            self._rests_until(destination),
            None if _is_due(telling, now) else telling.retry_at,
        )
        return max((m for m in moments if m is not None), default=now)

    def _rests_until(self, destination: Destination) -> datetime | None:
        """When a destination that failed a moment ago is tried again; None when it may be tried now."""
        until, now = self._resting.get(destination.digest), self._clock.now()
        return until if until is not None and now < until <= now + FIRST_RETRY else None


def _telling(stored: StoredNotice, destination: Destination) -> Telling:
    return stored.tellings.get(destination.digest, Telling())


def _tried(before: Telling, at: datetime) -> Telling:
    """How far a notice is after one more try failed *at* this moment."""
    retry_at = next_try(before.attempts, at)
    return Telling(attempts=before.attempts + 1, retry_at=retry_at, given_up_at=at if retry_at is None else None)


def _is_due(telling: Telling, now: datetime) -> bool:
    """True when it is to be tried; a time further away than any was set under a clock ahead of this one."""
    at = telling.retry_at
    return telling.open and (at is None or at <= now or at > now + LONGEST_RETRY)


def next_try(failures: int, now: datetime) -> datetime | None:
    """When to try again after *failures* earlier ones: 30 s doubling to 30 min; None once 24 h were waited."""
    waited = sum((_wait(n) for n in range(failures)), timedelta(0))
    return now + _wait(failures) if waited < GIVE_UP_AFTER else None


def _wait(failures: int) -> timedelta:
    return min(FIRST_RETRY * (1 << min(failures, 10)), LONGEST_RETRY)
