"""The store of a replay: what a step reads and writes, as values in memory.

It answers a step without chores as `receiver.adapters.store.SqlStore` does (a test runs worlds on both), in an
eighth of the processor time, and keeps nothing for chores, pages and reports.
"""

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, islice
from statistics import median
from typing import Any

from receiver.core.model.actions import Action, ActionKind, Decision, Outcome, OutcomeKind, VictimStage
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.memory import Control, Memory, NodeLife, PoolMemory
from receiver.core.model.model import Backoff, Drift, LateCount, Offer
from receiver.core.model.usage import Accounted
from receiver.core.money.budget import UNSURE_FOR, may_have_landed
from receiver.core.money.cost import EndedLog
from receiver.core.notices.notice import Notice
from receiver.core.scaling.waits import after_growth, is_late, refused_counts
from receiver.ports import Grounds, StoredAction
from receiver.replay.world.objects import FinishedJob

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NODES_OF_A_MEDIAN = 20
TOOK_EFFECT = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)
REMOVED = (VictimStage.DELETED, VictimStage.GONE)


class ReplayStore:
    """The store of one replay, which has no overrides, answers or alerts.

    *priced* False leaves out nodes that are gone, whose cost then counts in no budget. *finished* are the world's
    finished jobs, in order.
    """

    def __init__(self, *, priced: bool = True, finished: Sequence[FinishedJob] = ()) -> None:
        self._priced = priced
        self._finished = finished
        self._pools: dict[str, PoolMemory] = {}
        self._took: dict[str, deque[timedelta]] = {}  # how long the last nodes took to become usable
        self._living: dict[str, NodeLife] = {}
        self._ended = EndedLog()
        self._open: dict[str, Action] = {}
        self._used_ids: set[str] = set()
        self._closed: list[StoredAction] = []
        self._recent: deque[StoredAction] = deque()
        self._last: dict[str, tuple[int, Hashable]] = {}  # each pool's last decision: its number, and what it said
        self._decisions = 0
        self._told: dict[str, tuple[str, datetime]] = {}
        self._control: Control | None = None
        self._watched_since: datetime | None = None
        self._charged: Charged | None = None
        self._seed: Seed | None = None

    # --- reads of a step

    def memory(self, now: datetime, since: datetime) -> Memory:  # noqa: ARG002 (the log of ended lives is asked for it)
        """Ended lives are only in the log."""
        grown, removed, first = self._changed(now)
        growth = self._ended_growth(now)
        return Memory(
            pools={pool: replace(kept, open_action=self._open.get(pool)) for pool, kept in sorted(self._pools.items())},
            lives=tuple(sorted(self._living.values(), key=lambda x: (x.created_at, x.instance))),
            ended=self._ended if self._priced else None,
            grown_last_hour=grown,
            removed_last_hour=removed,
            first_changed_at=first,
            heartbeat_at=now,
            watched_since=self._watched_since,
            deliveries=(),
            charged=self._charged,
            unanswered=tuple(a for a, outcome in growth if may_have_landed(a, outcome)),
            refused=refused_counts(growth, now),
            seed=self._seed,
        )

    def _changed(self, now: datetime) -> tuple[int, int, datetime | None]:
        while self._recent and (ended := self._recent[0].outcome) is not None and ended.at <= now - HOUR:
            self._recent.popleft()
        grown = removed = 0
        first: datetime | None = None
        for stored in self._recent:
            before = grown, removed
            action, outcome = stored.action, stored.outcome
            if action.kind is ActionKind.RETIRE:
                removed += sum(v.stage in REMOVED for v in action.victims)
            elif outcome is not None and outcome.kind is OutcomeKind.CONFIRMED:
                grown += action.to_count - action.from_count
            if first is None and (grown, removed) != before and outcome is not None:
                first = outcome.at
        return grown, removed, first

    def _ended_growth(self, now: datetime) -> Sequence[tuple[Action, Outcome]]:
        found: list[tuple[Action, Outcome]] = []
        for stored in reversed(self._recent):
            if stored.outcome is None or stored.outcome.at < now - UNSURE_FOR:
                break
            if stored.action.kind is ActionKind.GROW:
                found.append((stored.action, stored.outcome))
        return found[::-1]

    def control(self) -> Control | None:
        return self._control

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        return {topic: said for topic, said in self._told.items() if topic.startswith(prefix)}

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        found = chain((StoredAction(action=a) for a in self._open.values()), reversed(self._closed))
        return list(islice((s for s in found if pool is None or s.action.pool == pool), limit))

    def lasted(self, limit: int) -> Sequence[timedelta]:
        return [job.finished_at - job.started_at for job in self._finished[-limit:]]

    def node_lives(self, since: datetime) -> Sequence[NodeLife]:
        over = (x for x in self._ended.lives if x.gone_at is not None and x.gone_at > since)
        lives = [*over, *self._living.values()]
        return sorted(lives, key=lambda x: (x.created_at, x.instance))

    # --- writes of a step

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
        self._watched_since = self._watched_since or (at if required else None)
        for pool, shown in required.items():
            self._count(pool, shown, at)
        for pool, offer in (offers or {}).items():
            held = self._kept(pool).offer
            if held is None or offer.at - held.at >= HOUR or replace(held, at=offer.at) != offer:
                self._change(pool, offer=offer)
        for life in lives:
            before = self._living.get(life.instance)
            if before is life:
                continue
            if life.gone_at is not None:
                if before is not None:
                    del self._living[life.instance]
                    self._ended.add(life)
                continue
            self._living[life.instance] = life
            if life.usable_at is not None and (before is None or before.usable_at is None):
                self._became_usable(life)
        for pool in works:
            if self._kept(pool).provisioning is not None:
                self._change(pool, provisioning=None)
        for pool, drift in (drifts or {}).items():
            past = self._kept(pool).drifts
            self._change(pool, drifts=(*(d for d in past if d.at > at - 2 * DAY), drift))

    def _count(self, pool: str, shown: int, at: datetime) -> None:
        past = self._kept(pool)
        if past.required_since is None or past.required != shown:
            self._change(pool, required=shown, required_since=at)
        if past.late is not None and not is_late(past.late, shown):
            self._change(pool, late=None)

    def _became_usable(self, life: NodeLife) -> None:
        if life.usable_at is not None and life.seen_at is not None and life.usable_at > life.seen_at:
            took = self._took.setdefault(life.pool, deque(maxlen=NODES_OF_A_MEDIAN))
            took.appendleft(max(life.usable_at - life.created_at, timedelta(0)))
            self._change(life.pool, ready_in=timedelta(seconds=median(x.total_seconds() for x in took)))

    def decided(self, decision: Decision, made_from: Grounds | None = None) -> int:  # noqa: ARG002 (not read)
        said = (decision.present, decision.target, tuple(decision.verdicts))
        number, before = self._last.get(decision.pool, (0, None))
        if before != said:
            self._decisions += 1
            number = self._decisions
            self._last[decision.pool] = (number, said)
        return number

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        if action.pool in self._open or action.id in self._used_ids:
            return False
        self._used_ids.add(action.id)
        self._open[action.pool] = action
        if provisioning is not None:
            self._change(action.pool, provisioning=provisioning)
        return True

    def progressed(self, action: Action) -> None:
        known = self._open.get(action.pool)
        if known is not None and known.id == action.id:
            self._open[action.pool] = action

    def closed(
        self,
        action: Action,
        outcome: Outcome,
        backoff: Backoff | None,
        notice: Notice | None = None,  # noqa: ARG002 (not sent)
        *,
        late: LateCount | None = None,
    ) -> None:
        known = self._open.get(action.pool)
        if known is None or known.id != action.id:
            return
        del self._open[action.pool]
        stored = StoredAction(action=action, outcome=outcome)
        self._closed.append(stored)
        self._recent.append(stored)
        grows = action.kind is ActionKind.GROW
        changes: dict[str, Any] = {}
        held = "backoff" if grows else "removal_backoff"
        if outcome.kind in TOOK_EFFECT:
            changes = {"last_grow_at" if grows else "last_shrink_at": outcome.at, held: backoff}
        elif outcome.kind is OutcomeKind.FAILED and backoff is not None:
            changes = {held: backoff}
            if any(v.stage in REMOVED for v in action.victims):
                changes["last_shrink_at"] = outcome.at
        if late is not None:
            changes["late"] = late
        if changes:
            self._change(action.pool, **changes)
        if grows and outcome.kind is OutcomeKind.CONFIRMED:
            self._expect(action, outcome.at, late)

    def _expect(self, action: Action, at: datetime, late: LateCount | None) -> None:
        past = self._kept(action.pool)
        if late is not None:
            self._change(action.pool, required_since=at)
            return
        lower = past.required < action.to_count
        since = at if lower or past.late is not None else past.required_since
        count, left = max(past.required, action.to_count), after_growth(past.late, action)
        self._change(action.pool, required=count, required_since=since, late=left)

    def say(self, notice: Notice, at: datetime) -> bool:
        """Nothing is sent."""
        before = self._told.get(notice.topic)
        if (before is not None and before[0] == notice.key) or (notice.all_clear and before is None):
            return False
        self._told[notice.topic] = (notice.key, at)
        return True

    def keep_control(self, control: Control, deliveries: Sequence[int] = ()) -> None:  # noqa: ARG002 (none came)
        self._control = control

    def keep_charged(self, charged: Charged) -> None:
        self._charged = charged

    def keep_seed(self, seed: Seed) -> None:
        self._seed = seed

    # --- for chores and people: nothing is kept

    def _nothing(self, *_: Any, **__: Any) -> Any:
        return None

    def _none_of_them(self, *_: Any, **__: Any) -> Any:
        return ()

    snapshot = decision = stand = keep_snapshot = keep_samples = keep_in_use = question_done = _nothing
    account = count_promises = ask = end_override = resume_override = _nothing
    remembered_alerts = usage = questions_standing = _none_of_them

    def accounted(self) -> Accounted:
        return Accounted()

    def _kept(self, pool: str) -> PoolMemory:
        return self._pools.get(pool) or PoolMemory()

    def _change(self, pool: str, **changes: Any) -> None:
        self._pools[pool] = replace(self._kept(pool), **changes)
