"""Flights: writes to Civo that were sent and whose effect was not seen. They say what a pool's count may still become.

A PUT that was not answered may arrive for a minute, and sets its own count; what it brings shows within five. What Civo
accepted may show in its count a quarter of an hour later.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind, VictimStage, code_of
from receiver.core.model.model import PoolState

MAY_ARRIVE_FOR = timedelta(minutes=1)  # longer than Civo's timeout
UNSURE_FOR = timedelta(minutes=5)  # growth that was sent and not answered shows by then, or never arrived
MUST_FALL_WITHIN = timedelta(minutes=15)  # after a removal; longer than that is no delay
RESCALING = "cannot_scale_already_rescaling_cluster"  # normal while nodes build, and the same for every pool
SEEN = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A write that makes the count of *pool* *target*. *shown* is the count that Civo went on showing when it had
    accepted the write (None: it did not answer)."""

    pool: str
    kind: ActionKind
    target: int
    sent_at: datetime
    shown: int | None = None

    def explains(self, count: int) -> bool:
        """True while Civo's *count* is still moving to the target; any other number was set by others."""
        if self.shown is None or count == self.target:
            return False
        return min(self.target, self.shown) <= count <= max(self.target, self.shown)

    def is_overdue(self, now: datetime) -> bool:
        return now - self.sent_at > MUST_FALL_WITHIN

    def beside(self, growth: Action) -> "Flight | None":
        """What is left of it once *growth* is confirmed: a removal that Civo did not count is still uncounted beside
        the new nodes; a growth that did not show is covered by this one."""
        if self.shown is None or self.target > self.shown:
            return None
        new_nodes = growth.to_count - growth.from_count
        return replace(self, target=self.target + new_nodes, shown=self.shown + new_nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The counts from *low* to *high*."""

    low: int
    high: int

    def __contains__(self, count: int) -> bool:
        return self.low <= count <= self.high


def settle(count: int, flights: Iterable[Flight]) -> Range:
    """Return what *count* may still become. Targets are absolute: they do not add up. Growth lowers no count, because a
    lower one is not asked for while a higher one may arrive."""
    low = high = count
    for flight in flights:
        if flight.kind is ActionKind.GROW:
            high = max(high, flight.target)
        else:
            low = min(low, flight.target)
    return Range(low=low, high=high)


def flights_of(actions: Iterable[Action], pool: str) -> tuple[Flight, ...]:
    """The growth among *actions*, of which none is known to be answered, that is for *pool*."""
    growths = (a for a in actions if a.pool == pool and a.kind is ActionKind.GROW)
    sent = ((a, a.unanswered_at or a.opened_at) for a in growths)
    return tuple(Flight(pool=pool, kind=a.kind, target=a.to_count, sent_at=at) for a, at in sent)


def may_arrive(sent_at: datetime | None, now: datetime) -> bool:
    """True while a request that was sent then and not answered may still take effect (None: every one was answered)."""
    return sent_at is not None and abs(now - sent_at) < MAY_ARRIVE_FOR


def is_answer(code: str) -> bool:
    """True for the *code* of an answer of Civo: its request had no effect."""
    return code == RESCALING or code.startswith("http_4")


def is_unanswered(growth: Action, now: datetime) -> bool:
    """True unless Civo refused the last request of *growth* and no earlier one may take effect any more."""
    return not is_answer(code_of(growth.last_error)) or may_arrive(growth.unanswered_at, now)


def may_have_landed(action: Action, outcome: Outcome) -> bool:
    """True when *action* is growth that ended without knowing whether Civo accepted it. Growth that Civo rejected on
    its first attempt, in the step that opened it, did not. Longer-lived growth may have been sent: a crash can come
    between the PUT and its record."""
    unsure = outcome.kind not in SEEN and (action.attempts > 0 or outcome.at > action.opened_at)
    return action.kind is ActionKind.GROW and unsure


def expected_count(late: Flight | None, civo_count: int, now: datetime) -> int:
    """The nodes requested when Civo shows *civo_count*: a change of ours counts before Civo shows it."""
    return late.target if late is not None and late.explains(civo_count) and not late.is_overdue(now) else civo_count


def late_after(action: Action, state: PoolState, now: datetime) -> Flight | None:
    """What a removal that ends now, well or not, leaves uncounted: None when Civo's count fell, or was raised by others
    meanwhile, or when no step ran for longer than a count takes to fall."""
    if action.kind is not ActionKind.RETIRE:
        return None
    listed = {n.instance for n in state.nodes if not n.leaving}
    deleted = [v for v in action.victims if v.stage is VictimStage.DELETED and v.instance not in listed]
    went = [v.since for v in (*deleted, *(v for v in action.victims if v.stage is VictimStage.GONE))]
    removed, times = len(went), [since for since in went if since is not None]
    if times and now - max(times) > 2 * MUST_FALL_WITHIN:
        return None
    since = max(times, default=now)
    target, civo_count = action.from_count - removed, state.required + state.count.uncounted
    raised = civo_count > action.from_count + state.count.uncounted
    if not removed or raised or civo_count <= target:
        return None
    sent_at = since if timedelta(0) <= now - since <= MUST_FALL_WITHIN else now
    return Flight(pool=action.pool, kind=action.kind, target=target, sent_at=sent_at, shown=civo_count)
