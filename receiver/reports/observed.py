"""What act mode would have cost since this was installed, as API, pages and commands have it."""

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Annotated, Self

from receiver.core.report.would_have import WouldHave, conclusion, waits
from receiver.reports.document import Cents, Count, Listed, Moment, Positive, Published, says


class WouldChangeDocument(Published):
    """A change that would have been made."""

    at: Moment | None = None
    pool: Annotated[str, says("its name")] = ""
    before: Annotated[Count, says("nodes", alias="from")] = 0
    after: Annotated[Count, says("nodes", alias="to")] = 0
    work: Annotated[str, says("the first that growth would have been for; empty for a removal")] = ""


class ObservedDocument(Published):
    """A replay of the time since the installation, at most 30 days. Amounts are of paid units that began in it."""

    at: Annotated[Moment | None, says("when it was replayed, or last tried to")] = None
    since: Moment | None = None
    until: Moment | None = None
    would_usd: Annotated[Cents | None, says("the cost of act mode; null: not replayed yet")] = None
    margin_usd: Annotated[Cents | None, says("by how much that may be wrong")] = None
    always_on_usd: Annotated[Cents | None, says("of enough nodes for every pod at once, all the time")] = None
    as_run_usd: Annotated[Cents | None, says("of the nodes that were there; null: a price is unknown")] = None
    always_on: Annotated[Mapping[str, Count], says("these nodes by pool name")] = {}
    bought: Annotated[Count, says("nodes")] = 0
    removed: Annotated[Count, says("nodes")] = 0
    pods: Annotated[Count, says("that were replayed")] = 0
    wait_p95_seconds: Annotated[Positive | None, says("of pods, from creation to start")] = None
    as_run_wait_p95_seconds: Positive | None = None
    changes: Annotated[Listed[WouldChangeDocument], says("the latest 50, newest first")] = ()
    changes_total: Count = 0
    notes: Annotated[Listed[str], says("what is missing in it")] = ()
    problem: Annotated[str, says("why there is no newer one, else empty")] = ""

    @property
    def saved_usd(self) -> Decimal | None:
        """What act mode would have saved beside the pools as they ran; None where that is not known."""
        return None if self.as_run_usd is None or self.would_usd is None else self.as_run_usd - self.would_usd

    @property
    def conclusion(self) -> str:
        """The sum in a sentence, for pages and commands; empty while there is none."""
        return conclusion(self.value) if self.since is not None else ""

    @property
    def waits(self) -> str:
        """The waits in a sentence, likewise."""
        return waits(self.value) if self.since is not None else ""

    @property
    def value(self) -> WouldHave:
        """It as a value, without the changes."""
        return WouldHave(**{f.name: getattr(self, f.name) for f in fields(WouldHave) if f.name != "changes"})

    @classmethod
    def of_value(cls, value: WouldHave) -> Self:
        """Return the document of *value*."""
        changes = tuple(WouldChangeDocument.of(change) for change in value.changes)
        return cls.of(value, changes=changes, always_on=dict(value.always_on))
