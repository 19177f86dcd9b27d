"""A clock that a test moves."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass
class FixedClock:
    """Shows *at* until it is moved."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def pass_time(self, duration: timedelta) -> datetime:
        self.at += duration
        return self.at
