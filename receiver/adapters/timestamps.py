"""Timestamps as Civo, Kubernetes and Alertmanager write them, as aware UTC datetimes."""

from datetime import UTC, datetime


def moment(text: object) -> datetime | None:
    """Return the RFC 3339 time *text* in UTC, or None when it is none.

    Digits beyond microseconds are dropped (Go writes nanoseconds); a time without a zone is UTC. Go's zero
    time, year 1, stands for "no time" and gives None.
    """
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if parsed.year <= 1:
        return None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
