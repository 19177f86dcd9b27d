"""What comes from outside, in memory: webhook deliveries, overrides, answers to approval requests, and allowances; and
the key of people's sessions and links."""

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from receiver.adapters.store.columns import storable
from receiver.adapters.store.figures import HEARTBEAT, LAST_DELIVERY
from receiver.adapters.store.inbox import ACTIONS
from receiver.core.model.overrides import Override, Question
from receiver.core.model.policy import BudgetChange
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.core.model.usage import IdleSpan
from receiver.core.notices.notice import Notice
from receiver.ports import Arrival, Delivery, StoredOverride, TryLater
from simulator.store.forms import kept, moment
from simulator.store.outbox import Outbox


class People(Outbox):
    """Deliveries, overrides, questions with their answers, and changes of budgets."""

    def __init__(self) -> None:
        super().__init__()
        self._deliveries = 0
        self._unconsidered: dict[int, None] = {}  # numbers, oldest first
        self._arrivals: list[Arrival] = []
        self._by_fingerprint: dict[str, list[tuple[int, Arrival]]] = {}
        self._sealing_key = ""
        self._allowances: dict[tuple[str, str, str], BudgetChange] = {}

    # --- deliveries

    def remember(self, delivery: Delivery, at: datetime) -> int:
        self._writes()
        delivery, alerts, at = kept(delivery), tuple(map(kept, delivery.alerts)), moment(at)
        self._deliveries += 1
        number = self._deliveries
        for alert in alerts:
            arrival = Arrival(alert=replace(alert, delivery=number), at=at)
            self._by_fingerprint.setdefault(alert.fingerprint, []).append((len(self._arrivals), arrival))
            self._arrivals.append(arrival)
        self._unconsidered[number] = None
        actions = Counter(alert.labels.get("action", "") for alert in alerts)
        self._add("deliveries")
        for action, count in actions.items():
            self._add("alerts", action if action in ACTIONS else "other", by=count)
        self._marks[LAST_DELIVERY] = at
        if any(a.firing and a.labels.get("alertname") == HEARTBEAT_ALERT for a in alerts):
            self._marks[HEARTBEAT] = at
        return number

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        self._reads()
        newest: list[tuple[int, Alert]] = []
        for arrivals in self._by_fingerprint.values():
            # By number, not by time: a clock may be set back, numbers only grow.
            found = next(((number, a.alert) for number, a in reversed(arrivals) if a.at > since), None)
            if found is not None:
                newest.append(found)
        return tuple(_copy(alert) for _, alert in sorted(newest, key=lambda one: one[0]))

    def arrivals(self, since: datetime, until: datetime, *, limit: int = 500) -> Sequence[Arrival]:
        self._reads()
        first: dict[tuple[object, ...], Arrival] = {}
        for arrival in self._arrivals:
            alert = arrival.alert
            if since <= arrival.at <= until:
                first.setdefault((alert.fingerprint, alert.starts_at, alert.firing), arrival)
        newest = list(reversed(first.values()))[:limit]
        return tuple(replace(arrival, alert=_copy(arrival.alert)) for arrival in newest)

    def newest(self) -> object:
        """Return what differs once a delivery was stored, or a notice."""
        self._reads()
        return self._deliveries, len(self._rows)

    # --- people

    def sealing_key(self) -> str:
        if not self._sealing_key:  # read once, it needs no store
            self._writes()
            self._sealing_key = secrets.token_hex(32)
        return self._sealing_key

    def set_override(self, override: Override, notice: Notice) -> None:
        self._writes()
        override, notice = kept(override), kept(notice)
        self._add_override(override)
        self._say(notice, override.at)

    def _add_override(self, override: Override) -> None:
        if override.id in self._overrides:
            raise TryLater("store: UNIQUE constraint failed: overrides.id", code="store")
        self._overrides[override.id] = StoredOverride(override=override)

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        self._writes()
        by = by and storable(by)
        return super().end_override(override, moment(at), by, kept(notice))

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        self._writes()
        return super().resume_override(override, at, kept(notice))

    def _overrides_by_age(self) -> list[StoredOverride]:
        return sorted(self._overrides.values(), key=lambda s: (s.override.at, s.override.id))

    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]:
        self._reads()
        found = sorted(self._overrides.values(), key=lambda s: s.override.id)
        found.sort(key=lambda s: s.override.at, reverse=True)
        found.sort(key=lambda s: s.ended_at is not None)
        return tuple(found[:limit])

    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]:
        self._reads()
        return tuple(
            s
            for s in self._overrides_by_age()
            if s.override.at < until and s.override.until > since and (s.ended_at is None or s.ended_at > since)
        )

    def override(self, override: str) -> StoredOverride | None:
        self._reads()
        return self._overrides.get(override)

    # --- budgets

    def change_budget(self, change: BudgetChange, notice: Notice) -> None:
        self._writes()
        change, notice = kept(change), kept(notice)
        self._allowances[change.scope, change.name, change.month] = change
        self._say(notice, change.at)

    def allowances_set(self, month: str) -> Sequence[BudgetChange]:
        self._reads()
        return tuple(change for change in self._allowances.values() if change.month == month)

    # --- questions

    def ask(self, question: Question, notice: Notice) -> bool:
        self._writes()
        return super().ask(kept(question), kept(notice))

    def answer_question(self, question: Question, notice: Notice, override: Override | None = None) -> bool:
        self._writes()
        at = question.answered_at
        assert at is not None
        known, notice = self._questions.get(question.id), kept(notice)
        if known is None or known.answer is not None or known.done_at is not None or known.expires_at <= at:
            return False
        answered = kept(replace(known, answer=question.answer, who=question.who, why=question.why, answered_at=at))
        if override is not None:
            self._add_override(kept(override))
        self._questions[question.id] = answered
        self._say(notice, at)
        return True

    def question_done(self, question: str, at: datetime) -> None:
        self._writes()
        super().question_done(question, moment(at))

    def keep_idle(self, spans: Sequence[IdleSpan]) -> None:
        if spans:
            self._writes()
            super().keep_idle([kept(span) for span in spans])

    def idle_spans(self, since: datetime) -> Sequence[IdleSpan]:
        self._reads()
        return super().idle_spans(since)

    def questions_standing(self, now: datetime) -> Sequence[Question]:
        self._reads()
        return super().questions_standing(now)

    def questions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[Question]:
        self._reads()
        found = sorted((q for q in self._questions.values() if pool in (None, q.pool)), key=lambda q: q.id)
        found.sort(key=lambda q: q.asked_at, reverse=True)
        return tuple(found[:limit])

    def question(self, question: str) -> Question | None:
        self._reads()
        return self._questions.get(question)


def _copy(alert: Alert) -> Alert:
    """The same, which its reader may change."""
    return replace(alert, labels=dict(alert.labels), annotations=dict(alert.annotations))
