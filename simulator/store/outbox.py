"""The outbox in memory: each notice is sent once per topic and key, and kept until every destination has it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from receiver.adapters.store.figures import MESSAGES
from receiver.adapters.store.outbox import LONGEST_WAIT
from receiver.core.notices.grouping import OVER, SAID_EACH_STEP, group_of
from receiver.core.notices.notice import Notice
from receiver.ports import StoredNotice, Telling, TryLater
from receiver.replay.ledger import Ledger
from simulator.store.forms import kept, moment
from simulator.store.part import StorePart


@dataclass(slots=True)
class Row:
    """A notice in the outbox: `StoredNotice`, its *group*, and when it is to be tried again."""

    stored: StoredNotice
    group: str
    retry_at: datetime | None = None
    tellings: dict[str, Telling] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.stored.id

    @property
    def notice(self) -> Notice:
        return self.stored.notice

    @property
    def waits(self) -> bool:
        """True until it was delivered or given up."""
        return self.stored.sent_at is None and self.stored.given_up_at is None


class Outbox(StorePart, Ledger):
    """Notices, and how far each is with each destination."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[int, Row] = {}
        self._waiting: dict[int, Row] = {}  # those to be delivered still

    # --- of the step

    def say(self, notice: Notice, at: datetime) -> bool:
        self._reads()
        notice = kept(notice)
        if not self._is_news(notice):
            return False
        self._writes()
        return self._say(notice, at)

    def _say(self, notice: Notice, at: datetime) -> bool:
        """Put *notice*, as it is kept, into the outbox."""
        if not super().say(notice, moment(at)):
            return False
        row = Row(StoredNotice(id=len(self._rows) + 1, notice=notice, at=moment(at)), group_of(notice))
        self._rows[row.number] = self._waiting[row.number] = row
        return True

    def stand(self, notices: Sequence[Notice], at: datetime, *, complete: bool) -> Sequence[Notice]:
        self._reads()
        standing = {notice.topic: notice for notice in map(kept, notices)}
        waits = complete and any(row.notice.cause in SAID_EACH_STEP for row in self._in_order())
        if not waits and not any(self._is_news(kept(notice)) for notice in notices):
            return ()
        self._writes()
        said = [notice for notice in notices if self._say(kept(notice), at)]
        repeated = [row for row in self._in_order() if complete and row.notice.cause in SAID_EACH_STEP]
        for row in repeated:
            self._bring_up_to_date(row, standing.get(row.notice.topic), at)
        return said

    def _bring_up_to_date(self, row: Row, now: Notice | None, at: datetime) -> None:
        """Give a waiting notice that steps repeat the words of *now*; withdraw it where nothing stands any more."""
        notice = row.notice
        if now is None:
            self._set(row, given_up_at=at, last_error=OVER)
            reached = any(telling.reached_at is not None for telling in row.tellings.values())
            if not reached and self._topics.get(notice.topic, ("",))[0] == notice.key:  # it may be sent again
                del self._topics[notice.topic]
        elif now.key == notice.key and (now.title, now.body) != (notice.title, notice.body):
            words = replace(notice, title=now.title, body=now.body)
            # After a failed attempt the age stays: GpuAutoscalerNoticesStuck reads it.
            self._set(row, notice=words, at=row.stored.at if row.stored.attempts else at)

    def _set(self, row: Row, **changes: object) -> None:
        row.stored = replace(row.stored, **changes)  # type: ignore[arg-type]
        if not row.waits:
            self._waiting.pop(row.number, None)

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        self._reads()
        return super().told(prefix)

    # --- of the courier

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]:
        self._reads()
        due = [
            row
            for row in self._in_order()
            # A time further away than LONGEST_WAIT was set under a clock that was ahead.
            if row.retry_at is None or row.retry_at <= now or row.retry_at > now + LONGEST_WAIT
        ]
        return tuple(row.stored for row in due[:limit])

    def notices_like(self, group: str, limit: int = 1000) -> Sequence[StoredNotice]:
        self._reads()
        found = [row for row in self._in_order() if row.group == group][:limit]
        newest = {row.notice.topic: row for row in self._rows.values()}
        return tuple(
            replace(
                row.stored,
                tellings=dict(row.tellings),
                followed_by=last.notice.cause if (last := newest[row.notice.topic]).number > row.number else None,
            )
            for row in found
        )

    def reached_last(self, group: str, destination: str, now: datetime) -> datetime | None:
        self._reads()
        tellings = (row.tellings.get(destination) for row in self._rows.values() if row.group == group)
        moments = (telling.reached_at for telling in tellings if telling is not None)
        return max((at for at in moments if at is not None and at <= now), default=None)

    def notice_sent(self, notice: int, at: datetime) -> None:
        self._writes()
        for row in self._chosen([notice]):
            self._set(row, sent_at=moment(at))
            self._add("notices", "sent")

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        self._writes()
        for row in self._chosen([notice]):
            row.retry_at = retry_at
            given_up = None if retry_at is not None else moment(at)
            self._set(row, attempts=row.stored.attempts + 1, last_error=error, given_up_at=given_up)
            if given_up is not None:
                self._add("notices", "failed")

    def notices_over(self, numbers: Collection[int], at: datetime) -> None:
        self._writes()
        for row in self._chosen(numbers):
            self._set(row, given_up_at=moment(at), last_error=OVER)

    def notices_wait(self, numbers: Collection[int], until: datetime) -> None:
        self._writes()
        for row in self._chosen(numbers):
            row.retry_at = moment(until)

    def tell(self, numbers: Mapping[int, Telling], destination: str, outcome: tuple[str, str]) -> None:
        self._writes()
        if not numbers.keys() <= self._rows.keys():
            raise TryLater("store: FOREIGN KEY constraint failed", code="store")
        for number, telling in numbers.items():
            self._rows[number].tellings[destination] = kept(telling)
        self._add(MESSAGES, *outcome)

    def _chosen(self, numbers: Collection[int]) -> list[Row]:
        """Those of *numbers* that are to be delivered still."""
        return [self._waiting[number] for number in numbers if number in self._waiting]

    def _in_order(self) -> Iterator[Row]:
        """The undelivered ones, oldest first: they were added in that order."""
        return iter(self._waiting.values())

    # --- of pages

    def messages(
        self, since: datetime, until: datetime, *, pool: str | None = None, limit: int = 200
    ) -> Sequence[StoredNotice]:
        self._reads()
        newest = (row.stored for row in reversed(self._rows.values()))
        found = [s for s in newest if since <= s.at <= until and pool in (None, s.notice.pool)]
        return tuple(found[:limit])

    def undelivered(self, *, limit: int = 20) -> Sequence[StoredNotice]:
        self._reads()
        return tuple(row.stored for row in list(self._in_order())[:limit])
