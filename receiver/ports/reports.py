"""What reports keep beside usage."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from receiver.core.report.units import Counted


class ReportStore(Protocol):
    """The counts of units of work, by calendar month. Every call may raise TryLater (store down)."""

    def keep_unit_count(self, counted: Counted) -> None:
        """Keep *counted* in the place of the last count of its month and name."""

    def unit_counts(self, month: str) -> Mapping[str, Counted]:
        """Return the last count of each unit of *month*, by name."""

    def watched(self) -> Mapping[str, datetime]:
        """Return since when each pool is known, by its id."""
