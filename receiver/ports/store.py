"""The store, the durable memory: one Protocol per user of it, and the values that it returns. Every call is one
transaction and raises TryLater when the database fails. Months are calendar months (``2026-11``)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from receiver.core.explain.samples import HeldHours, NodeTurn, PoolMinutes, PoolSample
from receiver.core.model.actions import Action, Decision, Outcome
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.flights import Flight
from receiver.core.model.memory import Control, Memory, NodeLife
from receiver.core.model.model import Backoff, Drift, Facts, Offer
from receiver.core.model.overrides import Override, Question
from receiver.core.model.policy import BudgetChange, Policy
from receiver.core.model.signals import Alert
from receiver.core.model.usage import Accounted, Accounting, IdleSpan, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch
from receiver.core.notices.notice import Notice
from receiver.core.report.lines import Counted
from receiver.core.report.report import Spoke
from receiver.core.report.rightsizing import InUse

Snapshot = tuple[Mapping[str, Any], datetime]  # the picture of a step, and its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One webhook payload, parsed. *body* is the payload as received."""

    receiver: str
    group_key: str
    alerts: tuple[Alert, ...]
    truncated: int = 0
    body: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An alert as it was first delivered, at time *at*; repeats of the same firing or resolution are left out."""

    alert: Alert
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision with its row number."""

    id: int
    decision: Decision


class DecisionKind(StrEnum):
    """What a decision came to, in the words of a filter."""

    GROW = "grow"
    SHRINK = "shrink"
    BLOCKED = "blocked"  # a rule holds or too little is known, and the size stays
    STEADY = "steady"  # neither, and the size stays
    NEWS = "news"  # any but steady: what people look for first


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """Which decisions are listed; None lets all pass. *rule* must have said more than that it allows the change. They
    are made at *since* or later and before *until*, and have numbers below *before*."""

    pool: str | None = None
    rule: str | None = None
    kind: DecisionKind | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None


EVERY_DECISION = DecisionFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """The inputs of a step's decisions: everything that `assign` and `decide_all` read."""

    facts: Facts
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundsKept:
    """`Grounds` as JSON-able values, in the *format* of the version that decided."""

    format: int
    facts: Mapping[str, Any]
    policy: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAction:
    """An action and its outcome (None while it is open)."""

    action: Action
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOverride:
    """An override, when it ended and who ended it: it expired if *ended_at* is set and *ended_by* is None."""

    override: Override
    ended_at: datetime | None = None
    ended_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """The progress of a notice with one destination; *attempts* counts failures."""

    attempts: int = 0
    retry_at: datetime | None = None
    reached_at: datetime | None = None
    given_up_at: datetime | None = None

    @property
    def open(self) -> bool:
        """True until it was delivered or given up."""
        return self.reached_at is None and self.given_up_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNotice:
    """A notice put into the outbox *at* a time, and its outcome: *sent_at* and *given_up_at* are None until it is
    delivered or given up. *attempts* counts failures, *tellings* has its progress by digest of the destination, and
    *followed_by* is the cause of the newest notice of its topic, if that is newer (both by `notices_like` only)."""

    id: int
    notice: Notice
    at: datetime
    attempts: int = 0
    sent_at: datetime | None = None
    given_up_at: datetime | None = None
    last_error: str = ""
    tellings: Mapping[str, Telling] = field(default_factory=dict)
    followed_by: str | None = None


class ShownStore(Protocol):
    """The picture that each step leaves for readers."""

    def snapshot(self) -> Snapshot | None: ...  # None before the first step


class CommonStore(Protocol):
    """Calls that both the step and the server need."""

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]: ...  # the newest per fingerprint
    def control(self) -> Control | None: ...  # None before the first step
    def decision(self, number: int) -> StoredDecision | None: ...
    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]: ...  # newest first
    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]: ...  # key and time of each topic's last notice
    def usage(self, month: str) -> Sequence[Usage]: ...  # one row per instance, workload and owner
    def idle_spans(self, since: datetime) -> Sequence[IdleSpan]: ...  # those not over before *since*, oldest first

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        """End the override of that id, *by* an operator or because it expired (None), and put *notice* into the outbox.
        False, and nothing is written, when it does not exist or has ended already."""


