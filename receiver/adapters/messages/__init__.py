"""Messages to people and machines: destinations, the formats they get, and the outbox that delivers to them."""

from receiver.adapters.messages.destinations import (
    Destination,
    check_destinations,
    check_every_destination,
    keep_secrets_out_of_logs,
    oddities,
    opened,
)
from receiver.adapters.messages.outbox import Outbox, next_try
from receiver.adapters.messages.text import disarm, hide

__all__ = [
    "Destination",
    "Outbox",
    "check_destinations",
    "check_every_destination",
    "disarm",
    "hide",
    "keep_secrets_out_of_logs",
    "next_try",
    "oddities",
    "opened",
]
