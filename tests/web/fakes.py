"""An in-memory store, a clock that stands still and a loop that says what it is told to say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from receiver.core.explain.samples import HeldHours, NodeTurn, PoolMinutes, PoolSample
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.memory import NodeLife
from receiver.core.model.overrides import Answer, Override, Question
from receiver.core.model.policy import BudgetChange
from receiver.core.model.signals import Alert
from receiver.core.model.usage import Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch
from receiver.core.notices.notice import Notice
from receiver.core.report.lines import Counted
from receiver.core.report.report import Spoke
from receiver.core.report.rightsizing import InUse
from receiver.ports import (
    Arrival,
    DecisionFilter,
    Delivery,
    GroundsKept,
    Leader,
    LoopHealth,
    StoredAction,
    StoredDecision,
    StoredNotice,
    StoredOverride,
    TryLater,
)
from receiver.ports.store import EVERY_DECISION

ALL_THE_TIME = Watch(since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2030, 1, 1, tzinfo=UTC))


KEY = "the-random-key-that-the-store-keeps"
LEADER = Leader(name="gpu-autoscaler-0-1-c0ffee", term=4)


@dataclass
class FakeClock:
    """A clock that shows *at* until it is moved."""

    at: datetime

    def now(self) -> datetime:
        return self.at


@dataclass(frozen=True, kw_only=True)
class FakeHealth(LoopHealth):
    """A loop's health that a test writes down."""

    state: str = "leading"
    beat_age: timedelta = timedelta(seconds=2)
    fresh: timedelta = timedelta(seconds=75)
    steps: int = 7
    errors: int = 1
    good_age: timedelta | None = timedelta(seconds=3)
    good_within: timedelta = timedelta(minutes=5)
    leader: Leader | None = LEADER


@dataclass
class FakeInstruments:
    """Keeps the codes it was told."""

    codes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def webhook_answered(self, code: int, seconds: float) -> None:
        self.codes.append(code)
        self.seconds.append(seconds)


