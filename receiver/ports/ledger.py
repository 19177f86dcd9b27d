"""The durable memory: deliveries, decisions, actions, node lives, the outbox."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from receiver.core.model.actions import Action, Decision, Outcome
from receiver.core.model.charges import Charged
from receiver.core.model.control import Control
from receiver.core.model.memory import Memory, NodeLife
from receiver.core.model.model import Backoff, Drift, LateCount, Offer
from receiver.core.model.seed import Seed
from receiver.core.model.signals import Alert
from receiver.core.notices.sentences import Notice
from receiver.ports.budgets import BudgetStore
from receiver.ports.decisions import DecisionStore, Grounds
from receiver.ports.history import HistoryStore
from receiver.ports.overrides import OverrideStore
from receiver.ports.questions import QuestionStore
from receiver.ports.reports import ReportStore
from receiver.ports.usage import UsageStore

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
class Telling:
    """How far a notice is with one destination: *attempts* failed, and what is the case now."""

    attempts: int = 0
    retry_at: datetime | None = None
    reached_at: datetime | None = None
    given_up_at: datetime | None = None

    @property
    def open(self) -> bool:
        """True while the destination is still to get it."""
        return self.reached_at is None and self.given_up_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNotice:
    """A notice in the outbox, *attempts* of which failed. *tellings* is how far it is, by digest of destination.
    *followed_by* is the cause of the newest notice of its topic where that is newer."""

    id: int
    notice: Notice
    attempts: int
    created_at: datetime
    tellings: Mapping[str, Telling] = field(default_factory=dict)
    followed_by: str | None = None


class Store(UsageStore, OverrideStore, QuestionStore, BudgetStore, ReportStore, HistoryStore, DecisionStore, Protocol):
    """The durable memory. Every write is one transaction; every call may raise TryLater (store down)."""

    def remember(self, delivery: Delivery, at: datetime) -> int:
        """Keep *delivery* durably and return its number; the commit is on disk when this returns."""

    def memory(self, now: datetime, since: datetime) -> Memory:
        """Return what a step at *now* needs: lives that are living or ended after *since*."""

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        """Return, per fingerprint, the newest alert of the deliveries received after *since*."""

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
        *late* is kept as the pool's late count; a confirmed growth without one ends it."""

    def stop_removals(self, pool: str, backoff: Backoff, notice: Notice, at: datetime) -> None:
        """Back *pool* off from removal, forget its late count and put *notice* into the outbox, in one transaction."""

    def say(self, notice: Notice, at: datetime) -> bool:
        """Put *notice* into the outbox unless the last of its topic had the same key; True when it was put there.

        An all-clear whose topic has told nothing yet is dropped too.
        """

    def stand(self, notices: Iterable[Notice], at: datetime) -> None:
        """Take *notices* for all that is true at *at* of what every step says anew (`grouping.SAID_EACH_STEP`).

        Of those that wait in the outbox these get their present words, and the others are never sent. What reached no
        destination may then be said again."""

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        """Return what was told last per topic that begins with *prefix*: its key, and when."""

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]:
        """Return undelivered notices of which something is to be done now, oldest first."""

    def notice_sent(self, notice: int, at: datetime) -> None:
        """Mark a notice as delivered."""

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        """Count a failed delivery; nothing is done before *retry_at*, and None gives the notice up."""

    def keep_control(self, control: Control, deliveries: Sequence[int] = ()) -> None:
        """Keep what the next step decides from and, in the same transaction, mark *deliveries* as considered."""

    def control(self) -> Control | None:
        """Return what the last step left for the next one, or None before the first."""

    def keep_snapshot(self, snapshot: Mapping[str, Any], at: datetime) -> None:
        """Replace the picture that pages, API and metrics show (JSON-able)."""

    def snapshot(self) -> Snapshot | None:
        """Return the latest picture and its time, or None before the first step."""

    def counts(self) -> Mapping[str, Any]:
        """Return totals for /metrics: deliveries, alerts, decisions, actions by label values, outbox."""

    def check(self) -> None:
        """Raise TryLater unless a write would work now."""
