"""What reports keep beside usage."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from receiver.core.model.charges import Charged
from receiver.core.report.in_use import InUse
from receiver.core.report.standstills import Spoke
from receiver.core.report.units import Counted
from receiver.ports.overrides import StoredOverride


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

    def spoken(self, since: datetime, until: datetime) -> Sequence[Spoke]:
        """Return the decisions between *since* and *until* and each pool's last one before, oldest first."""

    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]:
        """Return the overrides that were in force at some time from *since* to *until*, oldest first."""

    def charged_of(self, month: str) -> Charged | None:
        """Return Civo's last answer on what it charged in *month*."""

    def close_report(self, month: str, scope: str, document: Mapping[str, Any], at: datetime) -> None:
        """Keep the finished *document* of a report for good; one that is kept already stays as it is.

        Only one that is later than *at* gives way: it was made under a clock that was ahead.
        """

    def closed_report(self, month: str, scope: str, now: datetime) -> Mapping[str, Any] | None:
        """Return the finished document of *scope* (`receiver.core.report.document.scope_of`), None without one that
        was made by *now*."""

    def closed_scopes(self, month: str, now: datetime) -> frozenset[str]:
        """Return the scopes of *month* whose finished documents were made by *now*."""

    def watched(self) -> Mapping[str, datetime]:
        """Return since when each pool is known, by its id."""
