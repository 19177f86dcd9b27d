"""What /metrics says of messages to people: how many wait, and how each destination takes them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client.core import Metric

from receiver.metrics.families import counter, filled, gauge, moment

NOTICE_STATES = ("pending", "sent", "failed")
OUTCOMES = ("delivered", "failed")


def told(counts: Mapping[str, Any], destinations: Sequence[str], now: datetime) -> Iterator[Metric]:
    """Yield every family from the store's totals; *destinations* (names without secrets) start at 0."""
    notices = filled(counts.get("notices"), [(state,) for state in NOTICE_STATES])
    yield gauge("notices", "Notices in the outbox by state.", notices, "state")
    since = moment(counts.get("oldest_notice_at"))
    age = max(0.0, (now - since).total_seconds()) if since else 0.0
    yield gauge("notices_oldest_seconds", "Age of the oldest pending notice; 0 when none is.", [((), age)])
    known = [(name, outcome) for name in destinations for outcome in OUTCOMES]
    text = "Messages by destination: those that it took and tries that failed."
    yield counter("messages", text, filled(counts.get("messages"), known), "destination", "outcome")
