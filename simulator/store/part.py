"""What the parts of the store in memory share: its health, the totals and the last times of events."""

from collections import Counter
from datetime import datetime

from receiver.ports import TryLater

REFUSALS = {  # by illness: what SQLite says
    "full": "store: database or disk is full",
    "read_only": "store: attempt to write a readonly database",
    "lost": "store: Cannot operate on a closed database.",
}


class StorePart:
    """Base of the parts. *illness*, one of REFUSALS, makes writes fail; a lost connection makes reads fail too."""

    def __init__(self) -> None:
        super().__init__()
        self.illness: str | None = None
        self._totals: Counter[tuple[str, ...]] = Counter()
        self._marks: dict[str, datetime] = {}

    def _reads(self) -> None:
        """Begin a read. Raises TryLater."""
        if self.illness == "lost":
            raise TryLater(REFUSALS[self.illness], code="store")

    def _writes(self) -> None:
        """Begin a write. Raises TryLater."""
        if self.illness is not None:
            raise TryLater(REFUSALS[self.illness], code="store")

    def _add(self, name: str, *labels: str, by: int = 1) -> None:
        """Add *by* to the total *name* of *labels*."""
        self._totals[name, *labels] += by
