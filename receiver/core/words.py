"""Numbers in sentences."""

import math
from datetime import timedelta


def some(count: int, noun: str) -> str:
    """*count* and *noun*, in the plural unless there is exactly one: ``1 node``, ``0 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def lasting(length: timedelta) -> str:
    """*length* as Prometheus writes it, to the second: ``2h``, ``1h30m``, ``45s``."""
    seconds = int(length.total_seconds())
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def span(seconds: float) -> str:
    """Return a duration in the one or two units people think in."""
    whole = math.floor(abs(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        hours, minutes = whole // 3600, whole % 3600 // 60
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = whole // 86400, whole % 86400 // 3600
    return f"{days} d {hours} h" if hours else f"{days} d"


def brief(seconds: float) -> str:
    """Return a duration in the one or two units that a column has room for: ``45s``, ``2m05s``, ``3h10m``, ``9d4h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"
