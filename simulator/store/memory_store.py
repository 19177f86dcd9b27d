"""The store in memory: its parts together, and what a step reads of everything before it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from receiver.adapters.store.figures import (
    BY_LABELS,
    HEARTBEAT,
    LAST_DELIVERY,
    PROVISION_BUCKETS,
    PROVISION_MILLISECONDS,
)
from receiver.adapters.store.memory import changed_since
from receiver.core.model.actions import Action, ActionKind, Outcome
from receiver.core.model.flights import UNSURE_FOR, Flight, may_have_landed
from receiver.core.model.memory import Control, Memory, NodeLife, PoolMemory, bucket, passed
from receiver.core.model.model import Backoff, Drift, Offer
from receiver.core.notices.notice import Notice
from receiver.core.scaling.waits import refused_counts
from receiver.ports import Snapshot, StoredAction
from receiver.replay.ledger import HOUR, NODES_OF_A_MEDIAN
from simulator.store.decisions import Decisions
from simulator.store.figures import Figures
from simulator.store.forms import fresh, kept, moment
from simulator.store.people import People
from simulator.store.usage import UsageStore


class MemoryStore(People, Decisions, Figures, UsageStore):
    """The whole store, until the process ends. It prunes nothing, and is not safe to use from several threads.

    *sealing_key* is the key of sessions and links that an earlier process made; empty: the first call makes it."""

    def __init__(self, *, sealing_key: str = "") -> None:
        super().__init__()
        self._sealing_key = sealing_key
        self._lives: dict[str, NodeLife] = {}
        self._by_age: tuple[NodeLife, ...] | None = ()  # None: not sorted since the last change
        self._control: Control | None = None
        self._picture: Snapshot | None = None

    def forget(self) -> None:
        """Begin anew, without anything stored."""
        vars(self).clear()
        MemoryStore.__init__(self)

    def reopened(self) -> "MemoryStore":
        """Return the store as a new process opens it: it knows what was stored, and nothing else."""
        self._minute = None
        if self._picture is not None:
            self._picture = fresh(self._picture[0]), self._picture[1]
        return self

    # --- what a step reads

    def memory(self, now: datetime, since: datetime) -> Memory:
        self._reads()
        recent = tuple(self._closed_between(now - HOUR, now + HOUR))  # later ones were closed under a wrong clock
        # Growth dated further ahead was closed under a wrong clock: its reservation would last as long.
        growth = [
            (s.action, s.outcome)
            for s in recent
            if s.action.kind is ActionKind.GROW and s.outcome is not None and abs(s.outcome.at - now) <= UNSURE_FOR
        ]
        lives = self._lives_since(since)
        grown, removed, first = changed_since(recent, lives, now - HOUR)
        overrides = self._overrides_by_age()
        return Memory(
            pools={pool: _copied(known) for pool, known in self._pools_at(now).items()},
            lives=lives,
            grown_last_hour=grown,
            removed_last_hour=removed,
            first_changed_at=first,
            watched_since=min(self._watched.values(), default=None),
            heartbeat_at=self._marks.get(HEARTBEAT),
            deliveries=tuple(self._unconsidered),
            overrides=tuple(s.override for s in overrides if s.ended_at is None),
            ran_out_early=tuple(
                s.override
                for s in overrides
                if s.ended_at is not None and s.ended_by is None and s.override.until > now
            ),
            charged=self._newest_charged(now),
            seed=self._newest_seed(now),
            budget_changes=tuple(self._allowances.values()),
            unanswered=tuple(a for a, outcome in growth if may_have_landed(a, outcome)),
            refused=refused_counts(growth, now),
        )

    def node_lives(self, since: datetime) -> Sequence[NodeLife]:
        self._reads()
        return self._lives_since(since)

    def _lives_since(self, since: datetime) -> tuple[NodeLife, ...]:
        if self._by_age is None:
            self._by_age = tuple(sorted(self._lives.values(), key=lambda x: (x.created_at, x.instance)))
        return tuple(life for life in self._by_age if life.gone_at is None or life.gone_at > since)

    def control(self) -> Control | None:
        self._reads()
        return None if self._control is None else _copied_control(self._control)

    def snapshot(self) -> Snapshot | None:
        self._reads()
        return self._picture

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        self._reads()
        return super().actions(pool=pool, limit=limit)

    def followed(self, number: int) -> Sequence[StoredAction]:
        self._reads()
        found = [s for s in self._actions.values() if s.action.decision == number]
        return tuple(sorted(found, key=lambda s: (s.action.opened_at, s.action.id)))

    def watched(self) -> Mapping[str, datetime]:
        self._reads()
        return dict(self._watched)

    def counts(self) -> Mapping[str, Any]:
        self._reads()
        by_name: dict[str, dict[tuple[str, ...], int]] = {}
        for (name, *labels), total in self._totals.items():
            by_name.setdefault(name, {})[tuple(labels)] = total

        def by_label(name: str) -> dict[str, int]:
            return {labels[0]: total for labels, total in by_name.get(name, {}).items()}

        return {
            "deliveries": by_name.get("deliveries", {}).get((), 0),
            "alerts_by_action": by_label("alerts"),
            "notices": {"sent": 0, "failed": 0, **by_label("notices"), "pending": len(self._waiting)},
            "oldest_notice_at": min((row.stored.at for row in self._waiting.values()), default=None),
            "drifts": by_label("drifts"),
            "open_actions": {pool: action.opened_at for pool, action in self._open.items()},
            "last_delivery_at": self._marks.get(LAST_DELIVERY),
            "heartbeat_at": self._marks.get(HEARTBEAT),
            "last_step_at": None if self._control is None else self._control.at,
            **{name: by_name.get(name, {}) for name in BY_LABELS},
        }

    def check(self) -> None:
        self._writes()

    # --- what a step writes

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        self._writes()
        return super().opened(kept(action), provisioning and kept(provisioning))

    def progressed(self, action: Action) -> None:
        self._writes()
        super().progressed(kept(action))

    def closed(
        self,
        action: Action,
        outcome: Outcome,
        backoff: Backoff | None,
        notice: Notice | None = None,
        *,
        late: Flight | None = None,
    ) -> None:
        self._writes()
        action, outcome = kept(action), kept(outcome)
        backoff, late, notice = backoff and kept(backoff), late and kept(late), notice and kept(notice)
        if self._close(action, outcome, backoff, late):
            self._add("actions", action.pool, action.kind.value, outcome.kind.value)
        if notice is not None:
            self._say(notice, outcome.at)

    def saw(
        self,
        lives: Sequence[NodeLife],
        required: Mapping[str, int],
        at: datetime,
        *,
        works: Collection[str] = (),
        drifts: Mapping[str, Drift] | None = None,
        offers: Mapping[str, Offer] | None = None,
    ) -> None:
        changed = [kept(life) for life in lives if self._lives.get(life.instance) != life]
        at, drifts = moment(at), {pool: kept(drift) for pool, drift in (drifts or {}).items()}
        offers = {pool: _copied_offer(offer) for pool, offer in (offers or {}).items()}
        if self.illness is not None and (changed or drifts):
            self._writes()
        for pool in self._saw_pools(required, at, works, drifts, offers):
            self._add("drifts", pool)
        became_usable: set[str] = set()
        for life in changed:
            before = self._lives.get(life.instance)
            self._lives[life.instance] = life
            for stage, milliseconds in passed(before, life, life.seen_at or at):
                self._add(PROVISION_BUCKETS, life.pool, stage, bucket(milliseconds))
                self._add(PROVISION_MILLISECONDS, life.pool, stage, by=milliseconds)
            if life.usable_at is not None and (before is None or before.usable_at is None):
                became_usable.add(life.pool)
        if changed:
            self._by_age = None
        for pool in became_usable & self._pools.keys():
            self._learn_how_long(pool)

    def _learn_how_long(self, pool: str) -> None:
        """Remember the median time to usable of the last nodes of *pool*."""
        took = [
            (life.usable_at, max(life.usable_at - life.created_at, timedelta(0)))
            for life in self._lives.values()
            if life.pool == pool and life.usable_at and life.seen_at and life.usable_at > life.seen_at
        ]
        last = sorted(took, key=lambda one: one[0], reverse=True)[:NODES_OF_A_MEDIAN]
        if last:
            self._put_pool(pool, ready_in=median(span for _, span in last))  # type: ignore[type-var]  # it adds up

    def keep_control(self, control: Control, deliveries: Sequence[int] = ()) -> None:
        self._writes()
        self._control = _copied_control(control)
        for number in deliveries:
            self._unconsidered.pop(number, None)

    def keep_snapshot(self, snapshot: Mapping[str, Any], at: datetime) -> None:
        self._writes()
        self._picture = snapshot, moment(at)


def _copied(pool: PoolMemory) -> PoolMemory:
    """The same, with an offer that its reader may change."""
    if pool.offer is None:
        return pool
    return replace(pool, offer=_copied_offer(pool.offer))


def _copied_offer(offer: Offer) -> Offer:
    others = tuple(map(_copied_offer, offer.others)) if offer.others else ()
    return replace(offer, allocatable=dict(offer.allocatable), labels=dict(offer.labels), others=others)


def _copied_control(control: Control) -> Control:
    kept_out = None if control.kept_out is None else dict(control.kept_out)
    sources, decisions = dict(control.sources), dict(control.decisions)
    return replace(control, at=moment(control.at), sources=sources, decisions=decisions, kept_out=kept_out)
