"""Destinations with invented secrets, and a clock that is moved by hand."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from receiver.core.notices.grouping import PageLinks

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#gpu"
SLACK_API = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
TELEGRAM = "tgram://123456789:abcdefg_hijklmnop/12315544/"
TELEGRAM_API = "https://api.telegram.org/bot123456789:abcdefg_hijklmnop/sendMessage"
LINKS = PageLinks()  # no address: a message names commands and files
SECRETS = ("T1JJ3T3L2", "A1BRTD4JD", "TIiajkdnlazkcOXrIdevi7FQ", "123456789", "abcdefg_hijklmnop")


@dataclass
class FixedClock:
    """Shows *at* until it is moved."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def pass_time(self, duration: timedelta) -> datetime:
        self.at += duration
        return self.at
