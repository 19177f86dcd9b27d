"""The one place that reads the wall clock."""

from datetime import UTC, datetime


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        """Return the present moment, timezone-aware UTC."""
        return datetime.now(UTC)  # noqa: TID251 (this is the place)
