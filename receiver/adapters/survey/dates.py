"""The time as an answer's ``Date`` header tells it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

RESOLUTION = timedelta(seconds=1)  # a Date has whole seconds, cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
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