class StepStore(CommonStore, Protocol):
    """Calls of a step, except for what it keeps for readers (`RecordStore`)."""

    def memory(self, now: datetime, since: datetime) -> Memory: ...  # with the lives not gone by *since*

    def keep_control(self, control: Control, deliveries: Sequence[int] = ()) -> None:
        """Store the control state for the next step and, in the same transaction, mark *deliveries* as considered."""

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
        """Insert or update node lives by instance id, and the required counts that Civo shows, by pool.

        Stages of provisioning that a life has newly passed are counted in the histograms of its pool. *works* are
        pools in which a node became usable, which ends their provisioning back-off. *drifts* are kept for a week.
        *offers* replace the stored ones, by pool; their times are updated hourly."""

    def keep_charged(self, charged: Charged) -> None: ...  # replaces an older answer for the same month
    def keep_seed(self, seed: Seed) -> None: ...  # replaces an older one for the same month

    def decided(self, decision: Decision, made_from: Grounds | None = None) -> int:
        """Store *decision* with its inputs, *made_from*, if its target, present size or (rule, verdict) pairs differ
        from the pool's last one; return its number, or that of the last one."""

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        """Store *action* as open; False when the pool already has an open action or the id is taken. *provisioning* is
        stored in the same transaction, for an action that removes nodes that never became usable."""

    def progressed(self, action: Action) -> None: ...  # victims, attempts, retry time and last error

    def closed(
        self,
        action: Action,
        outcome: Outcome,
        backoff: Backoff | None,
        notice: Notice | None = None,
        *,
        late: Flight | None = None,
    ) -> None:
        """Close *action* and, in the same transaction, put *notice* into the outbox as `say` does.

        A confirmed or observed action replaces the pool's back-off of its kind (None ends it); a failed one sets it.
        Withdrawn and superseded ones leave back-off and cooldowns as they are. *late* becomes the pool's late count;
        confirmed growth without one ends that of a growth, and raises that of a removal by its nodes."""

    def say(self, notice: Notice, at: datetime) -> bool:
        """Put *notice* into the outbox unless the last one of its topic had the same key; True when it was added. An
        all-clear of a topic without earlier notices is dropped too. Topics are remembered for 90 days."""

    def ask(self, question: Question, notice: Notice) -> bool:
        """Store *question* and put *notice* into the outbox. False, and nothing is written, when its id exists, or when
        another question of its pool was answered after this one was to be asked: the step that asks has not seen that
        answer."""

    def question_done(self, question: str, at: datetime) -> None: ...  # what it asked about no longer applies
    def questions_standing(self, now: datetime) -> Sequence[Question]: ...  # not expired at *now*, oldest first

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        """Undo the expiry of the override of that id, and put *notice* into the outbox. False, and nothing is written,
        when it does not exist, continues, or was ended by an operator."""

    def keep_idle(self, spans: Sequence[IdleSpan]) -> None: ...  # replaces those of the same workload and *since*
    def lasted(self, limit: int) -> Sequence[timedelta]: ...  # of the last ended workloads, from their first binding


