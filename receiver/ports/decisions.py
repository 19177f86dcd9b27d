"""What was decided and done before now: read by pages, API and command line, and by a step that compares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from receiver.core.model.actions import Action, Decision, Outcome
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision with its row number."""

    id: int
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What the decisions of a step were made from: all that `assign` and `decide_all` are told."""

    facts: Facts
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundsKept:
    """The same as JSON-able values, written by the version of the program that decided, in *format*."""

    format: int
    facts: Mapping[str, Any]
    policy: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAction:
    """An action with what became of it (None while open)."""

    action: Action
    outcome: Outcome | None = None


class DecisionStore(Protocol):
    """The kept decisions and actions. Every call may raise TryLater (store down)."""

    def decisions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredDecision]:
        """Return decisions, newest first."""

    def decision(self, number: int) -> StoredDecision | None:
        """Return one decision."""

    def grounds(self, number: int) -> GroundsKept | None:
        """Return what decision *number* was made from; None where that is not kept."""

    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]:
        """Return the numbers of the decisions of the same pool before and after *stored*; None where none is kept."""

    def followed(self, number: int) -> Sequence[StoredAction]:
        """Return the actions that decision *number* led to, oldest first."""

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        """Return actions, newest first."""
