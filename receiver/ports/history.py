"""The part of the ledger that the pages draw over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from receiver.core.explain.samples import Sample, Turn
from receiver.core.model.signals import Alert
from receiver.core.notices.sentences import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An alert as it was delivered first, at *at*: repeats of the same firing, or of its end, are left out."""

    alert: Alert
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A notice of the outbox with what became of it: *sent_at* and *given_up_at* are None while it is delivered."""

    id: int
    notice: Notice
    at: datetime
    attempts: int = 0
    sent_at: datetime | None = None
    given_up_at: datetime | None = None
    last_error: str = ""


class HistoryStore(Protocol):
    """What was seen lately. Every call may raise TryLater (store down)."""

    def keep_samples(self, found: Sequence[Sample], doing: Sequence[Turn] | None, at: datetime) -> None:
        """Keep *found* unless samples of this minute are kept, and of *doing* what is news, in one transaction.

        A node that *doing* no longer names is gone; None says that nobody knows what any node does. Samples are kept
        for 8 days, turns for as long unless they are a living node's last."""

    def samples(self, since: datetime, until: datetime, *, pool: str) -> Sequence[Sample]:
        """Return what was sampled of *pool* from *since* to *until*, oldest first."""

    def utilizations(self, since: datetime, until: datetime) -> Sequence[tuple[str, datetime, float | None]]:
        """Return pool, time and utilization (None: unknown) of each sample from *since* to *until*, oldest first."""

    def turns(self, pool: str, since: datetime, until: datetime) -> Sequence[Turn]:
        """Return the turns of the nodes of *pool* up to *until*, oldest first, each node's last before *since* too."""

    def arrivals(self, since: datetime, until: datetime, *, limit: int = 500) -> Sequence[Arrival]:
        """Return the alerts that came from *since* to *until*, newest first."""

    def messages(
        self, since: datetime, until: datetime, *, pool: str | None = None, limit: int = 200
    ) -> Sequence[Told]:
        """Return what was put into the outbox from *since* to *until*, newest first; with *pool* what is about it."""

    def undelivered(self, *, limit: int = 20) -> Sequence[Told]:
        """Return what waits in the outbox, oldest first."""
