"""Destinations with invented secrets, and what a courier delivers to them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import responses

from receiver.adapters.messages import Outbox
from receiver.core.notices.grouping import PageLinks
from tests.clocks import FixedClock

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#gpu"
SLACK_API = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
TELEGRAM = "tgram://123456789:abcdefg_hijklmnop/12315544/"
TELEGRAM_API = "https://api.telegram.org/bot123456789:abcdefg_hijklmnop/sendMessage"
LINKS = PageLinks()  # no address: a message names commands and files
SECRETS = ("T1JJ3T3L2", "A1BRTD4JD", "TIiajkdnlazkcOXrIdevi7FQ", "123456789", "abcdefg_hijklmnop")

CHAT, CHAT_API = "json://chat.example.com", "http://chat.example.com/"
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def delivered_messages(wire: responses.RequestsMock, api: str = CHAT_API) -> list[dict[str, Any]]:
    """What the destination got, oldest first."""
    return [json.loads(call.request.body or "{}") for call in wire.calls if call.request.url == api]


def deliver_until(outbox: Outbox, clock: FixedClock, until: datetime) -> None:
    """Let the courier come by every ten seconds."""
    while clock.at <= until:
        outbox.deliver_due(clock.at)
        clock.pass_time(10 * SECOND)
