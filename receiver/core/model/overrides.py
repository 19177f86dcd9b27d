"""What people set on pools, as it is stored: overrides (pin, floor, ceiling, pause, snooze), and answers to approval
requests."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

from receiver.core.model.policy import Unanswered
from receiver.core.model.text import moment, some

EVERY_POOL = "all"  # how people name every pool


class OverrideKind(StrEnum):
    """The kinds of override."""

    PIN = "pin"  # exactly so many nodes
    FLOOR = "floor"  # at least so many nodes, whatever the windows say
    CEILING = "ceiling"  # at most so many nodes, in the place of what the windows say
    PAUSE = "pause"  # no change
    SNOOZE = "snooze"  # no removal but of dead nodes


SIZES = frozenset({OverrideKind.PIN, OverrideKind.FLOOR, OverrideKind.CEILING})  # these say a number of nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An override of *pool* (a pool id, None for every pool); *nodes* is None for kinds without a number.

    It is in force from *at* until just before *until* (both UTC), unless it is ended earlier.
    """

    id: str
    kind: OverrideKind
    who: str
    why: str
    at: datetime
    until: datetime
    pool: str | None = None
    nodes: int | None = None

    def holds(self, now: datetime) -> bool:
        """True while it is in force."""
        return self.at <= now < self.until

    def concerns(self, pool: str) -> bool:
        """True when it applies to the pool with this id."""
        return self.pool in (None, pool)

    @property
    def ends(self) -> tuple[str, datetime]:
        """What ends it, and when it ends by itself."""
        by = f"the {self.kind} of {self.who} ends at {moment(self.until)}"
        return f"wait until {by}, or end it: gpu-autoscaler override end {self.id}", self.until

    def __str__(self) -> str:
        """``pin of 3 nodes by alice until 2026-11-21 18:00 UTC: load test``."""
        size = "" if self.nodes is None else f" of {some(self.nodes, 'node')}"
        return f"{self.kind}{size} by {self.who} until {self.until:%Y-%m-%d %H:%M} UTC: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverridesInForce:
    """The overrides in force for one pool at one moment: the newest of each kind."""

    pin: Override | None = None
    floor: Override | None = None
    ceiling: Override | None = None
    pause: Override | None = None
    snooze: Override | None = None

    @property
    def all(self) -> tuple[Override, ...]:
        """All of them, in order of precedence."""
        return tuple(o for o in (self.pause, self.snooze, self.pin, self.ceiling, self.floor) if o is not None)

    @property
    def least(self) -> Override | None:
        """The one that sets the minimum, if any: a pin goes before a floor."""
        return self.pin or self.floor

    @property
    def most(self) -> Override | None:
        """The one that sets the maximum, if any: a pin goes before a ceiling."""
        return self.pin or self.ceiling


def overrides_in_force(pool: str, overrides: Iterable[Override], now: datetime) -> OverridesInForce:
    """Return which of *overrides* apply to the pool with the id *pool* at *now*.

    Of several of one kind the newest counts, even if an older one names this pool alone and the newer one every pool;
    when the newest ends, an older one that lasts longer counts again.
    """
    in_force = sorted((o for o in overrides if o.concerns(pool) and o.holds(now)), key=lambda o: (o.at, o.id))
    return OverridesInForce(**{o.kind.value: o for o in in_force})


class Standing(StrEnum):
    """The state of an approval request."""

    OPEN = "open"
    ANSWERED = "answered"
    DONE = "done"  # nothing is left to approve
    EXPIRED = "expired"


class Asks(StrEnum):
    """What an approval request is for."""

    REMOVAL = "removal"  # of idle nodes
    EMPTYING = "emptying"  # of busy nodes whose pods consented to be moved; they go when they are empty
    GROWTH = "growth"


class Answer(StrEnum):
    """The possible answers."""

    APPROVE = "approve"
    SNOOZE_1H = "snooze-1h"
    SNOOZE_4H = "snooze-4h"
    SNOOZE_TODAY = "snooze-today"
    SNOOZE_TOMORROW = "snooze-tomorrow"
    PIN = "pin"
    REJECT = "reject"


A_MOMENT = timedelta(minutes=1)  # longer than a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request of *asked_at* to approve that *pool* (an id) goes from *from_count* to *to_count* nodes.

    From *wait_ends* on *unanswered* applies; at *expires_at* the request ends, whatever was answered.
    """

    id: str
    pool: str
    asks: Asks
    from_count: int
    to_count: int
    asked_at: datetime
    due_at: datetime  # when the nodes go at the earliest; growth: at once
    wait_ends: datetime
    expires_at: datetime
    unanswered: Unanswered
    instances: tuple[str, ...] = ()  # of a removal
    nodes: tuple[str, ...] = ()  # their names, in the same order
    usd_per_hour: Decimal | None = None  # the cost of the nodes in question
    answer: Answer | None = None
    who: str = ""
    why: str = ""
    answered_at: datetime | None = None
    done_at: datetime | None = None  # when nothing was left of it: more growth needs another request

    def stands(self, now: datetime) -> bool:
        """True while it has not expired, and, should the clock have been ahead when it was sent, has begun."""
        return self.asked_at <= now < self.expires_at

    def is_open(self, now: datetime) -> bool:
        """True while an answer still changes something."""
        return self.stands(now) and self.answer is None and self.done_at is None

    def standing(self, now: datetime) -> Standing:
        if self.answer is not None:
            return Standing.ANSWERED
        if self.done_at is not None:
            return Standing.DONE
        return Standing.OPEN if self.stands(now) else Standing.EXPIRED

    def is_approved(self, now: datetime) -> bool:
        """True when its change may be made: it was approved, or not answered in time where that is enough."""
        waited_out = self.answer is None and self.unanswered is Unanswered.PROCEED and now >= self.wait_ends
        return self.stands(now) and (self.answer is Answer.APPROVE or waited_out)

    def is_rejected(self, now: datetime) -> bool:
        """True while a rejection keeps the same from being requested again."""
        return self.stands(now) and self.answer is Answer.REJECT

    def covers(self, now: datetime) -> bool:
        """True when what it asks is not requested again: it is open, approved or rejected, or was answered a moment ago
        by an override, which may be missing among facts that were read before."""
        approved = self.is_approved(now) and self.done_at is None
        sets_override = self.answered_at is not None and self.answer not in (Answer.APPROVE, Answer.REJECT)
        lately = sets_override and now - (self.answered_at or now) < A_MOMENT
        return self.is_open(now) or approved or self.is_rejected(now) or lately

    @property
    def proceeds_at(self) -> datetime | None:
        """When the change happens without an answer at the earliest; None: it does not."""
        at = max(self.due_at, self.wait_ends)
        return at if self.unanswered is Unanswered.PROCEED and at < self.expires_at else None

    @property
    def deadline(self) -> datetime:
        """Until when an answer changes something: the one deadline that people are told."""
        return self.proceeds_at or self.expires_at


def next_time(now: datetime, timezone: str, clock: time) -> datetime:
    """Return the next moment (UTC) after *now* at which a clock in *timezone* shows *clock*."""
    zone = ZoneInfo(timezone)
    today = now.astimezone(zone).date()
    days = [datetime.combine(today + timedelta(days=n), clock, zone) for n in (0, 1, 2)]
    once = [day.astimezone(UTC) for day in days]
    twice = [max(first, day.replace(fold=1).astimezone(UTC)) for first, day in zip(once, days, strict=True)]
    return min(moment for moment in (*once, *twice) if moment > now)  # when clocks go back, some times come twice