@dataclass
class FakeStore:
    """The part of the store that the web side uses; *down* makes every call fail. *log* holds what happened when."""

    log: list[str] = field(default_factory=list)
    down: TryLater | None = None
    decisions_asked: DecisionFilter = EVERY_DECISION
    broken: Exception | None = None
    deliveries: list[tuple[Delivery, datetime]] = field(default_factory=list)
    picture: tuple[Mapping[str, Any], datetime] | None = None
    kept_decisions: list[StoredDecision] = field(default_factory=list)
    kept_actions: list[StoredAction] = field(default_factory=list)
    kept_grounds: dict[int, GroundsKept] = field(default_factory=dict)
    totals: Mapping[str, Any] = field(default_factory=dict)
    kept_counts: list[Counted] = field(default_factory=list)
    kept_spoken: list[Spoke] = field(default_factory=list)
    kept_reports: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    kept_charged: Charged | None = None
    kept_in_use: list[InUse] = field(default_factory=list)
    kept_watched: dict[str, datetime] = field(default_factory=dict)
    kept_usage: list[Usage] = field(default_factory=list)
    kept_unwatched: list[Unwatched] = field(default_factory=list)
    kept_watch: Watch = ALL_THE_TIME
    kept_seeds: list[Seed] = field(default_factory=list)
    kept_workloads: list[WorkloadLife] = field(default_factory=list)
    kept_lives: list[NodeLife] = field(default_factory=list)
    budget_changes: list[tuple[BudgetChange, Notice]] = field(default_factory=list)
    kept_overrides: dict[str, StoredOverride] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    kept_samples: list[PoolSample] = field(default_factory=list)
    kept_turns: list[NodeTurn] = field(default_factory=list)
    kept_arrivals: list[Arrival] = field(default_factory=list)
    kept_messages: list[StoredNotice] = field(default_factory=list)
    kept_questions: dict[str, Question] = field(default_factory=dict)
    sealing: str = KEY  # as read once; empty: never

    def _called(self, name: str) -> None:
        if self.broken is not None:
            raise self.broken
        if self.down is not None:
            raise self.down
        self.log.append(name)

    def sealing_key(self) -> str:
        if not self.sealing:
            self._called("sealing_key")
        return self.sealing

    def remember(self, delivery: Delivery, at: datetime) -> int:
        self._called("remember")
        self.deliveries.append((delivery, at))
        return len(self.deliveries)

    def snapshot(self) -> tuple[Mapping[str, Any], datetime] | None:
        self._called("snapshot")
        return self.picture

    def decisions(self, only: DecisionFilter = EVERY_DECISION, *, limit: int = 50) -> Sequence[StoredDecision]:
        self._called("decisions")
        self.decisions_asked = only
        numbered = [d for d in reversed(self.kept_decisions) if only.before is None or d.id < only.before]
        found = [d for d in numbered if only.pool in (None, d.decision.pool)]
        return found[:limit]

    def decision(self, number: int) -> StoredDecision | None:
        self._called("decision")
        return next((d for d in self.kept_decisions if d.id == number), None)

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        self._called("actions")
        found = [a for a in reversed(self.kept_actions) if pool in (None, a.action.pool)]
        return found[:limit]

    def counts(self) -> Mapping[str, Any]:
        self._called("counts")
        return self.totals

    def change_budget(self, change: BudgetChange, notice: Notice) -> None:
        self._called("change_budget")
        self.budget_changes.append((change, notice))

    def allowances_set(self, month: str) -> Sequence[BudgetChange]:
        self._called("allowances_set")
        return tuple({(c.scope, c.name): c for c, _ in self.budget_changes if c.month == month}.values())

    def set_override(self, override: Override, notice: Notice) -> None:
        self._called("set_override")
        self.kept_overrides[override.id] = StoredOverride(override=override)
        self.notices.append(notice)

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        self._called("end_override")
        kept = self.kept_overrides.get(override)
        if kept is None or kept.ended_at is not None:
            return False
        self.kept_overrides[override] = replace(kept, ended_at=at, ended_by=by)
        self.notices.append(notice)
        return True

    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]:
        self._called("overrides")
        return sorted(self.kept_overrides.values(), key=lambda s: s.override.at, reverse=True)[:limit]

    def override(self, override: str) -> StoredOverride | None:
        self._called("override")
        return self.kept_overrides.get(override)

    def check(self) -> None:
        self._called("check")

    def usage(self, month: str) -> Sequence[Usage]:
        self._called("usage")
        return [row for row in self.kept_usage if row.month == month]

    def unwatched(self, month: str) -> Sequence[Unwatched]:
        self._called("unwatched")
        return [row for row in self.kept_unwatched if row.month == month]

    def watch(self) -> Watch:
        self._called("watch")
        return self.kept_watch

    def seed_of(self, month: str) -> Seed | None:
        self._called("seed_of")
        return next((seed for seed in self.kept_seeds if seed.month == month), None)

    def workload_lives(self, since: datetime, until: datetime) -> Sequence[WorkloadLife]:
        self._called("workload_lives")
        return [x for x in self.kept_workloads if x.created_at <= until and (x.ended_at is None or x.ended_at >= since)]

    def node_lives(self, since: datetime) -> Sequence[NodeLife]:
        self._called("node_lives")
        return [x for x in self.kept_lives if x.gone_at is None or x.gone_at > since]

    def unit_counts(self, month: str) -> Mapping[str, Counted]:
        self._called("unit_counts")
        return {counted.name: counted for counted in self.kept_counts if counted.month == month}

    def in_use(self, month: str) -> Sequence[InUse]:
        self._called("in_use")
        return [row for row in self.kept_in_use if row.month == month]

    def spoken(self, since: datetime, until: datetime) -> Sequence[Spoke]:
        self._called("spoken")
        return [spoke for spoke in self.kept_spoken if spoke.at < until]

    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]:
        self._called("overrides_between")
        return [x for x in self.kept_overrides.values() if x.override.at < until and x.override.until > since]

    def charged_of(self, month: str) -> Charged | None:
        self._called("charged_of")
        return self.kept_charged if self.kept_charged and self.kept_charged.month == month else None

    def closed_report(self, month: str, scope: str, now: datetime) -> Mapping[str, Any] | None:
        self._called("closed_report")
        return self.kept_reports.get((month, scope))

    def closed_scopes(self, month: str, now: datetime) -> frozenset[str]:
        raise NotImplementedError

    def watched(self) -> Mapping[str, datetime]:
        self._called("watched")
        return self.kept_watched

    def held(self, since: datetime, until: datetime) -> HeldHours:
        raise NotImplementedError  # no page asks for it

    def pool_minutes(self, since: datetime, until: datetime) -> Mapping[str, PoolMinutes]:
        raise NotImplementedError  # no page asks for them

    def samples(self, since: datetime, until: datetime, *, pool: str) -> Sequence[PoolSample]:
        self._called("samples")
        return [s for s in self.kept_samples if since <= s.at <= until and s.pool == pool]

    def turns(self, pool: str, since: datetime, until: datetime) -> Sequence[NodeTurn]:
        self._called("turns")
        return [turn for turn in self.kept_turns if turn.pool == pool and turn.at <= until]

    def arrivals(self, since: datetime, until: datetime, *, limit: int = 500) -> Sequence[Arrival]:
        self._called("arrivals")
        return [a for a in reversed(self.kept_arrivals) if since <= a.at <= until][:limit]

    def messages(
        self, since: datetime, until: datetime, *, pool: str | None = None, limit: int = 200
    ) -> Sequence[StoredNotice]:
        self._called("messages")
        found = [m for m in reversed(self.kept_messages) if since <= m.at <= until]
        return [m for m in found if pool in (None, m.notice.pool)][:limit]

    def undelivered(self, *, limit: int = 20) -> Sequence[StoredNotice]:
        self._called("undelivered")
        return [m for m in self.kept_messages if m.sent_at is None and m.given_up_at is None][:limit]

    def grounds(self, number: int) -> GroundsKept | None:
        self._called("grounds")
        return self.kept_grounds.get(number)

    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]:
        self._called("beside")
        numbers = [d.id for d in self.kept_decisions if d.decision.pool == stored.decision.pool]
        before, after = [n for n in numbers if n < stored.id], [n for n in numbers if n > stored.id]
        return max(before, default=None), min(after, default=None)

    def followed(self, number: int) -> Sequence[StoredAction]:
        self._called("followed")
        return [a for a in self.kept_actions if a.action.decision == number]

    # What only the loop uses: the web side has no business here.

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        self._called("remembered_alerts")
        return tuple(
            replace(alert, delivery=number)
            for number, (delivery, at) in enumerate(self.deliveries, start=1)
            if at > since
            for alert in delivery.alerts
        )

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        raise NotImplementedError

    def answer_question(
        self,
        question: str,
        answer: Answer,
        who: str,
        why: str,
        at: datetime,
        notice: Notice,
        override: Override | None = None,
    ) -> bool:
        self._called("answer_question")
        kept = self.kept_questions.get(question)
        if kept is None or not kept.is_open(at):
            return False
        self.kept_questions[question] = replace(kept, answer=answer, who=who, why=why, answered_at=at)
        if override is not None:
            self.kept_overrides[override.id] = StoredOverride(override=override)
        self.notices.append(notice)
        return True

    def questions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[Question]:
        self._called("questions")
        return [q for q in reversed(self.kept_questions.values()) if pool in (None, q.pool)][:limit]

    def question(self, question: str) -> Question | None:
        self._called("question")
        return self.kept_questions.get(question)


def without(picture: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return *picture* less *keys*, as an older version would have kept it."""
    return {k: v for k, v in picture.items() if k not in keys}
