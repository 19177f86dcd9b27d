"""Timestamps as Civo, Kubernetes and Alertmanager write them, as aware UTC datetimes."""

from datetime import UTC, datetime


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
