"""What one delivery of Alertmanager may be."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from receiver.config.fields import units
from receiver.config.mistakes import Wrong
from receiver.config.section import Section

LARGEST = 31 * 1024 * 1024  # with its head it is below what all requests together may hold (`gunicorn_worker`)


def delivery_bytes(value: Any) -> int:
    """Return a number of bytes, 1 up to `LARGEST`; raise Wrong."""
    number = units(value)
    if number > LARGEST:
        raise Wrong(f"{number} bytes are more than all requests together may hold", f"write at most {LARGEST}")
    return number


DeliveryBytes = Annotated[int, BeforeValidator(delivery_bytes)]


class Webhook(Section):
    """What one delivery may be."""

    max_bytes: DeliveryBytes = 16 * 1024 * 1024
    """the largest delivery that is taken, in bytes"""
