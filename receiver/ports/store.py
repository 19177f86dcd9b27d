"""The store: the durable memory, by who needs which part of it.

Every call is one transaction, and raises TryLater when the database fails. Months are calendar months (``2026-11``).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from receiver.core.explain.samples import NodeTurn, PoolSample
from receiver.core.model.actions import Action, Decision, Outcome
from receiver.core.model.approval_request import Answer, Question
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.memory import Control, Memory, NodeLife
from receiver.core.model.model import Backoff, Drift, Facts, LateCount, Offer
from receiver.core.model.overrides import Override
from receiver.core.model.policy import BudgetChange, Policy
from receiver.core.model.signals import Alert
from receiver.core.model.usage import Accounted, Accounting, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch
from receiver.core.notices.sentences import Notice
from receiver.core.report.budget_lines import Spoke
from receiver.core.report.lines import Counted
from receiver.core.report.rightsizing import InUse

Snapshot = tuple[Mapping[str, Any], datetime]  # the picture that a step left, and its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One webhook payload, parsed. *body* is the payload as received, for the record."""

    receiver: str
    group_key: str
    alerts: tuple[Alert, ...]
    truncated: int = 0
    body: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An alert as it was first delivered, *at* that time: repeats of the same firing or of its end are left out."""

    alert: Alert
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision with its row number."""

    id: int
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What the decisions of a step were made from: the complete input of `assign` and `decide_all`."""

    facts: Facts
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundsKept:
    """The same as JSON-able values, written in *format* by the version of the program that decided."""

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
    """An override, when it ended and who ended it: *ended_by* None with *ended_at* means that it expired."""

    override: Override
    ended_at: datetime | None = None
    ended_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """How far a notice is with one destination: the number of failed *attempts*, and the present state."""

    attempts: int = 0
    retry_at: datetime | None = None
    reached_at: datetime | None = None
    given_up_at: datetime | None = None

    @property
    def open(self) -> bool:
        """True until the destination has it or it is given up."""
        return self.reached_at is None and self.given_up_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNotice:
    """A notice in the outbox, *attempts* of which failed. *tellings* is its progress by digest of destination.
    *followed_by* is the cause of the newest notice of its topic where that is newer."""

    id: int
    notice: Notice
    attempts: int
    created_at: datetime
    tellings: Mapping[str, Telling] = field(default_factory=dict)
    followed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A notice of the outbox and its outcome: *sent_at* and *given_up_at* are None while it is being delivered."""

    id: int
    notice: Notice
    at: datetime
    attempts: int = 0
    sent_at: datetime | None = None
    given_up_at: datetime | None = None
    last_error: str = ""


class CommonStore(Protocol):
    """What both a step and the server need."""

    def snapshot(self) -> Snapshot | None:
        """Return the latest picture and its time, or None before the first step."""

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        """Return, per fingerprint, the newest alert of the deliveries received after *since*."""

    def decision(self, number: int) -> StoredDecision | None:
        """Return one decision."""

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        """Return actions, newest first."""

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        """Return key and time of the last notice of each topic that begins with *prefix*."""

    def node_lives(self, since: datetime) -> Sequence[NodeLife]:
        """Return the node lives that go on or ended after *since*, oldest first."""

    def usage(self, month: str) -> Sequence[Usage]:
        """Return what workloads held in *month*, one row per instance and workload."""

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        """End the override of that id, *by* a person or because it has expired (None), and put *notice* into the
        outbox; False, and nothing is written, when there is none of that id or it has ended already."""


