"""The store of a replay: what a step reads and writes, as values in memory.

It answers a step without chores as `receiver.adapters.store.SqlStore` does (a test runs worlds on both), in an
eighth of the processor time. What a step keeps for readers (`receiver.ports.RecordStore`) cannot be given to it.
"""

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median

from receiver.core.model.actions import Action, ActionKind, Decision, Outcome, OutcomeKind
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.flights import UNSURE_FOR, may_have_landed
from receiver.core.model.memory import Control, Memory, NodeLife
from receiver.core.model.model import Drift, Offer
from receiver.core.model.signals import Alert
from receiver.core.model.usage import Usage
from receiver.core.money.cost import EndedLog
from receiver.core.scaling.waits import refused_counts
from receiver.ports import Grounds, StoredDecision
from receiver.replay.ledger import HOUR, NODES_OF_A_MEDIAN, REMOVED, Ledger
from receiver.replay.world.objects import FinishedJob


class ReplayStore(Ledger):
    """The store of one replay. It gets no alerts and no overrides, and keeps the last decision of each pool.

    *priced* False leaves out nodes that are gone, whose cost then counts in no budget. *finished* are the world's
    finished jobs, in order.
    """

    def __init__(self, *, priced: bool = True, finished: Sequence[FinishedJob] = ()) -> None:
        super().__init__()
        self._priced = priced
        self._finished = finished
        self._took: dict[str, deque[timedelta]] = {}  # how long the last nodes took to become usable
        self._living: dict[str, NodeLife] = {}
        self._gone = EndedLog()
        self._last: dict[str, StoredDecision] = {}  # by pool
        self._decisions = 0
        self._control: Control | None = None
        self._charged: Charged | None = None
        self._seed: Seed | None = None

    # --- reads of a step

    def memory(self, now: datetime, since: datetime) -> Memory:  # noqa: ARG002 (the log of ended lives is asked for it)
        """Ended lives are only in the log."""
        grown, removed, first = self._changed(now)
        growth = self._ended_growth(now)
        return Memory(
            pools=self._pools_at(now),
            lives=tuple(sorted(self._living.values(), key=lambda x: (x.created_at, x.instance))),
            ended=self._gone if self._priced else None,
            grown_last_hour=grown,
            removed_last_hour=removed,
            first_changed_at=first,
            heartbeat_at=now,
            watched_since=min(self._watched.values(), default=None),
            deliveries=(),
            charged=self._charged,
            unanswered=tuple(a for a, outcome in growth if may_have_landed(a, outcome)),
            refused=refused_counts(growth, now),
            seed=self._seed,
        )

    def _changed(self, now: datetime) -> tuple[int, int, datetime | None]:
        grown = removed = 0
        first: datetime | None = None
        for stored in self._closed_between(now - HOUR):
            before = grown, removed
            action, outcome = stored.action, stored.outcome
            if outcome is None or outcome.at == now - HOUR:
                continue
            if action.kind is ActionKind.RETIRE:
                removed += sum(v.stage in REMOVED for v in action.victims)
            elif outcome.kind is OutcomeKind.CONFIRMED:
                grown += action.to_count - action.from_count
            if first is None and (grown, removed) != before:
                first = outcome.at
        return grown, removed, first

    def _ended_growth(self, now: datetime) -> Sequence[tuple[Action, Outcome]]:
        return [
            (stored.action, stored.outcome)
            for stored in self._closed_between(now - UNSURE_FOR)
            if stored.action.kind is ActionKind.GROW and stored.outcome is not None
        ]

    def control(self) -> Control | None:
        return self._control

    def lasted(self, limit: int) -> Sequence[timedelta]:
        return [job.finished_at - job.started_at for job in self._finished[-limit:]]

    def decision(self, number: int) -> StoredDecision | None:
        return next((last for last in self._last.values() if last.id == number), None)

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:  # noqa: ARG002 (none was delivered)
        return ()

    def usage(self, month: str) -> Sequence[Usage]:  # noqa: ARG002 (no step accounts for any)
        return ()

    def node_lives(self, since: datetime) -> Sequence[NodeLife]:
        over = (x for x in self._gone.lives if x.gone_at is not None and x.gone_at > since)
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
        self._saw_pools(required, at, works, drifts or {}, offers or {})
        for life in lives:
            before = self._living.get(life.instance)
            if before is life:
                continue
            if life.gone_at is not None:
                if before is not None:
                    del self._living[life.instance]
                    self._gone.add(life)
                continue
            self._living[life.instance] = life
            if life.usable_at is not None and (before is None or before.usable_at is None):
                self._became_usable(life)

    def _became_usable(self, life: NodeLife) -> None:
        if life.usable_at is not None and life.seen_at is not None and life.usable_at > life.seen_at:
            took = self._took.setdefault(life.pool, deque(maxlen=NODES_OF_A_MEDIAN))
            took.appendleft(max(life.usable_at - life.created_at, timedelta(0)))
            self._put_pool(life.pool, ready_in=timedelta(seconds=median(x.total_seconds() for x in took)))

    def decided(self, decision: Decision, made_from: Grounds | None = None) -> int:  # noqa: ARG002 (not read)
        last = self._last.get(decision.pool)
        if last is None or _said(last.decision) != _said(decision):
            self._decisions += 1
            last = self._last[decision.pool] = StoredDecision(id=self._decisions, decision=decision)
        return last.id

    def keep_control(self, control: Control, deliveries: Sequence[int] = ()) -> None:  # noqa: ARG002 (none came)
        self._control = control

    def keep_charged(self, charged: Charged) -> None:
        self._charged = charged

    def keep_seed(self, seed: Seed) -> None:
        self._seed = seed


def _said(decision: Decision) -> Hashable:
    """The part of *decision* that is compared with the pool's last one."""
    return decision.present, decision.target, tuple(decision.verdicts)
