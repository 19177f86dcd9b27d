"""Where the time comes from."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where `now` comes from: called once per step."""

    def now(self) -> datetime:
        """Return the time, timezone-aware UTC."""
