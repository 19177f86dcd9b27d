"""What was decided and done before now: read by pages, API and command line, and by a step that compares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from receiver.core.actions import Action, Decision, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision with its row number."""

    id: int
    decision: Decision


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

    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]:
        """Return the numbers of the decisions of the same pool before and after *stored*; None where none is kept."""

    def followed(self, number: int) -> Sequence[StoredAction]:
        """Return the actions that decision *number* led to, oldest first."""

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        """Return actions, newest first."""