class RecordStore(ShownStore, Protocol):
    """Calls by which a step keeps messages, usage, promises and the picture for readers: a replay has none."""

    def stand(self, notices: Sequence[Notice], at: datetime, *, complete: bool) -> Sequence[Notice]:
        """Say each of *notices*, which are true at *at*, and return those that were added.

        Where they are *complete*, so are the waiting notices of the kinds that each step repeats
        (`grouping.SAID_EACH_STEP`): they get their present words; those that are not among *notices* are never sent,
        and may be repeated if they reached no destination."""

    def accounted(self) -> Accounted: ...

    def account(self, accounting: Accounting, since: datetime | None, at: datetime) -> bool:
        """Add *accounting*, which covers *since* to *at*, and move the account to *at*, in one transaction. False, and
        nothing is written, when the account is not at *since*: another process has counted that time. So no time is
        counted twice, whichever process crashes."""

    def keep_in_use(self, measured: Sequence[InUse]) -> None:
        """Add the seconds of *measured* to those of the same month and workload; keep the higher other numbers."""

    def count_promises(self, ended: Mapping[tuple[str, str], int]) -> None: ...  # by pool and how they ended
    def keep_snapshot(self, snapshot: Mapping[str, Any], at: datetime) -> None: ...  # what pages, API, metrics show

    def keep_samples(self, measured: Sequence[PoolSample], doing: Sequence[NodeTurn] | None, at: datetime) -> None:
        """Store *measured* unless samples of this minute exist, and the changes in *doing*, in one transaction. A node
        that is no longer in *doing* is gone; None: the state of every node is unknown. Samples and turns are kept for 8
        days, the last turn of an existing node for longer."""


class ReadStore(CommonStore, ShownStore, Protocol):
    """Calls of pages, API, metrics and reports that read."""

    def node_lives(self, since: datetime) -> Sequence[NodeLife]: ...  # not gone by *since*, oldest first

    def decisions(self, only: DecisionFilter = EVERY_DECISION, *, limit: int = 50) -> Sequence[StoredDecision]:
        """Return the decisions that *only* lets pass, newest first."""

    def grounds(self, number: int) -> GroundsKept | None: ...  # None: not stored
    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]: ...  # None: there is none
    def followed(self, number: int) -> Sequence[StoredAction]: ...  # oldest first
    def spoken(self, since: datetime, until: datetime) -> Sequence[Spoke]: ...  # and each pool's last one before
    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]: ...  # not ended ones first, newest first
    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]: ...  # oldest first
    def override(self, override: str) -> StoredOverride | None: ...
    def questions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[Question]: ...  # newest first
    def question(self, question: str) -> Question | None: ...
    def allowances_set(self, month: str) -> Sequence[BudgetChange]: ...  # the last of each scope and name
    def unwatched(self, month: str) -> Sequence[Unwatched]: ...  # one row per instance
    def watch(self) -> Watch: ...
    def workload_lives(self, since: datetime, until: datetime) -> Sequence[WorkloadLife]: ...  # oldest first
    def in_use(self, month: str) -> Sequence[InUse]: ...
    def seed_of(self, month: str) -> Seed | None: ...  # None: the store covers the whole month
    def charged_of(self, month: str) -> Charged | None: ...  # Civo's last answer
    def watched(self) -> Mapping[str, datetime]: ...  # by pool id
    def unit_counts(self, month: str) -> Mapping[str, Counted]: ...  # the last of each, by name

    def closed_report(self, month: str, scope: str, now: datetime) -> Mapping[str, Any] | None:
        """Return the document of *scope* (`receiver.reports.document.scope_of`) closed by *now*, or None."""

    def closed_scopes(self, month: str, now: datetime) -> frozenset[str]: ...  # of documents closed by *now*
    def samples(self, since: datetime, until: datetime, *, pool: str) -> Sequence[PoolSample]: ...  # oldest first

    def held(self, since: datetime, until: datetime) -> HeldHours: ...  # by the accounting of usage
    def pool_minutes(
        self, since: datetime, until: datetime
    ) -> Mapping[str, PoolMinutes]: ...  # before *until*, by pool

    def turns(self, pool: str, since: datetime, until: datetime) -> Sequence[NodeTurn]:
        """Return the turns of the nodes of *pool* between *since* and *until*, and each node's last one before."""

    def arrivals(self, since: datetime, until: datetime, *, limit: int = 500) -> Sequence[Arrival]: ...  # newest first

    def messages(
        self, since: datetime, until: datetime, *, pool: str | None = None, limit: int = 200
    ) -> Sequence[StoredNotice]:
        """Return the notices created from *since* to *until*, newest first; with *pool* those about it."""

    def undelivered(self, *, limit: int = 20) -> Sequence[StoredNotice]: ...  # oldest first

    def counts(self) -> Mapping[str, Any]:
        """Return totals since the store was created; they do not fall when rows are pruned.

        ``deliveries``: n · ``alerts_by_action``: {action: n}, unknown actions as ``other`` ·
        ``decisions``: {(pool, change): n} · ``actions``: {(pool, kind, outcome): n}, closed ones ·
        ``messages``: {(destination, "delivered" | "failed"): n} ·
        ``notices``: {"pending" | "sent" | "failed": n}, failed are those given up · ``oldest_notice_at``:
        datetime or None, of those pending · ``drifts``: {pool: n} ·
        ``promises``: {(pool, "by_p50" | "by_p90" | "late"): n} ·
        ``provision_buckets``: {(pool, stage, bucket): n}, each node in its smallest bucket alone, and
        ``provision_milliseconds``: {(pool, stage): sum} (`receiver.core.model.memory` names both) · ``open_actions``:
        {pool: opened_at} · ``last_delivery_at``, ``heartbeat_at``, ``last_step_at`` (the last
        that stored its control state): datetime or None.
        """