class StepStore(CommonStore, Protocol):
    """What a step reads and writes."""

    # --- from one step to the next

    def memory(self, now: datetime, since: datetime) -> Memory:
        """Return what a step at *now* needs: with it the lives that go on or ended after *since*."""

    def control(self) -> Control | None:
        """Return what the last step left for the next one, or None before the first."""

    def keep_control(self, control: Control, deliveries: Sequence[int] = ()) -> None:
        """Keep what the next step decides from and, in the same transaction, mark *deliveries* as considered."""

    # --- what a step saw

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
        """Insert or update node lives by instance id, and the last required count by pool (as Civo shows it).

        A stage of provisioning that a life has newly passed is counted in the histograms of its pool. *works* are
        pools of which a node became usable: their provisioning back-off ends. *drifts* are kept for a day. *offers*
        replace those kept, by pool; their time is written to the hour only."""

    def keep_charged(self, charged: Charged) -> None:
        """Keep Civo's answer on what it charged in place of an older one of the same month."""

    def keep_seed(self, seed: Seed) -> None:
        """Keep what a month had cost before this store watched, in place of an older one of the same month."""

    # --- decisions and actions

    def decided(self, decision: Decision, made_from: Grounds | None = None) -> int:
        """Store *decision* if its target, present size or (rule, verdict) pairs differ from the pool's last one, and
        with it what it was *made_from*, for as long as the decision is kept.

        Returns the number of the stored decision, or of the last one when nothing changed.
        """

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        """Store *action* as open; False when the pool has an open action already or the id was used before.

        *provisioning* is stored with it, in the same transaction: the action removes nodes that never came up."""

    def progressed(self, action: Action) -> None:
        """Update an open action's victims, attempts, retry time and last error."""

    def closed(
        self,
        action: Action,
        outcome: Outcome,
        backoff: Backoff | None,
        notice: Notice | None = None,
        *,
        late: LateCount | None = None,
    ) -> None:
        """Close *action* and, in the same transaction, put *notice* into the outbox as `say` does.

        A confirmed or observed one replaces the pool's back-off of its kind (None ends it); a failed one sets it.
        Withdrawn and superseded ones leave back-off and cooldowns as they are. *late* is kept as the pool's late
        count; a confirmed growth without one ends it."""

    def stop_removals(self, pool: str, backoff: Backoff, notice: Notice, at: datetime) -> None:
        """Back *pool* off from removal, forget its late count and put *notice* into the outbox."""

    # --- messages

    def say(self, notice: Notice, at: datetime) -> bool:
        """Put *notice* into the outbox unless the last of its topic had the same key; True when it was put there.

        An all-clear of a topic that has told nothing yet is dropped too. A topic is remembered for 90 days.
        """

    def stand(self, notices: Iterable[Notice], at: datetime) -> None:
        """Take *notices* as everything that is true at *at* of what each step says anew (`grouping.SAID_EACH_STEP`).

        Of the notices that wait in the outbox these get their present words, and the others are never sent. What
        reached no destination may then be said again."""

    # --- people's approval and overrides

    def ask(self, question: Question, notice: Notice) -> bool:
        """Keep *question* and put *notice* into the outbox; False, and nothing is written, when a question of its id
        is kept already, or another one of its pool was answered after this one was to be asked: the step that asks
        has not seen what that answer set, and the next one will."""

    def question_done(self, question: str, at: datetime) -> None:
        """Note that nothing is left of what the question of that id asks."""

    def questions_standing(self, now: datetime) -> Sequence[Question]:
        """Return the questions that have not expired at *now*, answered or not, oldest first."""

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        """Undo that the override of that id expired, and put *notice* into the outbox; False, and nothing is written,
        when there is none of that id, it goes on, or a person ended it."""

    # --- usage, the picture and samples

    def accounted(self) -> Accounted:
        """Return up to when usage is accounted for, and what was held then."""

    def account(self, accounting: Accounting, since: datetime | None, at: datetime) -> bool:
        """Add *accounting*, which covers *since* to *at*, and move the account to *at*, in one transaction.

        False, and nothing is written, when the account does not stand at *since*: another process has counted that
        time. So no time is counted twice, whichever process crashes.
        """

    def keep_in_use(self, found: Sequence[InUse]) -> None:
        """Add the seconds of *found* to those of the same month and workload, and keep the higher numbers."""

    def lasted(self, limit: int) -> Sequence[timedelta]:
        """Return how long the last workloads that ended ran, from the first pod's node on, at most *limit* of them."""

    def keep_snapshot(self, snapshot: Mapping[str, Any], at: datetime) -> None:
        """Replace the picture that pages, API and metrics show (JSON-able)."""

    def keep_samples(self, found: Sequence[PoolSample], doing: Sequence[NodeTurn] | None, at: datetime) -> None:
        """Keep *found* unless samples of this minute are kept, and of *doing* what is new, in one transaction.

        A node that *doing* no longer names is gone; None means that it is unknown what any node does. Samples are kept
        for 8 days, turns for as long unless they are the last one of a node that exists."""


