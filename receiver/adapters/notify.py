"""Deliver the outbox to every destination, with retries.

A destination is remembered by a digest of its URL, so one that fails does not make the others hear a notice
twice, and a restart changes nothing. A URL with several targets in it (two channels) counts as one
destination: name each target in a URL of its own to have them retried one by one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from receiver.adapters.destinations import keep_secrets_out_of_logs, opened
from receiver.core.message import Links, compose
from receiver.ports import Clock, StoredNotice, TryLater

log = structlog.get_logger("receiver")

FIRST_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(minutes=30)
GIVE_UP_AFTER = timedelta(hours=24)


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
        keep_secrets_out_of_logs()
        self._store, self._clock, self._links = store, clock, links
        self._destinations = opened(destinations)
        self._of_teams = {team: opened(urls, f"of team {team} ") for team, urls in (of_teams or {}).items()}

    @property
    def destinations(self) -> tuple[str, ...]:
        """The names of all destinations, without their secrets."""
        of_teams = (d for found in self._of_teams.values() for d in found)
        return tuple(d.name for d in (*self._destinations, *of_teams))

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


def next_try(failures: int, now: datetime) -> datetime | None:
    """When to try again after *failures* earlier ones: 30 s doubling to 30 min; None once 24 h were waited."""
    waited = sum((_wait(n) for n in range(failures)), timedelta(0))
    return now + _wait(failures) if waited < GIVE_UP_AFTER else None


def _wait(failures: int) -> timedelta:
    return min(FIRST_RETRY * (1 << min(failures, 10)), LONGEST_RETRY)
