"""What reports keep beside usage."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from receiver.core.report.in_use import InUse
from receiver.core.report.units import Counted


class ReportStore(Protocol):
    """The counts of units of work, by calendar month. Every call may raise TryLater (store down)."""

    def keep_unit_count(self, counted: Counted) -> None:
        """Keep *counted* in the place of the last count of its month and name."""

    def unit_counts(self, month: str) -> Mapping[str, Counted]:
        """Return the last count of each unit of *month*, by name."""

    def keep_in_use(self, found: Sequence[InUse]) -> None:
        """Add the seconds of *found* to those of the same month and workload, and keep the higher numbers."""

    def in_use(self, month: str) -> Sequence[InUse]:
        """Return how many of its GPUs each workload of *month* used at once."""

    def watched(self) -> Mapping[str, datetime]:
        """Return since when each pool is known, by its id."""