class ReadStore(CommonStore, Protocol):
    """What pages, API, metrics and reports read."""

    # --- decisions

    def decisions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredDecision]:
        """Return decisions, newest first. They are kept for 90 days."""

    def grounds(self, number: int) -> GroundsKept | None:
        """Return what decision *number* was made from; None where that is not kept."""

    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]:
        """Return the numbers of the decisions of the same pool before and after *stored*; None where none is kept."""

    def followed(self, number: int) -> Sequence[StoredAction]:
        """Return the actions that decision *number* led to, oldest first."""

    def spoken(self, since: datetime, until: datetime) -> Sequence[Spoke]:
        """Return the decisions between *since* and *until* and each pool's last one before, oldest first."""

    # --- overrides, questions and budgets

    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]:
        """Return overrides, those that have not ended first, then the newest first."""

    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]:
        """Return the overrides that were in force at some time from *since* to *until*, oldest first."""

    def override(self, override: str) -> StoredOverride | None:
        """Return the override of that id."""

    def questions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[Question]:
        """Return questions, newest first."""

    def question(self, question: str) -> Question | None:
        """Return the question of that id."""

    def allowances_set(self, month: str) -> Sequence[BudgetChange]:
        """Return the changes in force in *month*: the last of each scope and name."""

    # --- usage and costs

    def unwatched(self, month: str) -> Sequence[Unwatched]:
        """Return the time of *month* that was not watched, one row per instance."""

    def watch(self) -> Watch:
        """Return since when usage is accounted for, up to when, and which months were forgotten."""

    def workload_lives(self, since: datetime, until: datetime) -> Sequence[WorkloadLife]:
        """Return the workloads that existed at some time from *since* to *until*, oldest first."""

    def in_use(self, month: str) -> Sequence[InUse]:
        """Return how many of its GPUs each workload of *month* used at once."""

    def seed_of(self, month: str) -> Seed | None:
        """Return what *month* had cost before this store watched, or None when it watched from the beginning."""

    def charged_of(self, month: str) -> Charged | None:
        """Return Civo's last answer on what it charged in *month*."""

    def watched(self) -> Mapping[str, datetime]:
        """Return since when each pool is known, by its id."""

    # --- reports

    def unit_counts(self, month: str) -> Mapping[str, Counted]:
        """Return the last count of each unit of work of *month*, by name."""

    def closed_report(self, month: str, scope: str, now: datetime) -> Mapping[str, Any] | None:
        """Return the finished document of *scope* (`receiver.core.report.document.scope_of`), None without one that
        was made by *now*."""

    def closed_scopes(self, month: str, now: datetime) -> frozenset[str]:
        """Return the scopes of *month* whose finished documents were made by *now*."""

    # --- over time

    def samples(self, since: datetime, until: datetime, *, pool: str) -> Sequence[PoolSample]:
        """Return what was sampled of *pool* from *since* to *until*, oldest first."""

    def utilizations(self, since: datetime, until: datetime) -> Sequence[tuple[str, datetime, float | None]]:
        """Return pool, time and utilization (None: unknown) of each sample from *since* to *until*, oldest first."""

    def turns(self, pool: str, since: datetime, until: datetime) -> Sequence[NodeTurn]:
        """Return the turns of the nodes of *pool* up to *until*, oldest first, each node's last before *since* too."""

    def arrivals(self, since: datetime, until: datetime, *, limit: int = 500) -> Sequence[Arrival]:
        """Return the alerts that came from *since* to *until*, newest first."""

    def messages(
        self, since: datetime, until: datetime, *, pool: str | None = None, limit: int = 200
    ) -> Sequence[Told]:
        """Return what was put into the outbox from *since* to *until*, newest first; with *pool* what is about it."""

    def undelivered(self, *, limit: int = 20) -> Sequence[Told]:
        """Return what waits in the outbox, oldest first."""

    def counts(self) -> Mapping[str, Any]:
        """Return totals since the store was created; they do not fall when rows are pruned.

        ``deliveries``: n · ``alerts_by_action``: {action: n}, unknown actions as ``other`` ·
        ``decisions``: {(pool, change): n} · ``actions``: {(pool, kind, outcome): n}, closed ones ·
        ``messages``: {(destination, "delivered" | "failed"): n} ·
        ``notices``: {"pending" | "sent" | "failed": n}, failed are those given up · ``oldest_notice_at``:
        datetime or None, of those pending · ``drifts``: {pool: n} ·
        ``provision_buckets``: {(pool, stage, bucket): n}, each node in its smallest bucket alone, and
        ``provision_milliseconds``: {(pool, stage): sum} (`receiver.core.model.memory` names both) · ``open_actions``:
        {pool: opened_at} · ``last_delivery_at``, ``heartbeat_at``, ``last_step_at`` (the last
        that stored its control state): datetime or None.
        """


