"""The ledger in memory: what the store remembers of pools, their actions, overrides and approval requests, as values.

It answers as `receiver.adapters.store.SqlStore` does. Replays use it, and so does the whole store in memory of the
simulator (`simulator.store`), which the contract of the store proves.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind, VictimStage
from receiver.core.model.flights import Flight
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Backoff, Drift, Offer
from receiver.core.model.overrides import Question
from receiver.core.model.usage import IdleSpan
from receiver.core.notices.notice import Notice
from receiver.ports import StoredAction, StoredOverride

HOUR = timedelta(hours=1)
DRIFTS_COUNT = timedelta(days=2)  # three drifts within a day stop scaling for another day
TOOK_EFFECT = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)
REMOVED = (VictimStage.DELETED, VictimStage.GONE)
NODES_OF_A_MEDIAN = 20  # the last that became usable, of a pool
LATEST = datetime.max.replace(tzinfo=UTC)


class Ledger:
    """Pools, actions, overrides, questions, and the last notice of each topic. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._pools: dict[str, PoolMemory] = {}  # without open actions and drifts
        self._watched: dict[str, datetime] = {}  # when a pool's count was first read
        self._drifts: dict[str, tuple[Drift, ...]] = {}  # oldest first
        self._open: dict[str, Action] = {}  # by pool
        self._actions: dict[str, StoredAction] = {}
        self._newest: list[tuple[timedelta, str]] = []  # ids of actions, the newest first
        self._ended: list[tuple[datetime, str]] = []  # ids of closed actions, by when
        self._topics: dict[str, tuple[str, datetime]] = {}
        self._overrides: dict[str, StoredOverride] = {}
        self._questions: dict[str, Question] = {}
        self._idle: dict[tuple[str, datetime], IdleSpan] = {}

    # --- reads

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        newest = (self._actions[number] for _, number in self._newest)
        return tuple(islice((s for s in newest if pool is None or s.action.pool == pool), limit))

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        return {topic: last for topic, last in self._topics.items() if topic.startswith(prefix)}

    def questions_standing(self, now: datetime) -> Sequence[Question]:
        standing = [q for q in self._questions.values() if q.expires_at > now]
        return tuple(sorted(standing, key=lambda q: (q.asked_at, q.id)))

    def _pools_at(self, now: datetime) -> dict[str, PoolMemory]:
        """What each pool did last, with its open action and the drifts that count at *now*."""
        pools: dict[str, PoolMemory] = {}
        for pool in sorted({*self._pools, *self._open}):
            action, memory = self._open.get(pool), self._pools.get(pool)
            drifts = tuple(d for d in self._drifts.get(pool, ()) if now - DRIFTS_COUNT < d.at <= now)
            if memory is None:
                pools[pool] = PoolMemory(required=action.from_count if action is not None else 0, open_action=action)
            elif action is None and not drifts:
                pools[pool] = memory
            else:
                pools[pool] = replace(memory, open_action=action, drifts=drifts)
        return pools

    def _closed_between(self, since: datetime, until: datetime = LATEST) -> Iterator[StoredAction]:
        """The actions that were closed from *since* to *until*, oldest first."""
        first = bisect_left(self._ended, since, key=lambda ended: ended[0])
        last = bisect_right(self._ended, until, key=lambda ended: ended[0])
        return (self._actions[number] for _, number in self._ended[first:last])

    # --- writes

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        if action.pool in self._open or action.id in self._actions:
            return False
        self._open[action.pool] = action
        self._actions[action.id] = StoredAction(action=action)
        insort(self._newest, (LATEST - action.opened_at, action.id))
        if provisioning is not None:
            self._put_pool(action.pool, action.from_count, provisioning=provisioning)
        return True

    def progressed(self, action: Action) -> None:
        open_action = self._known(action)
        if open_action is not None:
            self._open[action.pool] = open_action
            self._actions[action.id] = StoredAction(action=open_action)

    def closed(
        self,
        action: Action,
        outcome: Outcome,
        backoff: Backoff | None,
        notice: Notice | None = None,
        *,
        late: Flight | None = None,
    ) -> None:
        self._close(action, outcome, backoff, late)
        if notice is not None:
            self.say(notice, outcome.at)

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        known = self._overrides.get(override)
        if known is None or known.ended_at is not None:
            return False
        self._overrides[override] = replace(known, ended_at=at, ended_by=by)
        self.say(notice, at)
        return True

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        known = self._overrides.get(override)
        if known is None or known.ended_at is None or known.ended_by is not None:
            return False
        self._overrides[override] = replace(known, ended_at=None)
        self.say(notice, at)
        return True

    def ask(self, question: Question, notice: Notice) -> bool:
        if question.id in self._questions:
            return False
        answered = (q.answered_at for q in self._questions.values() if q.pool == question.pool)
        if any(at is not None and at > question.asked_at for at in answered):
            return False
        self._questions[question.id] = question
        self.say(notice, question.asked_at)
        return True

    def idle_spans(self, since: datetime) -> Sequence[IdleSpan]:
        spans = (span for span in self._idle.values() if span.until is None or span.until >= since)
        return tuple(sorted(spans, key=lambda span: (span.since, span.workload)))

    def keep_idle(self, spans: Sequence[IdleSpan]) -> None:
        self._idle.update({(span.workload, span.since): span for span in spans})

    def question_done(self, question: str, at: datetime) -> None:
        known = self._questions.get(question)
        if known is not None and known.done_at is None:
            self._questions[question] = replace(known, done_at=at)

    def say(self, notice: Notice, at: datetime) -> bool:
        """Remember the topic: a ledger sends nothing."""
        if not self._is_news(notice):
            return False
        self._topics[notice.topic] = (notice.key, at)
        return True

    def _is_news(self, notice: Notice) -> bool:
        """True unless the last notice of its topic had the same key, or it is the all-clear of nothing."""
        last = self._topics.get(notice.topic)
        return not notice.all_clear if last is None else last[0] != notice.key

    def _known(self, action: Action) -> Action | None:
        """The open action of that id with the progress of *action*, or None."""
        open_action = self._open.get(action.pool)
        if open_action is None or open_action.id != action.id:
            return None
        return replace(
            open_action,
            victims=action.victims,
            from_count=action.from_count,
            to_count=action.to_count,
            attempts=action.attempts,
            retry_at=action.retry_at,
            last_error=action.last_error,
            unanswered_at=action.unanswered_at,
        )

    def _close(self, action: Action, outcome: Outcome, backoff: Backoff | None, late: Flight | None) -> bool:
        """Close *action* once and update its pool. False, and nothing is changed, when it is not open."""
        open_action = self._known(action)
        if open_action is None:
            return False
        del self._open[action.pool]
        self._actions[action.id] = StoredAction(action=open_action, outcome=outcome)
        insort(self._ended, (outcome.at, action.id))
        grows = action.kind is ActionKind.GROW
        changes: dict[str, Any] = {}
        backoff_field = "backoff" if grows else "removal_backoff"
        if outcome.kind in TOOK_EFFECT:
            changes = {"last_grow_at" if grows else "last_shrink_at": outcome.at, backoff_field: backoff}
        elif outcome.kind is OutcomeKind.FAILED and backoff is not None:
            changes = {backoff_field: backoff}
            if any(v.stage in REMOVED for v in action.victims):  # deleted before the failure, and gone
                changes["last_shrink_at"] = outcome.at
        if late is not None:
            changes["late"] = late
        if changes:
            self._put_pool(action.pool, action.from_count, **changes)
        if grows and outcome.kind is OutcomeKind.CONFIRMED:
            self._expect(action, outcome.at, late)
        return True

    def _expect(self, action: Action, at: datetime, late: Flight | None) -> None:
        """Remember the count that confirmed growth makes Civo show, so that it is not taken for someone else's."""
        past = self._pools[action.pool]
        if late is not None:  # Civo still shows the old count, but the new nodes have been requested as of now
            self._put_pool(action.pool, required_since=at)
            return
        lower = past.required < action.to_count
        since = at if lower or past.late is not None else past.required_since
        count = max(past.required, action.to_count)
        self._put_pool(action.pool, required=count, required_since=since, late=past.late and past.late.beside(action))

    def _saw_pools(
        self,
        required: Mapping[str, int],
        at: datetime,
        works: Collection[str],
        drifts: Mapping[str, Drift],
        offers: Mapping[str, Offer],
    ) -> Collection[str]:
        """Take in what a step saw of pools; return those whose drift is new."""
        for pool, count in required.items():
            self._watched.setdefault(pool, at)
            self._count(pool, count, at)
        for pool, offer in offers.items():
            memory = self._pools.get(pool)
            if memory is not None and _differ(memory.offer, offer):
                self._put_pool(pool, offer=offer)
        for pool in works:
            if pool in self._pools and self._pools[pool].provisioning is not None:
                self._put_pool(pool, provisioning=None)
        new = {pool: d for pool, d in drifts.items() if all(d.at != past.at for past in self._drifts.get(pool, ()))}
        for pool, drift in new.items():
            self._drifts[pool] = tuple(sorted((*self._drifts.get(pool, ()), drift), key=lambda d: d.at))
        return new

    def _count(self, pool: str, count: int, at: datetime) -> None:
        """Remember *count* if it changed. One that reaches a late count, or exceeds it, ends that."""
        past = self._pools.get(pool)
        if past is None or past.required_since is None or past.required != count:
            self._put_pool(pool, required=count, required_since=at)
        if past is not None and past.late is not None and not past.late.explains(count):
            self._put_pool(pool, late=None)

    def _put_pool(self, pool: str, only_new: int = 0, **changes: Any) -> None:
        """Change what is known of *pool*; a pool that was not known begins with the count *only_new*."""
        self._pools[pool] = replace(self._pools.get(pool) or PoolMemory(required=only_new), **changes)


def _differ(stored: Offer | None, offer: Offer) -> bool:
    """True when *offer* differs from the stored one, or is an hour newer."""
    return stored is None or offer.at - stored.at >= HOUR or replace(stored, at=offer.at) != offer
