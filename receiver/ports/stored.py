"""What the store keeps, as it gives it back: deliveries, decisions, actions, overrides and notices with what became
of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from receiver.core.model.actions import Action, Decision, Outcome
from receiver.core.model.model import Facts
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Policy
from receiver.core.model.signals import Alert
from receiver.core.notices.sentences import Notice

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
