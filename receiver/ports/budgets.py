"""Where allowances are kept that an operator set at run time."""

from collections.abc import Sequence
from typing import Protocol

from receiver.core.model.policy import BudgetChange
from receiver.core.notices.sentences import Notice


class BudgetStore(Protocol):
    """Allowances set for a month. Every write is one transaction; it may raise TryLater (store down)."""

    def change_budget(self, change: BudgetChange, notice: Notice) -> None:
        """Keep *change* durably and put *notice* into the outbox; it takes the place of the one before it."""

    def allowances_set(self, month: str) -> Sequence[BudgetChange]:
        """Return the changes in force in *month* (``2026-11``): the last of each scope and name."""