class WebStore(ReadStore, Protocol):
    """Calls of the server: reads, and writes for webhooks and operators."""

    def remember(self, delivery: Delivery, at: datetime) -> int: ...  # on disk when it returns
    def set_override(self, override: Override, notice: Notice) -> None: ...

    def answer_question(self, question: Question, notice: Notice, override: Override | None = None) -> bool:
        """Store the answer in *question* with the *override* that it sets, and put *notice* into the outbox. False, and
        nothing is written, unless the question is open at the time of the answer and unanswered."""

    def change_budget(self, change: BudgetChange, notice: Notice) -> None: ...  # supersedes the one before it

    def sealing_key(self) -> str:
        """Return the random key of sessions and of links in messages, the same for every replica; the first call makes
        it."""

    def check(self) -> None:
        """Raise TryLater unless a write succeeds: only a write detects a full disk or a missing file."""


class OutboxStore(Protocol):
    """Calls of the courier, which delivers notices."""

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]: ...  # oldest first

    def notices_like(self, group: str, limit: int = 1000) -> Sequence[StoredNotice]:
        """Return the undelivered notices of *group* (`core.notices.grouping`), oldest first, with their tellings."""

    def reached_last(self, group: str, destination: str, now: datetime) -> datetime | None: ...  # not after *now*

    def tell(self, numbers: Mapping[int, Telling], destination: str, outcome: tuple[str, str]) -> None:
        """Store the progress of each notice with *destination* (a digest, never a URL) after one message to it, and
        count that message by *outcome*: the destination's name, and ``delivered`` or ``failed``."""

    def notices_wait(self, numbers: Collection[int], until: datetime) -> None: ...  # none is delivered before *until*
    def notices_over(self, numbers: Collection[int], at: datetime) -> None: ...  # never sent: no longer true
    def notice_sent(self, notice: int, at: datetime) -> None: ...

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        """Count a failed delivery; the next attempt is at *retry_at*, None gives the notice up."""


class Store(StepStore, RecordStore, WebStore, OutboxStore, Protocol):
    """The whole store: all of the above, and the writes of reports."""

    def keep_unit_count(self, counted: Counted) -> None: ...  # replaces the last one of its month and name

    def close_report(self, month: str, scope: str, document: Mapping[str, Any], at: datetime) -> None:
        """Store the finished *document* of a report for good. An existing one is replaced only if it is dated later
        than *at*: it was made under a clock that was ahead."""
