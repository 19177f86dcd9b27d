"""The chores that send the digest of a week on Monday morning and, in observe mode, one each morning.

They run after the step. Failures are logged and retried, and never affect scaling.
"""

from datetime import datetime, timedelta

import structlog

from receiver.capabilities.costs.monthly import as_paid
from receiver.core.model.policy import Policy, Scope
from receiver.core.notices.digest import (
    DAY_TOPIC,
    DIGEST_TOPIC,
    Outlook,
    Week,
    WeekFound,
    digest,
    last_morning,
    last_week,
    observed_digest,
)
from receiver.ports import Store, TryLater, WriterLostError
from receiver.reports.picture import kept_picture

LOOK_EVERY = timedelta(minutes=5)
LATE_FOR = timedelta(days=1)  # after a downtime; the samples of an older week are pruned

log = structlog.get_logger("receiver")


class Digest:
    """Sends a message when it is due, once; *policy* names the zone of its clocks."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self._store, self._policy = store, policy
        self._looked_at: datetime | None = None

    def look(self, now: datetime, *, sure: bool = True) -> None:
        """Send what is due at *now*; raises only WriterLostError. Nothing is sent unless the clock is *sure*."""
        if not sure or (self._looked_at is not None and abs(now - self._looked_at) < LOOK_EVERY):
            return
        self._looked_at = now
        try:
            self._send_due(now)
        except TryLater as error:
            log.warning("digest waits", error=str(error))
        except WriterLostError:
            raise
        except Exception:  # a bug in a digest must not end the loop's step
            log.exception("digest failed")

    def _send_due(self, now: datetime) -> None:
        raise NotImplementedError

    def _told(self, topic: str) -> str:
        """The key of the last message of *topic*; empty for none."""
        last_sent = self._store.told(topic).get(topic)
        return last_sent[0] if last_sent is not None else ""


class ObservedDay(Digest):
    """Sends each morning what act mode would have cost."""

    def _send_due(self, now: datetime) -> None:
        due = last_morning(now, self._policy.timezone)
        if self._told(DAY_TOPIC) >= f"{due:%Y-%m-%d}":
            return
        observed = kept_picture(self._store)[0].observed
        if observed is None or observed.would_usd is None or observed.since is None or observed.until is None:
            return
        if observed.since >= due or due - observed.until > LATE_FOR:  # after the installation the first morning counts
            return
        self._store.say(observed_digest(observed.value, due), now)


class WeekEnd(Digest):
    """Sends the digest once per week. Without a cluster (*watched* False) it does not wait for usage."""

    def __init__(self, store: Store, policy: Policy, *, watched: bool = True) -> None:
        super().__init__(store, policy)
        self._watched = watched

    def _send_due(self, now: datetime) -> None:
        week = last_week(now, self._policy.timezone)
        if now < week.end + LATE_FOR and self._is_due(week):
            self._send(week, now)

    def _is_due(self, week: Week) -> bool:
        until = self._store.watch().until
        accounted = not self._watched or (until is not None and until >= week.end)
        return accounted and self._told(DIGEST_TOPIC) < week.name

    def _send(self, week: Week, now: datetime) -> None:
        lives = [life for life in self._store.node_lives(week.start) if life.created_at < week.end]
        workloads = self._store.workload_lives(week.start, week.end)
        if not lives and not workloads:
            return
        minutes = self._store.pool_minutes(week.start, week.end)
        inputs = WeekFound(
            week=week,
            now=now,
            lives=lives,
            workloads=workloads,
            minutes=minutes,
            held=self._store.held(week.start, week.end),
            outlook=self._outlook(),
        )
        self._store.say(digest(inputs, as_paid(self._policy, self._store)), now)

    def _outlook(self) -> Outlook | None:
        for budget in kept_picture(self._store)[0].budgets:
            if budget.scope == Scope.CLUSTER and budget.month is not None and budget.monthly_usd is not None:
                return Outlook(
                    month=budget.month,
                    monthly=budget.monthly_usd,
                    spent=budget.spent_usd,
                    forecast=budget.forecast_usd,
                )
        return None
