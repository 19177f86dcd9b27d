"""Timestamps as Civo, Kubernetes and Alertmanager write them, as aware UTC datetimes, and what they say of clocks."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

RESOLUTION = timedelta(seconds=1)  # a Date has whole seconds, cut off


def moment(text: object) -> datetime | None:
    """Return the RFC 3339 time *text* in UTC, or None when it is none, or none that UTC can say.

    Digits beyond microseconds are dropped (Go writes nanoseconds); a time without a zone is UTC. Go's zero
    time, year 1, stands for "no time" and gives None.
    """
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text.strip())
        if parsed.year <= 1:
            return None
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):  # the last day of year 9999, west of Greenwich
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """An answer's time *there*, our clock *here* when it had come, and how long it *took*."""

    there: datetime
    here: datetime
    took: timedelta

    @property
    def ahead(self) -> timedelta:
        """How far our clock is ahead, at least: what the answer's way and whole seconds explain is taken off."""
        apart = self.here - self.there
        if apart >= timedelta(0):
            return max(timedelta(0), apart - RESOLUTION - self.took)
        return apart


def http_date(text: str | None) -> datetime | None:
    """Return the time that a ``Date`` header says, None for none that can be read."""
    try:
        found = parsedate_to_datetime(text or "")
    except (ValueError, TypeError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