class WebStore(ReadStore, Protocol):
    """What the server reads, and what it writes for webhooks and people."""

    def remember(self, delivery: Delivery, at: datetime) -> int:
        """Keep *delivery* durably and return its number; the commit is on disk when this returns."""

    def set_override(self, override: Override, notice: Notice) -> None:
        """Keep *override* and put *notice* into the outbox."""

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
        """Keep *answer* to the question of that id with the *override* that it sets, and put *notice* into the outbox;
        False, and nothing is written, unless the question is open at *at* and has no answer yet."""

    def change_budget(self, change: BudgetChange, notice: Notice) -> None:
        """Keep *change* in the place of the one before it, and put *notice* into the outbox."""

    def check(self) -> None:
        """Raise TryLater unless a write would work now. It writes: only that finds a full disk or a missing file."""


class OutboxStore(Protocol):
    """What delivery reads and writes."""

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]:
        """Return undelivered notices that are due now, oldest first."""

    def notices_like(self, group: str, limit: int = 1000) -> Sequence[StoredNotice]:
        """Return the undelivered notices of *group* (`core.notices.grouping`), oldest first, with their tellings."""

    def reached_last(self, group: str, destination: str, now: datetime) -> datetime | None:
        """Return when a notice of *group* last reached *destination*, not after *now*."""

    def tell(self, numbers: Mapping[int, Telling], destination: str, outcome: tuple[str, str]) -> None:
        """Keep how far each notice is with *destination* (a digest, never a URL) after one message to it, and count
        that message by *outcome*: the destination's name and what became of it."""

    def notices_wait(self, numbers: Collection[int], until: datetime) -> None:
        """Do nothing about these notices before *until*."""

    def notices_over(self, numbers: Collection[int], at: datetime) -> None:
        """Never send these notices: they are no longer true."""

    def notice_sent(self, notice: int, at: datetime) -> None:
        """Mark a notice as delivered."""

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        """Count a failed delivery; nothing is done before *retry_at*, and None gives the notice up."""


class Store(StepStore, WebStore, OutboxStore, Protocol):
    """The whole store: all of the above, and what reports keep."""

    def keep_unit_count(self, counted: Counted) -> None:
        """Keep *counted* in the place of the last count of its month and name."""

    def close_report(self, month: str, scope: str, document: Mapping[str, Any], at: datetime) -> None:
        """Keep the finished *document* of a report for good; one that is kept already stays as it is.

        A kept document is replaced only if it is dated later than *at*: it was made under a clock that was ahead.
        """
